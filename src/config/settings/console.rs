//! The settings of the console: where people reach it, and whose tokens name them.

use super::{Absent, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        kind: Kind::Address(|w| &mut w.console.listen),
        absent: Absent::Fault { example: r#""127.0.0.1:8083""#, first: r#""127.0.0.1:8083""# },
        doc: "Where people, and the command line for them, reach it: an address and a port of its own.",
    },
    Setting {
        name: "issuer",
        kind: Kind::Text(|w| &mut w.console.issuer),
        absent: Absent::Fault { example: r#""main""#, first: r#""main""# },
        doc: "The name of the issuer whose tokens are people: `main` is `[issuer.main]`. Tokens of no other are taken. Its\n\
              `roles` say what each may do: `viewer`, `approver`, `policy-admin`, `operator`; an issuer of people alone has\n\
              `environments = []`.",
    },
    Setting {
        name: "tls_certificate",
        kind: Kind::Certificates(|w| &mut w.console.tls_certificate),
        absent: Absent::Nothing { example: r#""tls/certificate.pem""# },
        doc: "The certificate that people see, with its chain, as a PEM file; together with `tls_key`. Without both, it\n\
              speaks plain HTTP.",
    },
    Setting {
        name: "tls_key",
        kind: Kind::Secret(|w| &mut w.console.tls_key),
        absent: Absent::Nothing { example: r#"{ file = "tls/key.pem" }"# },
        doc: "The private key of that certificate, as PEM. A secret.",
    },
    Setting {
        name: "public_url",
        kind: Kind::PageUrl(|w| &mut w.console.public_url),
        absent: Absent::Nothing { example: r#""https://sluice.example.com""# },
        doc: "Where people reach it in their browsers, for links that lead there.",
    },
    Setting {
        name: "remind_before_secs",
        kind: Kind::Seconds { least: 60, most: 604_800, slot: |w| &mut w.console.remind_before },
        absent: Absent::Means("3_600"),
        doc: "So long before a call that waits expires, webhooks are told `hold.reminder`; where people have less than twice\n\
              that time, when half of it is over.",
    },
    Setting {
        name: "owners",
        kind: Kind::Names(|w| &mut w.console.owners),
        absent: Absent::Means("[]"),
        doc: "Who does not judge what a service asks for, besides whoever its tokens name: `\"main:payroll=anna\"` says that\n\
              what `payroll` asks for, by a token of `[issuer.main]`, is anna's own. It also tells that two names are one\n\
              person's.",
    },
];
