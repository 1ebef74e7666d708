use super::*;

const PEOPLE: &str = "[issuer.people]\nissuer = \"p\"\naudience = [\"a\"]\nenvironments = []\n\
                      algorithms = [\"RS256\"]\njwks_url = \"https://p.example/keys\"\n";

/// The small configuration with its issuer, then this from line 10 on.
fn with(added: &str) -> String {
    format!("{MINIMAL}{}{added}", ISSUER.trim_start())
}

#[test]
fn there_is_a_console_where_it_is_written_and_nowhere_else() {
    assert!(good(MINIMAL).console.is_none());
    let text =
        with(&format!("{PEOPLE}roles = \"roles\"\n[console]\nlisten = \"127.0.0.1:8083\"\nissuer = \"people\"\n"));
    let console = good(&text).console.unwrap();
    assert_eq!((console.listen.port(), console.issuer.as_str(), console.tls.is_none()), (8083, "people", true));
    let variables = [("SLUICE_CONSOLE_LISTEN", "127.0.0.1:1"), ("SLUICE_CONSOLE_ISSUER", "people")];
    let text = with(&format!("{PEOPLE}roles = \"roles\"\n"));
    assert_eq!(read_in(&text, &[], &variables).unwrap().config.console.unwrap().listen.port(), 1);
}

#[test]
fn a_console_that_nobody_could_use_is_refused() {
    let console = |listen: &str, issuer: &str| format!("[console]\n{listen}{issuer}");
    let (listen, people) = ("listen = \"127.0.0.1:8083\"\n", "issuer = \"people\"\n");
    let roles = "roles = \"roles\"\n";
    let told = |text: &str| wrong(&with(text), &[], &[]);
    let nobody = told(&console(listen, people));
    assert_eq!(nobody, ["12:10 `console.issuer`: there is no `[issuer.people]`"]);
    let powerless = told(&format!("{PEOPLE}{}", console(listen, people)));
    let fault = "18:10 `console.issuer`: `[issuer.people]` has no `roles`: nobody could do anything at the console";
    assert_eq!(powerless, [fault]);
    let homeless = told(&format!("{PEOPLE}{roles}"));
    assert_eq!(homeless, ["13:16 `issuer.people.environments`: the list is empty"]);
    let silent = told(&format!("{PEOPLE}{roles}{}", console("", people)));
    assert_eq!(silent, ["17:2 `console.listen` is missing"]);
    let nameless = told(&format!("{PEOPLE}{roles}{}", console(listen, "")));
    assert!(nameless.contains(&"17:2 `console.issuer` is missing".to_owned()), "{nameless:?}");
    let same = told(&format!("{PEOPLE}{roles}{}", console("listen = \"127.0.0.1:8080\"\n", people)));
    assert!(same[0].contains("`console.listen` and `production.listen` are the same address"), "{same:?}");
    let half = told(&format!("{PEOPLE}{roles}{}tls_key = \"x\"\n", console(listen, people)));
    assert!(half[0].contains("`console.tls_key` has no effect without `console.tls_certificate`"), "{half:?}");
}

#[test]
fn a_console_is_no_environment() {
    let text = format!(
        "{}{PEOPLE}roles = \"r\"\n[console]\nlisten = \"127.0.0.1:1\"\nissuer = \"people\"\n",
        ISSUER.trim_start()
    );
    let told = wrong(&text, &[], &[]);
    assert_eq!(told, ["- the file has neither a `[production]` nor a `[sandbox]` section"]);
}

const CONSOLE: &str = "[console]\nlisten = \"127.0.0.1:8083\"\nissuer = \"people\"\n";

#[test]
fn a_provider_is_the_issuer_of_the_console() {
    let people = PEOPLE.replace("\"p\"", "\"https://id.example\"");
    let provider = "public_url = \"https://Sluice.Example:443\"\noidc_client_id = \"a\"\n";
    let console = good(&with(&format!("{people}roles = \"r\"\n{CONSOLE}{provider}"))).console.unwrap();
    let oidc = console.oidc.unwrap();
    assert_eq!((oidc.issuer.as_str(), oidc.client_id.as_str()), ("https://id.example", "a"));
    assert_eq!(
        (console.origin.as_deref(), oidc.origin.as_str()),
        (Some("https://sluice.example"), oidc.origin.as_str())
    );
    assert_eq!((oidc.scopes, console.token_sign_in), (vec!["openid".to_owned()], true));
    assert_eq!((console.sessions.idle.as_secs(), console.sessions.longest.as_secs()), (900, 28_800));

    let provider = &format!("{provider}token_sign_in = false\n");
    let told = |people: &str, added: &str| wrong(&with(&format!("{people}roles = \"r\"\n{CONSOLE}{added}")), &[], &[]);
    let another = told(&people, &provider.replace("\"a\"", "\"b\""));
    assert_eq!(
        another,
        ["21:18 `console.oidc_client_id`: `b` is not in `issuer.people.audience`: every sign-in would be refused"]
    );
    let nowhere = told(PEOPLE, provider);
    assert_eq!(
        nowhere,
        [
            "21:18 `issuer.people.issuer` is not the URL of an OpenID provider: the URL does not begin with `https://` or `http://`"
        ]
    );
    let homeless = told(&people, "oidc_client_id = \"a\"\n");
    assert!(
        homeless.contains(&"20:18 `console.oidc_client_id` has no effect without `console.public_url`".to_owned()),
        "{homeless:?}"
    );
    for (setting, needs) in [("oidc_name = \"x\"", "oidc_client_id"), ("oidc_client_secret = \"x\"", "oidc_client_id")]
    {
        let lonely = told(&people, &format!("{setting}\n"));
        assert!(
            lonely.iter().any(|one| one.contains(&format!("has no effect without `console.{needs}`"))),
            "{lonely:?}"
        );
    }
    for url in [
        "sluice.example",
        "https://sluice.example/x",
        "https://a@sluice.example",
        "https://sluice.example?x",
        "ftp://x",
    ] {
        let odd = told(&people, &format!("public_url = \"{url}\"\n"));
        assert!(odd.len() == 1 && odd[0].starts_with("20:14 `console.public_url`"), "{url}: {odd:?}");
    }
}

#[test]
fn cookies_that_others_could_see_are_told() {
    let warnings = |console: &str| {
        let text = with(&format!("{PEOPLE}roles = \"r\"\n{console}"));
        let reading = read_in(&text, &[], &[]).unwrap();
        reading.warnings.iter().filter(|finding| finding.text.contains("sessions")).count()
    };
    let public = CONSOLE.replace("127.0.0.1", "0.0.0.0");
    assert_eq!((warnings(CONSOLE), warnings(&public)), (0, 1));
    assert_eq!(warnings(&format!("{public}public_url = \"http://sluice.example\"\n")), 2);
    assert_eq!(warnings(&format!("{public}public_url = \"https://sluice.example\"\n")), 0);
}
