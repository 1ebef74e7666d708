//! The settings of an issuer: who signs tokens, with which keys, and what the tokens must say.

use super::{Absent, Kind, Setting, Used};

/// The file beside the configuration that holds the secret of the first issuer; the example below names it.
pub const FIRST_SECRET: &str = "token.secret";

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "issuer",
        kind: Kind::Text(|w| &mut w.issuer.issuer),
        absent: Absent::Fault { example: r#""https://issuer.example.com""#, first: r#""sluice-token""# },
        doc: "What its tokens say in `iss`, to the letter.",
    },
    Setting {
        name: "audience",
        kind: Kind::Texts(|w| &mut w.issuer.audiences),
        absent: Absent::Fault { example: r#"["sluice"]"#, first: r#"["sluice"]"# },
        doc: "Of these a token must name one in `aud`.",
    },
    Setting {
        name: "environments",
        kind: Kind::Environments(|w| &mut w.issuer.environments),
        absent: Absent::Fault { example: r#"["production", "sandbox"]"#, first: r#"["production", "sandbox"]"# },
        doc: "Where its tokens may be used: `production`, `sandbox`, or both; none where it is the issuer of `[console]` alone.",
    },
    Setting {
        name: "algorithms",
        kind: Kind::Algorithms(|w| &mut w.issuer.algorithms),
        absent: Absent::Fault { example: r#"["RS256", "ES256"]"#, first: r#"["HS256"]"# },
        doc: "The algorithms that its signatures may have: `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`,\n\
              `ES256`, `ES384`, `ES512`, `EdDSA`; with a shared secret `HS256`, `HS384`, `HS512` and no other.",
    },
    Setting {
        name: "jwks_url",
        kind: Kind::KeysUrl(|w| &mut w.issuer.jwks_url),
        absent: Absent::Another {
            example: r#""https://issuer.example.com/.well-known/jwks.json""#,
            used: Used::InReference,
        },
        doc: "Where its keys are fetched from, as a JWKS document: `https://`, or `http://` on this machine.\n\
              Exactly one of `jwks_url`, `jwks_file`, `public_key` and `shared_secret` is needed.",
    },
    Setting {
        name: "jwks_ca",
        kind: Kind::Certificates(|w| &mut w.issuer.jwks_ca),
        absent: Absent::Nothing { example: r#""tls/issuer-ca.pem""# },
        doc: "The authorities that the certificate of `jwks_url` may come from, as a PEM file, instead of the system's.",
    },
    Setting {
        name: "jwks_keep",
        kind: Kind::KeptFile(|w| &mut w.issuer.jwks_keep),
        absent: Absent::Nothing { example: r#""jwks-main.json""# },
        doc: "A file that the last good document of `jwks_url` is kept in, for a start while the issuer is away; it is\n\
              used for `longest_stale_secs`. Whoever can write it can make tokens.",
    },
    Setting {
        name: "jwks_file",
        kind: Kind::KeysFile(|w| &mut w.issuer.jwks_file),
        absent: Absent::Another { example: r#""jwks.json""#, used: Used::Nowhere },
        doc: "Its keys as a JWKS document in a file, read again when it changes; instead of `jwks_url`.",
    },
    Setting {
        name: "public_key",
        kind: Kind::PublicKey(|w| &mut w.issuer.public_key),
        absent: Absent::Another { example: r#""issuer.pem""#, used: Used::Nowhere },
        doc: "Its one key: a PEM file with a public key or a certificate; instead of `jwks_url`.",
    },
    Setting {
        name: "shared_secret",
        kind: Kind::Secret(|w| &mut w.issuer.shared_secret),
        absent: Absent::Another { example: r#"{ file = "token.secret" }"#, used: Used::InFirst },
        doc: "A secret that both sides know; instead of `jwks_url`. Whoever knows it can make tokens. At least as many\n\
              bytes as the digest has: 32 for `HS256`, 48 for `HS384`, 64 for `HS512`.",
    },
    Setting {
        name: "longest_stale_secs",
        kind: Kind::Seconds { least: 1, most: 604_800, slot: |w| &mut w.issuer.longest_stale },
        absent: Absent::Means("86_400"),
        doc: "How long keys from `jwks_url` or `jwks_file` are used since they were last seen to be good. After that its\n\
              tokens are answered with 503, and Sluice is not ready.",
    },
    Setting {
        name: "leeway_secs",
        kind: Kind::Seconds { least: 0, most: 300, slot: |w| &mut w.issuer.leeway },
        absent: Absent::Means("30"),
        doc: "How far its clock and ours may be apart.",
    },
    Setting {
        name: "longest_lifetime_secs",
        kind: Kind::Seconds { least: 60, most: 31_536_000, slot: |w| &mut w.issuer.longest_lifetime },
        absent: Absent::Means("86_400"),
        doc: "The longest time from a token's issue to its expiry; one that is good for longer is refused.",
    },
    Setting {
        name: "required",
        kind: Kind::FieldPaths(|w| &mut w.issuer.required),
        absent: Absent::Means("[]"),
        doc: "Fields that a token must have besides `iss`, `aud` and `exp`, with dots between the steps to an inner one.\n\
              Here and below, a name that has dots, slashes or blanks of its own stands in quotes, and a backslash before\n\
              a quote in it: `'\"https://example.com/roles\".x'`.",
    },
    Setting {
        name: "roles",
        kind: Kind::FieldPath(|w| &mut w.issuer.roles),
        absent: Absent::Nothing { example: r#""realm_access.roles""# },
        doc: "The field that holds the caller's roles: a list of texts, or one text with spaces between them.",
    },
    Setting {
        name: "requester",
        kind: Kind::FieldPath(|w| &mut w.issuer.requester),
        absent: Absent::Means(r#""act.sub""#),
        doc: "The field that names the person whom a service acts for.",
    },
    Setting {
        name: "holds",
        kind: Kind::Holds(|w| &mut w.issuer.holds),
        absent: Absent::Means(r#""wait""#),
        doc: "What its callers hear of a call that waits for people: `wait` is 202; `refuse` is 403 `APPROVAL_REQUIRED`, for\n\
              clients that take any 2xx for done. The call waits in either case, and its repeat hears what became of it.",
    },
];
