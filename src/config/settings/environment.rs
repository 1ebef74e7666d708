//! Settings of an environment: its listener, its callers' certificates, and its upstream.

/// Lists the settings of an environment; environments differ only in the slots and the examples.
macro_rules! settings {
    ($section:ident, $listen:literal, $upstream:literal, $first:literal) => {
        &[
            Setting {
                name: "listen",
                kind: SettingKind::Address(|w| &mut w.$section.listen),
                absent: Absent::Fault { example: $listen, first: $listen },
                doc: "Where callers reach this environment: its own address and port.",
            },
            Setting {
                name: "tls_certificate",
                kind: SettingKind::Certificates(|w| &mut w.$section.tls_certificate),
                absent: Absent::Nothing { example: r#""tls/certificate.pem""# },
                doc: "The certificate that callers see, with its chain, as a PEM file; together with `tls_key`.\n\
                      Without both, callers speak plain HTTP.",
            },
            Setting {
                name: "tls_key",
                kind: SettingKind::Secret(|w| &mut w.$section.tls_key),
                absent: Absent::Nothing { example: r#"{ file = "tls/key.pem" }"# },
                doc: "The private key of that certificate, as PEM. A secret.",
            },
            Setting {
                name: "client_ca",
                kind: SettingKind::Certificates(|w| &mut w.$section.client_ca),
                absent: Absent::Nothing { example: r#""tls/client-ca.pem""# },
                doc: "The authorities that issue callers' certificates, as a PEM file; with it, every caller needs\n\
                      a certificate besides its token. A token that is bound to a certificate (`cnf` with\n\
                      `x5t#S256`) is valid with that one only.",
            },
            Setting {
                name: "client_revoked",
                kind: SettingKind::RevokedFile(|w| &mut w.$section.client_revoked),
                absent: Absent::Nothing { example: r#""tls/client-revoked.pem""# },
                doc: "The certificate revocation lists of these authorities and their intermediates, one of each: a\n\
                      PEM file, or one list in DER. The file is read again when it changes, and applies to open\n\
                      connections as well. The last good lists stay in use while the file is invalid, expired or\n\
                      older; when they expire themselves, no certificate is accepted until the file has newer ones.",
            },
            Setting {
                name: "upstream",
                kind: SettingKind::Upstream(|w| &mut w.$section.upstream),
                absent: Absent::Fault { example: $upstream, first: $first },
                doc: "Where this environment's calls are sent: `https://host`, with an optional port, and an\n\
                      optional path that is put before the paths of operations.",
            },
            Setting {
                name: "upstream_ca",
                kind: SettingKind::Certificates(|w| &mut w.$section.upstream_ca),
                absent: Absent::Nothing { example: r#""tls/upstream-ca.pem""# },
                doc: "The authorities of upstream's certificate, as a PEM file, instead of the system's.",
            },
            Setting {
                name: "allow_plain_upstream",
                kind: SettingKind::Truth(|w| &mut w.$section.allow_plain_upstream),
                absent: Absent::Means("false"),
                doc: "Whether `upstream` may be plain HTTP to another machine: anyone on the network path can then\n\
                      read and alter calls.",
            },
            Setting {
                name: "upstream_behind_proxy",
                kind: SettingKind::Truth(|w| &mut w.$section.upstream_behind_proxy),
                absent: Absent::Means("false"),
                doc: "Whether a proxy or a service mesh between this gate and `upstream` can answer calls itself. Its 401\n\
                      and 429 prove nothing then: such calls are in doubt instead of not executed. The same holds for\n\
                      plain HTTP to another machine.",
            },
            Setting {
                name: "ask_date",
                kind: SettingKind::Truth(|w| &mut w.$section.ask_date),
                absent: Absent::Means("true"),
                doc: "Whether a start asks `upstream` for its date (`HEAD`, without a token), and pays only when that date,\n\
                      or the one of an issuer's keys, agrees with this machine's clock within 60 s. `false`: money moves\n\
                      before anybody told a date, so that a clock that is wrong at a start ends limits and claims of an\n\
                      embedded store early; one that differs still closes money.",
            },
            Setting {
                name: "unlisted",
                kind: SettingKind::Unlisted(|w| &mut w.$section.unlisted),
                absent: Absent::Means(r#""proves""#),
                doc: "What a refusal of upstream proves whose status and code the contract does not list\n\
                      (`notExecuted`): `proves`: a well-formed 400, 401, 403, 404, 413, 415, 422 or 429 proves that\n\
                      nothing was executed, unless it says that the call was made before; `unknown`: nothing.",
            },
            Setting {
                name: "credential",
                kind: SettingKind::Credential(|w| &mut w.$section.credential),
                absent: Absent::First { example: concat!(r#"{ file = ""#, stringify!($section), r#".token" }"#) },
                doc: "The gate's own token for upstream, which replaces the caller's. A secret, of printable ASCII;\n\
                      a file is read again when it changes. Without it, upstream gets the caller's token, and no\n\
                      call can wait for approval, because there would be no token to send it with later.",
            },
        ]
    };
}

pub(super) use settings;
