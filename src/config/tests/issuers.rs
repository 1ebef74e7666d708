use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

use super::*;
use crate::stations::admit::Algorithm;

const SECRET: &str = "hunter2-hunter2-hunter2-hunter2-";
const JWKS: &str =
    r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
const REQUIRED: &str = "issuer = \"i\"\naudience = [\"a\"]\nenvironments = [\"production\"]\n";

const RSA: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAiYlqXZWsXt2mYR9gT5Sm
5Wk+pfhVDfiiIwkLiv3lY466v/vybAVch2hyHrI+iMndIP2LQejJKMmqszpMP331
dS76pWftWqUjf/zJkTvyMD0YlU+fkDO4fddMCwfgREKrwB49QXBv9rTrxvfv8l26
sLN/GBEiAfAgJ2DPeyERKlIwj3MVApS4reCQEKKaopbUcaOLoRHDyF07aGRO/1o9
mWshy31Yc3O7PceNKwEBf5co5Dys8Je1Rv6rI+d4hBBSAxNuj8nh+odHjL0hWSdD
aQ+pmHse2Ns8dSnIHfD0/pIap5bZWacZvHVHttljpZSp1sHRo2GMifSAzcBFUzQC
AwIDAQAB
-----END PUBLIC KEY-----";

const P521: &str = "-----BEGIN PUBLIC KEY-----
MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQBiwSGWMJGJSJKiwc1IqWbxlDi9aDz
5OpM3a4c2l61LJJ6p8ZLHWeZ2mzULg+mGKfNVrQxq2lz8C4gUHg5SlHULcABenoI
0/iOQJhYsq7jL4iz+MKGB5hfftRjANWnfq5SZApES0e2T0sn3xscb38ZfiXUwfx8
1UyH4HGWfhvgVpfAfZ8=
-----END PUBLIC KEY-----";

const COMPRESSED: &str = "-----BEGIN PUBLIC KEY-----
MDkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDIgADTGLBE4PYZib8KbecfFXlm8utwUMy
ztEpzvSE/FtV9Ns=
-----END PUBLIC KEY-----";

const ED448: &str = "-----BEGIN PUBLIC KEY-----
MEMwBQYDK2VxAzoAt5BVR8ncsMmR41xZy3Qc9q4h19VtZ1cDtYM3SyZFfI7pjPo+
YDbUk2qW3yP7eumlkS1RMo6OWtYA
-----END PUBLIC KEY-----";

/// The small configuration with one issuer, whose first lines are 5 to 8.
fn issuer(added: &str) -> String {
    format!("{MINIMAL}[issuer.main]\n{REQUIRED}{added}\n")
}

fn public_key(of: &'static rcgen::SignatureAlgorithm) -> String {
    KeyPair::generate_for(of).unwrap().public_key_pem()
}

#[test]
fn an_issuer_means_what_is_written_and_the_defaults() {
    let config = good(&issuer("algorithms = [\"ES256\", \"EdDSA\"]\njwks_url = \"http://localhost:1/keys\""));
    let [main] = config.issuers.as_slice() else { panic!("one issuer") };
    assert_eq!((main.name.as_str(), main.issuer.as_str(), main.audiences.as_slice()), ("main", "i", &["a".into()][..]));
    assert_eq!(main.environments, [crate::base::ids::Environment::Production]);
    assert_eq!(main.algorithms, [Algorithm::Es256, Algorithm::EdDsa]);
    assert!(matches!(&main.keys, KeySource::Url { url, ca_pem: None, keep: None } if url == "http://localhost:1/keys"));
    assert_eq!((main.leeway.as_secs(), main.longest_lifetime.as_secs()), (30, 86_400));
    assert_eq!((main.required.len(), main.roles.is_none(), main.requester.to_string().as_str()), (0, true, "act.sub"));
}

#[test]
fn several_issuers_stand_side_by_side_each_with_its_own() {
    let key = "algorithms = [\"RS256\"]\njwks_file = \"jwks.json\"\n";
    let more = "[issuer.b-2]\nissuer = \"j\"\naudience = [\"x\", \"y\"]\nenvironments = [\"sandbox\"]\nleeway_secs = 0\n\
                longest_lifetime_secs = 60\nrequired = [\"client_id\", \"act.sub\"]\nroles = \"realm_access.roles\"\n\
                requester = \"on.behalf\"\n";
    let text = format!("{}{more}{key}", issuer(key));
    let config = read_in(&text, &[("jwks.json", JWKS)], &[]).unwrap().config;
    let names: Vec<&str> = config.issuers.iter().map(|issuer| issuer.name.as_str()).collect();
    assert_eq!(names, ["b-2", "main"]);
    let (b, main) = (&config.issuers[0], &config.issuers[1]);
    assert_eq!((b.leeway.as_secs(), b.longest_lifetime.as_secs(), b.required.len()), (0, 60, 2));
    assert_eq!(
        (b.roles.as_ref().unwrap().to_string(), b.requester.to_string()),
        ("realm_access.roles".into(), "on.behalf".into())
    );
    assert!(main.roles.is_none() && main.audiences == ["a"]);
    assert!(matches!(&main.keys, KeySource::File(path) if path == Path::new("etc/jwks.json")));
}

#[test]
fn keys_come_from_each_source_with_algorithms_that_fit() {
    let (certificate, _) = certificate();
    let (p256, p384, ed25519) =
        (public_key(&PKCS_ECDSA_P256_SHA256), public_key(&PKCS_ECDSA_P384_SHA384), public_key(&PKCS_ED25519));
    let both = format!("{p256}{certificate}");
    let files = [
        ("jwks.json", JWKS),
        ("c.pem", certificate.as_str()),
        ("p256.pem", &p256),
        ("p384.pem", &p384),
        ("ed25519.pem", &ed25519),
        ("both.pem", &both),
        ("secret", SECRET),
        ("rsa.pem", RSA),
        ("p521.pem", P521),
        ("compressed.pem", COMPRESSED),
        ("ed448.pem", ED448),
        ("list.json", "[]"),
    ];
    for (algorithms, keys, told) in [
        ("RS256", "jwks_url = \"https://i.example/keys\"", None),
        ("PS512", "jwks_file = \"jwks.json\"", None),
        ("ES256", "public_key = \"p256.pem\"", None),
        ("ES256", "public_key = \"c.pem\"", None),
        ("PS256", "public_key = \"rsa.pem\"", None),
        (
            "ES256",
            "public_key = \"p521.pem\"",
            Some("9:14 `issuer.main.public_key`: `p521.pem`: the key is of an unsupported kind"),
        ),
        (
            "ES256",
            "public_key = \"compressed.pem\"",
            Some("9:14 `issuer.main.public_key`: `compressed.pem`: the key is of an unsupported kind"),
        ),
        (
            "EdDSA",
            "public_key = \"ed448.pem\"",
            Some("9:14 `issuer.main.public_key`: `ed448.pem`: the key is of an unsupported kind"),
        ),
        ("ES384", "public_key = \"p384.pem\"", None),
        ("EdDSA", "public_key = \"ed25519.pem\"", None),
        ("HS256", "shared_secret = { file = \"secret\" }", None),
        ("HS256", "shared_secret = { env = \"SLUICE_TOKENS\" }", None),
        (
            "RS256",
            "public_key = \"p256.pem\"",
            Some("8:14 `issuer.main.algorithms`: `RS256` cannot be used with the key in `public_key`"),
        ),
        (
            "ES256",
            "public_key = \"p384.pem\"",
            Some("8:14 `issuer.main.algorithms`: `ES256` cannot be used with the key in `public_key`"),
        ),
        (
            "HS256",
            "public_key = \"c.pem\"",
            Some("8:14 `issuer.main.algorithms`: `HS256` cannot be used with the key in `public_key`"),
        ),
        ("HS256", "jwks_file = \"jwks.json\"", Some("8:14 `issuer.main.algorithms`: `HS256` needs a shared secret")),
        (
            "RS256",
            "shared_secret = { file = \"secret\" }",
            Some("8:14 `issuer.main.algorithms`: `RS256` cannot be used with a shared secret"),
        ),
        (
            "HS512",
            "shared_secret = { file = \"secret\" }",
            Some("9:17 `issuer.main.shared_secret`: the secret is too short: `HS512` needs at least 64 bytes"),
        ),
        (
            "ES256",
            "public_key = \"both.pem\"",
            Some(
                "9:14 `issuer.main.public_key`: `both.pem`: it does not contain exactly one public key or certificate",
            ),
        ),
        (
            "ES256",
            "public_key = \"secret\"",
            Some("9:14 `issuer.main.public_key`: `secret`: it does not contain exactly one public key or certificate"),
        ),
        (
            "ES256",
            "public_key = \"none\"",
            Some("9:14 `issuer.main.public_key`: the file `etc/none` cannot be read: entity not found"),
        ),
        (
            "ES256",
            "jwks_file = \"list.json\"",
            Some(
                "9:13 `issuer.main.jwks_file`: `list.json`: it is not a JSON Web Key Set: an object with a list `keys`",
            ),
        ),
        (
            "ES256",
            "jwks_url = \"http://i.example/\"",
            Some(
                "9:12 `issuer.main.jwks_url`: the URL is plain HTTP to another machine: anyone on the network path can insert keys",
            ),
        ),
        ("ES256", "", Some("4:9 `issuer.main` needs one of `jwks_url`, `jwks_file`, `public_key`, `shared_secret`")),
        (
            "ES256",
            "public_key = \"c.pem\"\njwks_file = \"none\"",
            Some("9:14 `issuer.main.public_key` cannot be combined with `jwks_file`"),
        ),
        (
            "ES256",
            "jwks_file = \"jwks.json\"\njwks_ca = \"c.pem\"",
            Some("10:11 `issuer.main.jwks_ca` has no effect without `issuer.main.jwks_url`"),
        ),
        (
            "ES256",
            "jwks_url = \"http://[::1]/\"\njwks_ca = \"c.pem\"",
            Some("10:11 `issuer.main.jwks_ca` has no effect: `jwks_url` is plain HTTP"),
        ),
    ] {
        let text = issuer(&format!("algorithms = [\"{algorithms}\"]\n{keys}"));
        let variable = [("SLUICE_TOKENS", SECRET)];
        let variables = if keys.contains("SLUICE_TOKENS") { &variable[..] } else { &[] };
        let read = read_in(&text, &files, variables);
        assert!(!format!("{read:?}").contains("hunter2"), "{keys}");
        let found = read.map(|reading| reading.warnings.len()).map_err(|findings| {
            let finding = &findings[0];
            format!("{} {}", finding.place.as_deref().unwrap_or("-"), finding.text)
        });
        assert_eq!(found, told.map_or(Ok(0), |told| Err(told.to_owned())), "{algorithms} {keys}");
    }
    let plain = read_in(&issuer(&format!("algorithms = [\"HS256\"]\nshared_secret = \"{SECRET}\"")), &[], &[]).unwrap();
    assert!(plain.warnings.len() == 1 && !format!("{plain:?}").contains("hunter2"));
}

#[test]
fn each_fault_of_an_issuer_is_told_with_its_place() {
    let keys = "algorithms = [\"RS256\"]\njwks_url = \"https://i.example/\"\n";
    for (added, told) in [
        ("lewway_secs = 1", "10:1 there is no setting `issuer.main.lewway_secs`"),
        (
            "leeway_secs = 301",
            "10:15 `issuer.main.leeway_secs`: the number is out of range: it must be 0 to 300 seconds",
        ),
        (
            "longest_lifetime_secs = 59",
            "10:25 `issuer.main.longest_lifetime_secs`: the number is out of range: it must be 60 to 31536000 seconds",
        ),
        ("required = [\"a\",\n\"b..c\"]", "11:1 `issuer.main.required`: `b..c` is not the path of a field"),
        ("roles = \"\"", "10:9 `issuer.main.roles`: `` is not the path of a field"),
        ("[issuer.Main_2]", "10:9 `Main_2` is not a valid name for a section"),
        ("[issuer.\"\"]", "10:9 `` is not a valid name for a section"),
        ("[issuer.other]", "10:9 `issuer.other` needs one of `jwks_url`, `jwks_file`, `public_key`, `shared_secret`"),
        ("[issuer.main]", "10:9 the file is not valid TOML: duplicate key"),
        ("[issuer]\naudience = [\"a\"]", "11:1 `issuer.audience` is not a section: a setting cannot be here"),
        (
            "[sandbox]\nlisten = \"127.0.0.1:1\"\nupstream = \"https://s.example\"",
            "11:10 no issuer may use `sandbox`: every call would be refused",
        ),
    ] {
        let found = wrong(&issuer(&format!("{keys}{added}")), &[], &[]);
        assert_eq!(found.first().map(String::as_str), Some(told), "{added}: {found:?}");
    }
    for (line, told) in [
        ("issuer = \" i\"", "`issuer.main.issuer`: the text has blanks at its ends, or control characters"),
        ("issuer = \"\"", "`issuer.main.issuer`: the text is empty"),
        ("audience = []", "`issuer.main.audience`: the list is empty"),
        ("audience = \"a\"", "`issuer.main.audience`: a text is written; a list of texts is expected"),
        ("audience = [\"\"]", "`issuer.main.audience`: the text is empty"),
        ("environments = []", "`issuer.main.environments`: the list is empty"),
        ("environments = [\"prod\"]", "`issuer.main.environments`: `prod` is not a valid choice"),
        ("algorithms = []", "`issuer.main.algorithms`: the list is empty"),
        ("algorithms = [\"none\"]", "`issuer.main.algorithms`: `none` is not a supported algorithm"),
        ("algorithms = [\"ES512\"]", "`issuer.main.algorithms`: `ES512` is not a supported algorithm"),
        ("algorithms = [\"rs256\"]", "`issuer.main.algorithms`: `rs256` is not a valid choice"),
        ("", "`issuer.main.audience` is missing"),
    ] {
        let name = line.split(' ').next().filter(|name| !name.is_empty()).unwrap_or("audience");
        let others: Vec<String> =
            REQUIRED.lines().chain(keys.lines()).map(str::to_owned).filter(|l| !l.starts_with(name)).collect();
        let text = format!("{MINIMAL}[issuer.main]\n{}\n{line}\n", others.join("\n"));
        let findings = read_in(&text, &[], &[]).unwrap_err();
        let told_all: Vec<&str> = findings.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(told_all, [told], "{line}");
        if line.contains("ES512") {
            let supported = "supported are `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA`, \
                             `HS256`, `HS384`, `HS512`";
            assert_eq!(findings[0].remedy.as_deref(), Some(supported));
        }
        if line.contains("rs256") {
            assert_eq!(findings[0].remedy.as_deref(), Some("did you mean `RS256`?"));
        }
    }
}

#[test]
fn a_field_whose_name_has_dots_is_written_in_quotes() {
    let keys = "algorithms = [\"RS256\"]\njwks_url = \"https://i.example/\"\n";
    let named =
        "roles = '\"https://e.example/roles\".x'\nrequired = ['\"a.b\"', \"c.d\"]\nrequester = \"\\\"act.sub\\\"\"\n";
    let config = good(&issuer(&format!("{keys}{named}")));
    let main = &config.issuers[0];
    assert_eq!(main.roles.as_ref().unwrap().steps(), ["https://e.example/roles", "x"]);
    assert_eq!(main.required.iter().map(|path| path.steps().len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(main.requester.steps(), ["act.sub"]);
    let findings = read_in(&issuer(&format!("{keys}roles = \"https://e.example/roles\"\n")), &[], &[]).unwrap_err();
    assert_eq!(findings[0].text, "`issuer.main.roles`: `https://e.example/roles` is not the path of a field");
    assert!(findings[0].remedy.as_ref().unwrap().contains("is written in quotes"));
}

#[test]
fn one_iss_is_one_issuer() {
    let keys = "algorithms = [\"RS256\"]\njwks_url = \"https://i.example/\"\n";
    let text = format!("{}[issuer.again]\n{REQUIRED}{keys}", issuer(keys));
    let found = wrong(&text, &[], &[]);
    assert_eq!(found[0], "12:10 `issuer.main.issuer` and `issuer.again.issuer` are the same");
    assert!(found.len() == 2 && found[1].contains("have no prefix of requestIds"), "{found:?}");
}

#[test]
fn an_issuer_is_not_made_of_variables_but_its_secret_may_be_in_one() {
    let text = issuer("algorithms = [\"RS256\"]\njwks_url = \"https://i.example/\"");
    let variables = [("SLUICE_ISSUER_MAIN_AUDIENCE", "b")];
    assert_eq!(wrong(&text, &[], &variables), ["SLUICE_ISSUER_MAIN_AUDIENCE no setting has this name"]);
    let findings = read_in(&format!("{MINIMAL}[issuer.main]\n"), &[], &[]).unwrap_err();
    let missing = findings.iter().find(|finding| finding.text.contains("`issuer.main.audience` is missing")).unwrap();
    assert_eq!(missing.remedy.as_deref(), Some("write for example `audience = [\"sluice\"]`"));
}

#[test]
fn a_credential_is_the_callers_own_or_ours() {
    let files = [("token", "hunter2.token\n"), ("empty", "\n"), ("bearer", "Bearer hunter2")];
    let told = |written: &str, variables: &[(&str, &str)]| -> Result<String, String> {
        let read = read_in(&format!("{MINIMAL}{written}\n"), &files, variables);
        assert!(!format!("{read:?}").contains("hunter2"), "{written}");
        let reading =
            read.map_err(|findings| findings.last().unwrap().to_string().lines().next().unwrap().to_owned())?;
        Ok(match &reading.config.environments[0].credential {
            CredentialConfig::Forward => "forward".to_owned(),
            CredentialConfig::Inject(CredentialSource::File(path)) => path.display().to_string(),
            CredentialConfig::Inject(CredentialSource::Given(secret)) => {
                format!("{} bytes, {} warnings", secret.reveal().len(), reading.warnings.len())
            }
        })
    };
    let variable = [("SLUICE_PRODUCTION_CREDENTIAL", "hunter2.token")];
    assert_eq!(told("", &[]), Ok("forward".into()));
    assert_eq!(told("", &variable), Ok("13 bytes, 0 warnings".into()));
    assert_eq!(told("credential = { file = \"token\" }", &[]), Ok("etc/token".into()));
    assert_eq!(told("credential = { env = \"MINE\" }", &[("MINE", "hunter2")]), Ok("7 bytes, 0 warnings".into()));
    assert_eq!(told("credential = \"hunter2\"", &[]), Ok("7 bytes, 1 warnings".into()));
    for (written, what) in [
        ("{ file = \"none\" }", "4:23: `production.credential`: the file `etc/none` cannot be read: entity not found"),
        ("{ file = \"empty\" }", "4:14: `production.credential`: the secret is empty"),
        (
            "{ file = \"bearer\" }",
            "4:14: `production.credential`: the secret contains something other than printable ASCII without spaces",
        ),
        (
            "\"hunter2\\u00e9\"",
            "4:14: `production.credential`: the secret contains something other than printable ASCII without spaces",
        ),
    ] {
        let found = told(&format!("credential = {written}"), &[]).unwrap_err();
        assert_eq!(found.strip_prefix("error: etc/sluice.toml:").unwrap_or(&found), what);
    }
    let held = |content: &str| credential_in(content.into()).map(|secret| secret.reveal().to_owned());
    assert_eq!([held("a.b\r\n"), held(""), held("\n"), held("a b")], [Some("a.b".into()), None, None, None]);
}

#[test]
fn keys_that_are_fetched_may_be_kept_in_a_file_of_their_own() {
    let url = "algorithms = [\"ES256\"]\njwks_url = \"http://localhost:1/keys\"\n";
    let kept = good(&issuer(&format!("{url}jwks_keep = \"schemas/kept.json\"")));
    let [main] = kept.issuers.as_slice() else { panic!("one issuer") };
    assert!(
        matches!(&main.keys, KeySource::Url { keep: Some(path), .. } if path == Path::new("etc/schemas/kept.json"))
    );

    let told = |text: &str| {
        read_in(text, &[("jwks.json", JWKS)], &[]).unwrap_err().iter().map(ToString::to_string).collect::<String>()
    };
    let lonely =
        told(&issuer("algorithms = [\"ES256\"]\njwks_file = \"jwks.json\"\njwks_keep = \"schemas/kept.json\""));
    assert!(lonely.contains("`issuer.main.jwks_keep` has no effect without `issuer.main.jwks_url`"), "{lonely}");
    for nowhere in ["nowhere/kept.json", "", "schemas/..", "schemas"] {
        let fault = told(&issuer(&format!("{url}jwks_keep = \"{nowhere}\"")));
        assert!(fault.contains("is not a file name in an existing folder"), "{nowhere}: {fault}");
    }
    let both = format!("{url}jwks_keep = \"schemas/kept.json\"\n");
    let other = REQUIRED.replace("\"i\"", "\"j\"");
    let same = told(&format!("{}[issuer.b-2]\n{other}{both}", issuer(&both)));
    assert!(same.contains("jwks_keep` are the same file"), "{same}");
}
