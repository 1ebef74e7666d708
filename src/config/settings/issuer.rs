//! Settings of an issuer: its name, its keys, and the demands on its tokens.

use super::{Absent, Setting, SettingKind, Used};

/// The file beside the configuration with the secret of the first issuer; the example below names it.
pub const FIRST_SECRET: &str = "token.secret";

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "issuer",
        kind: SettingKind::Text(|w| &mut w.issuer.issuer),
        absent: Absent::Fault { example: r#""https://issuer.example.com""#, first: r#""sluice-token""# },
        doc: "The exact `iss` of its tokens.",
    },
    Setting {
        name: "audience",
        kind: SettingKind::Texts(|w| &mut w.issuer.audiences),
        absent: Absent::Fault { example: r#"["sluice"]"#, first: r#"["sluice"]"# },
        doc: "A token must name one of these in `aud`.",
    },
    Setting {
        name: "environments",
        kind: SettingKind::Environments(|w| &mut w.issuer.environments),
        absent: Absent::Fault { example: r#"["production", "sandbox"]"#, first: r#"["production", "sandbox"]"# },
        doc: "Where its tokens are accepted: `production`, `sandbox`, or both; empty if it is only the issuer of\n\
              `[console]`.",
    },
    Setting {
        name: "algorithms",
        kind: SettingKind::Algorithms(|w| &mut w.issuer.algorithms),
        absent: Absent::Fault { example: r#"["RS256", "ES256"]"#, first: r#"["HS256"]"# },
        doc: "The accepted signature algorithms: `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`,\n\
              `ES384`, `EdDSA`; with a shared secret only `HS256`, `HS384` and `HS512`.",
    },
    Setting {
        name: "jwks_url",
        kind: SettingKind::KeysUrl(|w| &mut w.issuer.jwks_url),
        absent: Absent::Another {
            example: r#""https://issuer.example.com/.well-known/jwks.json""#,
            used: Used::InReference,
        },
        doc: "The URL of its keys, a JWKS document: `https://`, or `http://` on this machine. Exactly one of\n\
              `jwks_url`, `jwks_file`, `public_key` and `shared_secret` is needed.",
    },
    Setting {
        name: "jwks_ca",
        kind: SettingKind::Certificates(|w| &mut w.issuer.jwks_ca),
        absent: Absent::Nothing { example: r#""tls/issuer-ca.pem""# },
        doc: "The authorities of the certificate of `jwks_url`, as a PEM file, instead of the system's.",
    },
    Setting {
        name: "jwks_keep",
        kind: SettingKind::KeptFile(|w| &mut w.issuer.jwks_keep),
        absent: Absent::Nothing { example: r#""jwks-main.json""# },
        doc: "A file that saves the last good document of `jwks_url`, for a start while the issuer cannot be\n\
              reached; it is used for `longest_stale_secs`. Anyone who can write it can forge tokens.",
    },
    Setting {
        name: "jwks_file",
        kind: SettingKind::KeysFile(|w| &mut w.issuer.jwks_file),
        absent: Absent::Another { example: r#""jwks.json""#, used: Used::Nowhere },
        doc: "A file with its keys as a JWKS document, read again when it changes; instead of `jwks_url`.",
    },
    Setting {
        name: "public_key",
        kind: SettingKind::PublicKey(|w| &mut w.issuer.public_key),
        absent: Absent::Another { example: r#""issuer.pem""#, used: Used::Nowhere },
        doc: "A PEM file with its only key, a public key or a certificate; instead of `jwks_url`.",
    },
    Setting {
        name: "shared_secret",
        kind: SettingKind::Secret(|w| &mut w.issuer.shared_secret),
        absent: Absent::Another { example: r#"{ file = "token.secret" }"#, used: Used::InFirst },
        doc: "A secret that the issuer and the gate share; instead of `jwks_url`. Anyone who knows it can forge\n\
              tokens. At least as many bytes as the digest has: 32 for `HS256`, 48 for `HS384`, 64 for `HS512`.",
    },
    Setting {
        name: "longest_stale_secs",
        kind: SettingKind::Seconds { least: 1, most: 604_800, slot: |w| &mut w.issuer.longest_stale },
        absent: Absent::Means("86_400"),
        doc: "How long keys from `jwks_url` or `jwks_file` are used after they were last known to be good. After\n\
              that, its tokens are answered with 503, and Sluice is not ready.",
    },
    Setting {
        name: "leeway_secs",
        kind: SettingKind::Seconds { least: 0, most: 300, slot: |w| &mut w.issuer.leeway },
        absent: Absent::Means("30"),
        doc: "The accepted difference between its clock and the gate's.",
    },
    Setting {
        name: "longest_lifetime_secs",
        kind: SettingKind::Seconds { least: 60, most: 31_536_000, slot: |w| &mut w.issuer.longest_lifetime },
        absent: Absent::Means("86_400"),
        doc: "The longest time from a token's issue to its expiry; a token with a longer one is refused.",
    },
    Setting {
        name: "required",
        kind: SettingKind::FieldPaths(|w| &mut w.issuer.required),
        absent: Absent::Means("[]"),
        doc: "Fields that a token must have besides `iss`, `aud` and `exp`; dots separate the steps to an inner\n\
              field. Here and below, a name that itself has dots, slashes or blanks is written in quotes, with a\n\
              backslash before a quote in it: `'\"https://example.com/roles\".x'`.",
    },
    Setting {
        name: "roles",
        kind: SettingKind::FieldPath(|w| &mut w.issuer.roles),
        absent: Absent::Nothing { example: r#""realm_access.roles""# },
        doc: "The field of the caller's roles: a list of texts, or one text with spaces between them.",
    },
    Setting {
        name: "requester",
        kind: SettingKind::FieldPath(|w| &mut w.issuer.requester),
        absent: Absent::Means(r#""act.sub""#),
        doc: "The field that names the person for whom a service acts.",
    },
    Setting {
        name: "holds",
        kind: SettingKind::Holds(|w| &mut w.issuer.holds),
        absent: Absent::Means(r#""wait""#),
        doc: "The answer to its callers whose calls wait for approval: `wait` is 202; `refuse` is 403\n\
              `APPROVAL_REQUIRED`, for clients that take any 2xx for success. The call waits in either case, and a\n\
              repeated request gets its result.",
    },
    Setting {
        name: "subjects",
        kind: SettingKind::Subjects(|w| &mut w.issuer.subjects),
        absent: Absent::Means(r#""folded""#),
        doc: "How its subjects are compared where two people must be two: `folded` takes `OPS-1` and `ops-1` for one\n\
              person; `opaque` compares byte for byte, for subjects that the issuer chooses and nobody can, such as\n\
              `00u1aB3`. A difference in letter case alone counts only between opaque subjects, and only for votes\n\
              and requests that were recorded while they were.",
    },
];
