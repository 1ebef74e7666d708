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
    let fault = "18:10 `console.issuer`: `[issuer.people]` has no `roles`: nobody could do anything there";
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
    assert!(half[0].contains("`console.tls_key` has no use without `console.tls_certificate`"), "{half:?}");
}

#[test]
fn a_console_is_no_environment() {
    let text = format!(
        "{}{PEOPLE}roles = \"r\"\n[console]\nlisten = \"127.0.0.1:1\"\nissuer = \"people\"\n",
        ISSUER.trim_start()
    );
    let told = wrong(&text, &[], &[]);
    assert_eq!(told, ["- there is neither a `[production]` nor a `[sandbox]` section"]);
}
