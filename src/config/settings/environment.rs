//! The settings of an environment: where callers reach it, what they must show, and where it leads.

/// They are the same for each environment, besides where their values are kept and the examples.
macro_rules! settings {
    ($section:ident, $listen:literal, $upstream:literal, $first:literal) => {
        &[
            Setting {
                name: "listen",
                kind: Kind::Address(|w| &mut w.$section.listen),
                absent: Absent::Fault { example: $listen, first: $listen },
                doc: "Where callers reach this environment: an address and a port of its own.",
            },
            Setting {
                name: "tls_certificate",
                kind: Kind::Certificates(|w| &mut w.$section.tls_certificate),
                absent: Absent::Nothing { example: r#""tls/certificate.pem""# },
                doc: "The certificate that callers see, with its chain, as a PEM file; together with `tls_key`.\n\
                      Without both, callers speak plain HTTP.",
            },
            Setting {
                name: "tls_key",
                kind: Kind::Secret(|w| &mut w.$section.tls_key),
                absent: Absent::Nothing { example: r#"{ file = "tls/key.pem" }"# },
                doc: "The private key of that certificate, as PEM. A secret.",
            },
            Setting {
                name: "client_ca",
                kind: Kind::Certificates(|w| &mut w.$section.client_ca),
                absent: Absent::Nothing { example: r#""tls/client-ca.pem""# },
                doc: "The authorities that callers' certificates must come from, as a PEM file; then every caller must show\n\
                      one, besides its token. A token that is bound to a certificate (`cnf` with `x5t#S256`) is good with\n\
                      that one alone.",
            },
            Setting {
                name: "client_revoked",
                kind: Kind::RevokedFile(|w| &mut w.$section.client_revoked),
                absent: Absent::Nothing { example: r#""tls/client-revoked.pem""# },
                doc: "The lists of revoked certificates of these authorities and of those between, one of each: a PEM file,\n\
                      or one list in DER. It is read again when it changes, and counts for open connections as well. The\n\
                      last good lists stay while it cannot be used, has expired, or is older; when they expire\n\
                      themselves, no certificate is accepted until there are newer ones.",
            },
            Setting {
                name: "upstream",
                kind: Kind::Upstream(|w| &mut w.$section.upstream),
                absent: Absent::Fault { example: $upstream, first: $first },
                doc: "Where this environment's calls go: `https://host`, with a port and a path before the\n\
                      operations' own where there are any.",
            },
            Setting {
                name: "upstream_ca",
                kind: Kind::Certificates(|w| &mut w.$section.upstream_ca),
                absent: Absent::Nothing { example: r#""tls/upstream-ca.pem""# },
                doc: "The authorities that upstream's certificate may come from, as a PEM file, instead of the system's.",
            },
            Setting {
                name: "allow_plain_upstream",
                kind: Kind::Truth(|w| &mut w.$section.allow_plain_upstream),
                absent: Absent::Means("false"),
                doc: "Whether `upstream` may be plain HTTP to another machine: then anyone between reads and alters calls.",
            },
            Setting {
                name: "credential",
                kind: Kind::Credential(|w| &mut w.$section.credential),
                absent: Absent::First { example: concat!(r#"{ file = ""#, stringify!($section), r#".token" }"#) },
                doc: "The token that upstream knows us by, in the place of the caller's. A secret, of printable ASCII; a\n\
                      file is read again when it changes. Without it, the caller's token is upstream's own, and goes on;\n\
                      then nothing can wait for people, for nobody's token would send it later.",
            },
        ]
    };
}

pub(super) use settings;
