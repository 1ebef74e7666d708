use super::settings::Used;
use super::*;
use crate::base::ed25519;

const MINIMAL: &str = "[production]\nlisten = \"127.0.0.1:8080\"\nupstream = \"https://api.example.com\"\n";

/// Stands below what has no issuer of its own, so that a case is about what it shows.
const ISSUER: &str = "\n[issuer.main]\nissuer = \"https://issuer.example.com\"\naudience = [\"sluice\"]\n\
                      environments = [\"production\", \"sandbox\"]\nalgorithms = [\"RS256\"]\n\
                      jwks_url = \"https://issuer.example.com/keys\"\n";

/// A key that nobody guesses.
const SEAL_KEY: &str = "5e6f5e6f5e6f5e6f5e6f5e6f5e6f5e6f5e6f5e6f5e6f5e6f5e6f5e6f5e6f5e6f";

/// The same, of a store that warns of nothing.
const STORE: &str = "\n[store]\nseal_key = { file = \"seal.key\" }\n";

mod clients;
mod console;
mod dangers;
mod issuers;
mod shared_store;
mod shown;
mod traces;
mod webhooks;
mod witnesses;

/// Reads a text as `etc/sluice.toml`, beside files and under variables.
fn read_in(text: &str, files: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<ConfigReading, Vec<Finding>> {
    let read_file = |path: &Path| {
        let files = files.iter().chain(&[("seal.key", SEAL_KEY)]);
        let named = files.clone().find(|(name, _)| path == Path::new("etc").join(name));
        named.map(|(_, content)| content.as_bytes().to_vec()).ok_or(io::ErrorKind::NotFound.into())
    };
    let is_folder = |path: &Path| ["etc", "etc/schemas", "etc/policies"].map(Path::new).contains(&path);
    let issuer = if text.contains("[issuer") { "" } else { ISSUER };
    let store = if text.contains("[store") { "" } else { STORE };
    let text = &format!("{text}{issuer}{store}");
    let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
    let world = ConfigWorld { environment, read_file: &read_file, is_folder: &is_folder };
    match parse_config(text, "etc/sluice.toml", &world) {
        Ok(reading) => Ok(ConfigReading { warnings: without_usual(reading.warnings), ..reading }),
        Err(findings) => Err(without_usual(findings)),
    }
}

/// Leaves out what almost every small configuration is warned of; a case of the command shows it.
fn without_usual(findings: Vec<Finding>) -> Vec<Finding> {
    let usual = [
        "`audit.checkpoint_key` is not set",
        "is the issuer of callers, too",
        "`production.credential` is not set",
        "can make tokens of anybody",
        "`loosening` is `free`",
    ];
    findings.into_iter().filter(|finding| !usual.iter().any(|text| finding.text.contains(text))).collect()
}

fn good(text: &str) -> Config {
    read_in(text, &[], &[]).unwrap().config
}

/// Returns the faults, one a line, without severity and remedy.
fn wrong(text: &str, files: &[(&str, &str)], variables: &[(&str, &str)]) -> Vec<String> {
    let findings = read_in(text, files, variables).unwrap_err();
    findings.iter().map(|f| format!("{} {}", f.place.as_deref().unwrap_or("-"), f.text)).collect()
}

fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn a_small_file_means_the_defaults() {
    let config = good(MINIMAL);
    let [production] = config.environments.as_slice() else { panic!("one environment") };
    assert_eq!(production.environment.as_str(), "production");
    assert_eq!((production.upstream.host.as_str(), production.upstream.port), ("api.example.com", 443));
    assert!(production.tls.is_none());
    assert_eq!((config.limits.body_bytes, config.limits.answer_bytes), (1 << 20, 4 << 20));
    assert_eq!((config.timeouts.answer.as_secs(), config.timeouts.grace.as_secs()), (30, 95));
    // The last byte may arrive 22 s (reach upstream) + 30 s (write) + 30 s (acknowledgement) after the commit.
    let quiet = QuietTime::of(&config.timeouts);
    assert_eq!((quiet.from_first_byte.as_secs(), quiet.from_commit.as_secs()), (180, 202));
    assert_eq!((config.answers, config.log.format, config.threads), (AnswerMode::Observe, LogFormat::Auto, 0));
}

#[test]
fn the_reference_that_ships_is_current_and_means_the_defaults() {
    // Wrong? `sluice init --reference > deploy/sluice.toml`
    assert_eq!(include_str!("../../deploy/sluice.toml"), reference());
    // Its upstream is not on this machine: production demands a key.
    let key = "5a".repeat(32);
    let reference = read_in(&reference(), &[], &[("SLUICE_STORE_SEAL_KEY", &key)]).unwrap().config;
    let minimal = good(MINIMAL);
    assert_eq!(format!("{:?}", reference.timeouts), format!("{:?}", minimal.timeouts));
    assert_eq!(format!("{:?}", reference.limits), format!("{:?}", minimal.limits));
    assert_eq!(reference.environments.len(), 2);
    assert!(reference.catalog.schemas.is_none());
    let secrets = [
        (FIRST_SECRET, "0123456789abcdef0123456789abcdef\n"),
        ("production.token", "token.of.production"),
        ("sandbox.token", "token.of.sandbox"),
    ];
    let first = read_in(&first(&BTreeMap::new()), &secrets, &[]).unwrap();
    assert_eq!((first.config.environments.len(), first.config.issuers.len(), first.warnings.len()), (2, 1, 1));
}

#[test]
fn every_example_of_the_reference_is_of_the_right_type() {
    let (certificate, key) = certificate();
    let (authority, revoked) = clients::authority("callers");
    let (former, checkpoint) = ("a1b2".repeat(16), ed25519::to_pem(&[7; 32]));
    let files = [
        ("tls/certificate.pem", certificate.as_str()),
        ("tls/key.pem", &key),
        ("tls/upstream-ca.pem", &certificate),
        ("tls/issuer-ca.pem", &certificate),
        ("tls/client-ca.pem", &authority),
        ("tls/client-revoked.pem", &revoked),
        ("tls/redis-ca.pem", &certificate),
        ("redis.password", "of the redis\n"),
        ("sentinel.password", "of the sentinels\n"),
        ("production.token", "token.of.production"),
        ("sandbox.token", "token.of.sandbox"),
        ("seal.key", SEAL_KEY),
        ("seal-before.key", &former),
        ("checkpoint.pem", checkpoint.reveal()),
        ("operand.key", "a key of operands"),
        ("webhook.secret", "whsec_c2x1aWNlLXRlc3Qtc2VjcmV0LW51bWJlci1vbmU=\n"),
        ("tls/webhook-ca.pem", &certificate),
        ("tls/witness-ca.pem", &certificate),
        ("oidc.secret", "of the provider and of us"),
        ("otlp.secret", "Bearer of-the-collector"),
    ];
    let is_setting = |line: &str| line.split_once(" = ").is_some_and(|(name, _)| !name.contains(['`', ' ']));
    let instead_of_another = SECTIONS.iter().flat_map(|section| section.settings).filter_map(|s| match s.absent {
        Absent::Another { example, used } if used != Used::InReference => Some(format!("{} = {example}", s.name)),
        _ => None,
    });
    // The Redis has an address, or Sentinels or a cluster that name one.
    let cluster = r#"cluster = ["redis-1.example.com:6379", "redis-2.example.com:6379", "redis-3.example.com:6379"]"#;
    let instead_of_sentinels = [r#"url = { file = "redis.url" }"#, cluster].map(str::to_owned);
    let left_out: Vec<String> = instead_of_another.chain(instead_of_sentinels).collect();
    let uncommented = |line: &str| match line.strip_prefix("# ") {
        Some(heading) if heading.starts_with('[') && heading.ends_with(']') => format!("{heading}\n"),
        Some(rest) if is_setting(rest) && !left_out.iter().any(|line| line == rest) => format!("{rest}\n"),
        _ => format!("{line}\n"),
    };
    let text: String = reference().lines().map(uncommented).collect();
    let settings = text.lines().filter(|line| is_setting(line)).count();
    assert_eq!(settings + left_out.len(), SECTIONS.iter().map(|section| section.settings.len()).sum::<usize>());
    let reading = read_in(&text, &files, &[]).unwrap();
    let [sign_in, warning] = reading.warnings.as_slice() else { panic!("{:?}", reading.warnings) };
    assert!(sign_in.text.contains("`console.token_sign_in` is true beside `oidc_client_id`"), "{sign_in}");
    assert!(warning.text.contains("have separate stores"), "the examples have a Redis for rates alone: {warning}");
    assert!(reading.config.console.is_some_and(|console| console.tls.is_some()));
    assert!(
        reading
            .config
            .environments
            .iter()
            .all(|e| e.tls.as_ref().is_some_and(|t| t.clients.is_some()) && e.upstream.ca_pem.is_some())
    );
    assert!(matches!(&reading.config.issuers[0].keys, KeySource::Url { ca_pem: Some(_), .. }));
    assert_eq!(reading.config.catalog.schemas.as_deref(), Some(Path::new("etc/schemas")));
}

#[test]
fn each_fault_is_told_with_its_place() {
    for (added, told) in [
        ("[timeouts]\nbody = 5", "5:1 there is no setting `timeouts.body`"),
        ("[timeout]\nbody_ms = 5", "4:2 there is no section `timeout`"),
        ("lisen = \"x\"", "4:1 there is no setting `production.lisen`"),
        (
            "[timeouts]\nbody_ms = \"5s\"",
            "5:11 `timeouts.body_ms`: a text is written; a whole number of milliseconds is expected",
        ),
        (
            "[timeouts]\nbody_ms = 0",
            "5:11 `timeouts.body_ms`: the number is out of range: it must be 1 to 86400000 milliseconds",
        ),
        (
            "[timeouts]\nbody_ms = -1",
            "5:11 `timeouts.body_ms`: the number is out of range: it must be 1 to 86400000 milliseconds",
        ),
        (
            "[timeouts]\nbody_ms = 1.5",
            "5:11 `timeouts.body_ms`: a number with a fraction is written; a whole number of milliseconds is expected",
        ),
        (
            "[limits]\nbody_bytes = 99999999999999999999",
            "5:14 `limits.body_bytes`: the number is out of range: it must be 1 to 67108864 bytes",
        ),
        ("[log]\nlevel = \"inof\"", "5:9 `log.level`: `inof` is not a valid choice"),
        ("[probes]\nlisten = \"localhost:1\"", "5:10 `probes.listen`: `localhost:1` is not an address and a port"),
        ("[catalog]\nenable = [\"a\",\n  1]", "6:3 `catalog.enable`: a number is written; a text is expected"),
        (
            "[catalog]\nschemas = \"none\"",
            "5:11 `catalog.schemas`: the folder `etc/none` does not exist or is not readable",
        ),
        (
            "allow_plain_upstream = \"yes\"",
            "4:24 `production.allow_plain_upstream`: a text is written; `true` or `false` is expected",
        ),
        (
            "upstream_ca = \"none.pem\"",
            "4:15 `production.upstream_ca`: the file `etc/none.pem` cannot be read: entity not found",
        ),
        ("upstream_ca = \"text.pem\"", "4:15 `production.upstream_ca`: `text.pem`: it contains no certificate"),
        ("[[sandbox]]", "4:3 `sandbox` is a section"),
        ("[sandbox]\nlisten = \"127.0.0.1:8081\"", "4:2 `sandbox.upstream` is missing"),
        ("[production]", "4:2 the file is not valid TOML: duplicate key"),
        ("x = ", "4:5 the file is not valid TOML: string values must be quoted, expected literal string"),
        // Together:
        (
            "[probes]\nlisten = \"0.0.0.0:8080\"",
            "5:10 `probes.listen` and `production.listen` are the same address, 0.0.0.0:8080 and 127.0.0.1:8080",
        ),
        (
            "[timeouts]\nanswer_ms = 45_000",
            "5:13 `timeouts.grace_ms` (95000) is shorter than the longest write (107000 ms by the other timeouts): a shutdown would cut payments off",
        ),
        (
            "[timeouts]\nanswer_ms = 15_000\nupstream_max_ms = 14_000",
            "6:19 `timeouts.upstream_max_ms` (14000) is shorter than `timeouts.answer_ms` (15000): upstream may act as long as the gate waits for its answer",
        ),
        ("tls_certificate = \"x\"", "4:19 `production.tls_certificate` has no effect without `production.tls_key`"),
        (
            "[sandbox]\nlisten = \"127.0.0.1:1\"\nupstream = \"https://API.example.com:443/\"",
            "6:12 `sandbox.upstream` and `production.upstream` are the same: sandbox calls would move real money",
        ),
    ] {
        let found = wrong(&format!("{MINIMAL}{added}\n"), &[("text.pem", "no certificate")], &[]);
        assert_eq!(found.first().map(String::as_str), Some(told), "{added}: {found:?}");
    }
    assert_eq!(wrong("", &[], &[]), ["- the file has neither a `[production]` nor a `[sandbox]` section"]);
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_the_file() {
    let text = "answer = \"observe\"\n[production]\nlisten = 8080\n[log]\nlevel = 3\n[probes]\nlisten = \"x\"\n";
    let findings = read_in(text, &[], &[("SLUICE_LOG_LEVLE", "info")]).unwrap_err();
    let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    error: etc/sluice.toml:1:1: there is no setting `answer`
      remedy: did you mean `answers`?
    error: etc/sluice.toml:2:2: `production.upstream` is missing
      remedy: write for example `upstream = "https://api.example.com"`, or set `SLUICE_PRODUCTION_UPSTREAM`
    error: etc/sluice.toml:3:10: `production.listen`: a number is written; an address and a port as text is expected
    error: etc/sluice.toml:5:9: `log.level`: a number is written; one of `error`, `warn`, `info`, `debug`, `trace` is expected
    error: etc/sluice.toml:7:10: `probes.listen`: `x` is not an address and a port
      remedy: write an IP address and a port, such as `127.0.0.1:8080`, `0.0.0.0:8080` or `[::1]:8080`
    error: environment:SLUICE_LOG_LEVLE: no setting has this name
      remedy: did you mean `SLUICE_LOG_LEVEL`?
    "#);
}

#[test]
fn an_unknown_name_is_answered_with_what_may_have_been_meant() {
    for (added, remedy) in [
        ("[timeouts]\nbdoy_ms = 5", "did you mean `body_ms`?"),
        ("[log]\nbody_ms = 5", "`body_ms` belongs in `[timeouts]`"),
        ("[log]\nanswers = 5", "`answers` belongs at the top, above all sections"),
        ("[log]\nquux = 5", "the settings here are: format, level"),
        ("[timeout]", "did you mean `[timeouts]`?"),
        ("[isuer.main]", "did you mean `[issuer.NAME]`?"),
        ("[log]\naudience = []", "`audience` belongs in `[issuer.NAME]`"),
        ("[log]\nformat = \"jsno\"", "did you mean `json`?"),
    ] {
        let findings = read_in(&format!("{MINIMAL}{added}\n"), &[], &[]).unwrap_err();
        assert_eq!(findings[0].remedy.as_deref(), Some(remedy), "{added}");
    }
}

#[test]
fn plain_http_to_another_machine_is_refused_where_money_moves() {
    let section = |name: &str, url: &str, more: &str| {
        read_in(&format!("[{name}]\nlisten = \"127.0.0.1:1\"\nupstream = \"{url}\"\n{more}"), &[], &[])
    };
    let errors = section("production", "http://10.0.0.1", "").unwrap_err();
    assert!(errors[0].text.contains("plain HTTP") && errors[0].place.as_deref() == Some("3:12"));
    let warned = section("production", "http://10.0.0.1", "allow_plain_upstream = true").unwrap().warnings;
    assert!(warned.len() == 1 && warned[0].text.starts_with("`production.allow_plain_upstream`"), "{warned:?}");
    assert_eq!(section("production", "http://127.0.0.1", "").unwrap().warnings, []);
    assert_eq!(section("sandbox", "http://10.0.0.1", "").unwrap().warnings.len(), 1);
    assert!(section("sandbox", "http://10.0.0.1", "allow_plain_upstream = 1").is_err());
}

#[test]
fn a_variable_beats_the_file_and_may_be_all_there_is() {
    let variables = [
        ("SLUICE_PRODUCTION_LISTEN", "[::1]:9"),
        ("SLUICE_TIMEOUTS_BODY_MS", "1_500"),
        ("SLUICE_CATALOG_ENABLE", "acceptTos, other"),
        ("SLUICE_PRODUCTION_ALLOW_PLAIN_UPSTREAM", "true"),
        ("SLUICE_CONFIG", "elsewhere"),
        ("PATH", "/bin"),
    ];
    let config = read_in(&format!("{MINIMAL}[timeouts]\nbody_ms = 7\n"), &[], &variables).unwrap().config;
    assert_eq!(config.environments[0].listen.to_string(), "[::1]:9");
    assert_eq!(config.timeouts.body.as_millis(), 1_500);
    assert_eq!(config.catalog.enable, ["acceptTos", "other"]);

    let sandbox = [("SLUICE_SANDBOX_LISTEN", "127.0.0.1:0"), ("SLUICE_SANDBOX_UPSTREAM", "http://localhost:1")];
    assert_eq!(read_in("", &[], &sandbox).unwrap().config.environments[0].environment.as_str(), "sandbox");
    assert_eq!(wrong("", &[], &sandbox[..1]), ["- `sandbox.upstream` is missing"]);
}

#[test]
fn variables_that_look_like_settings_are_settings() {
    for (name, value, told) in [
        ("SLUICE_PRODUCTION_LISTN", "x", Some("SLUICE_PRODUCTION_LISTN no setting has this name")),
        ("SLUICE_QUUX", "x", Some("SLUICE_QUUX no setting has this name")),
        ("SLUICE_PRODUCTION_PORT", "8080", Some("SLUICE_PRODUCTION_PORT no setting has this name")),
        ("SLUICE_ANSWERS", "maybe", Some("SLUICE_ANSWERS `answers`: `maybe` is not a valid choice")),
        (
            "SLUICE_TIMEOUTS_BODY_MS",
            "5s",
            Some(
                "SLUICE_TIMEOUTS_BODY_MS `timeouts.body_ms`: a text is written; a whole number of milliseconds is expected",
            ),
        ),
        ("SLUICE_SERVICE_HOST", "10.0.0.1", None),
        ("SLUICE_PRODUCTION_SERVICE_PORT_HTTP", "8080", None),
        ("SLUICE_PORT", "tcp://10.0.0.1:8080", None),
        ("SLUICE_PORT_8080_TCP_ADDR", "10.0.0.1", None),
    ] {
        let found =
            read_in(MINIMAL, &[], &[(name, value)]).map(|_| ()).map_err(|_| wrong(MINIMAL, &[], &[(name, value)]));
        assert_eq!(found, told.map_or(Ok(()), |told| Err(vec![told.to_owned()])), "{name}");
    }
}

#[test]
fn a_secret_comes_by_three_ways_and_is_never_shown() {
    let (certificate, key) = certificate();
    let with_newline = format!("{key}\r\n\n");
    let files = [("c.pem", certificate.as_str()), ("k.pem", &with_newline), ("empty", "\n")];
    let of = |written: &str| format!("{MINIMAL}tls_certificate = \"c.pem\"\ntls_key = {written}\n");
    let plain = format!("'''{key}'''");
    let inner = key.lines().nth(1).unwrap();
    for (written, variables, warnings) in [
        (plain.as_str(), vec![], 1),
        ("{ file = \"k.pem\" }", vec![], 0),
        ("{ env = \"SLUICE_MY_KEY\" }", vec![("SLUICE_MY_KEY", key.as_str())], 0),
        ("{ file = \"none\" }", vec![("SLUICE_PRODUCTION_TLS_KEY", key.as_str())], 0),
    ] {
        let reading = read_in(&of(written), &files, &variables).unwrap();
        assert_eq!(reading.warnings.len(), warnings, "{written}");
        let tls = reading.config.environments[0].tls.as_ref().unwrap();
        assert_eq!(tls.key_pem.reveal().trim_end(), key.trim_end());
        let shown = format!("{reading:?}");
        assert!(!shown.contains(inner) && shown.contains("Secret(…)"));
    }
    let reading = read_in(&of("{ file = \"k.pem\" }"), &files, &[]).unwrap();
    let key_pem = reading.config.environments[0].tls.as_ref().unwrap().key_pem.reveal().to_owned();
    assert_eq!(key_pem, key.trim_end());
}

#[test]
fn a_secret_that_cannot_be_is_told_without_what_it_says() {
    let (certificate, key) = certificate();
    let (_, other_key) = self::certificate();
    let two = format!("{key}{key}");
    let files =
        [("c.pem", certificate.as_str()), ("two", &two), ("other", &other_key), ("empty", "\n"), ("text", "hunter2")];
    for (written, told) in [
        ("\"\"", "5:11 `production.tls_key`: the secret is empty"),
        ("{ file = \"empty\" }", "5:11 `production.tls_key`: the secret is empty"),
        ("{ env = \"EMPTY\" }", "5:11 `production.tls_key`: the secret is empty"),
        ("{ env = \"UNSET\" }", "5:19 `production.tls_key`: the environment variable `UNSET` is not set"),
        ("{ file = \"none\" }", "5:20 `production.tls_key`: the file `etc/none` cannot be read: entity not found"),
        ("{ file = \"text\", env = \"EMPTY\" }", "5:11 `production.tls_key`: a secret must have exactly one source"),
        ("{ }", "5:11 `production.tls_key`: a secret must have exactly one source"),
        ("{ path = \"text\" }", "5:20 `production.tls_key`: a secret has no `path`"),
        ("[\"hunter2\"]", "5:11 `production.tls_key`: a list is written; a secret is expected"),
        ("{ file = \"text\" }", "5:11 `production.tls_key`: it does not contain exactly one private key"),
        ("{ file = \"two\" }", "5:11 `production.tls_key`: it does not contain exactly one private key"),
        ("{ file = \"other\" }", "5:11 `production.tls_key`: the key does not belong to the first certificate"),
    ] {
        let text = format!("{MINIMAL}tls_certificate = \"c.pem\"\ntls_key = {written}\n");
        let findings = read_in(&text, &files, &[("EMPTY", "")]).unwrap_err();
        assert_eq!(wrong(&text, &files, &[("EMPTY", "")]).last().map(String::as_str), Some(told), "{written}");
        assert!(!format!("{findings:?}").contains("hunter2"), "{written}");
    }
    let url = "[production]\nlisten = \"127.0.0.1:8080\"\nupstream = \"https://me:hunter2@api.example.com\"\n";
    let findings = read_in(url, &[], &[]).unwrap_err();
    assert!(findings.len() == 1 && !format!("{findings:?}").contains("hunter2"), "{findings:?}");
}

#[test]
fn any_free_port_is_never_the_same() {
    let text = "[production]\nlisten = \"127.0.0.1:0\"\nupstream = \"http://localhost:1\"\n[probes]\nlisten = \"127.0.0.1:0\"\n";
    assert_eq!(good(text).probes.listen.port(), 0);
}

#[test]
fn what_is_stored_of_production_is_sealed_and_keys_have_names_of_their_own() {
    let store = |text: &str| {
        let files = [("former.key", "a1b2".repeat(16))];
        let files = files.each_ref().map(|(name, content)| (*name, content.as_str()));
        match read_in(&format!("{MINIMAL}[store]\n{text}\n"), &files, &[]) {
            Ok(reading) => reading.warnings.iter().map(|f| f.text.clone()).collect::<Vec<_>>(),
            Err(findings) => findings.iter().map(|f| f.text.clone()).collect(),
        }
    };
    let (key, former) = ("seal_key = { file = \"seal.key\" }", "former_seal_key = { file = \"former.key\" }");
    assert!(store("")[0].starts_with("`store.seal_key` is not set"));
    let is_refused = |text: &str| read_in(&format!("{text}[store]\n"), &[], &[]).is_err();
    assert!(is_refused(MINIMAL));
    // A simulator on this machine moves no money.
    assert!(!is_refused(&MINIMAL.replace("https://api.example.com", "http://127.0.0.1:9080")));
    let allowed = read_in(&format!("{MINIMAL}[store]\nallow_plain = true\n"), &[], &[]).unwrap();
    assert!(allowed.config.store.allow_plain && allowed.warnings[0].text.starts_with("`store.seal_key` is not set"));
    assert!(
        store(&format!("{key}\nallow_plain = true"))[0].starts_with("`store.allow_plain` takes records in plain text")
    );
    assert_eq!(store(key), [""; 0]);
    assert_eq!(store(&format!("{key}\n{former}")), [""; 0]);
    let same = store(&format!("{key}\n{former}\nformer_seal_key_id = \"1\""));
    assert!(same.len() == 1 && same[0].contains("are the same, `1`"), "{same:?}");
    let sandbox = MINIMAL.replace("production", "sandbox");
    assert_eq!(read_in(&format!("{sandbox}[store]\n"), &[], &[]).unwrap().warnings, []);
}

#[test]
fn a_key_of_operands_that_could_be_guessed_is_refused() {
    let read = |key: &str| {
        let text = format!("{MINIMAL}[audit]\noperand_key = \"{key}\"\n");
        read_in(&text, &[], &[]).map_or_else(|findings| findings.into_iter().map(|f| f.text).collect(), |_| Vec::new())
    };
    assert!(read("too short").iter().any(|text| text.starts_with("`audit.operand_key` is shorter than 16")));
    assert_eq!(read("sixteen or longer"), [""; 0]);
}
