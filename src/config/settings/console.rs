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
        kind: Kind::Origin(|w| &mut w.console.public_url),
        absent: Absent::Nothing { example: r#""https://sluice.example.com""# },
        doc: "What people's browsers call it, where that is another address: the scheme, the host and the port, no path. A\n\
              browser that names another is refused; links that webhooks are told lead there. Needed for `oidc_client_id`.",
    },
    Setting {
        name: "remind_before_secs",
        kind: Kind::Seconds { least: 60, most: 604_800, slot: |w| &mut w.console.remind_before },
        absent: Absent::Means("3_600"),
        doc: "So long before a call that waits expires, webhooks are told `hold.reminder`; where people have less than twice\n\
              that time, when half of it is over.",
    },
    Setting {
        name: "session_idle_secs",
        kind: Kind::Seconds { least: 1, most: 86_400, slot: |w| &mut w.console.session_idle },
        absent: Absent::Means("900"),
        doc: "After so long without use a session of a browser ends.",
    },
    Setting {
        name: "session_longest_secs",
        kind: Kind::Seconds { least: 1, most: 604_800, slot: |w| &mut w.console.session_longest },
        absent: Absent::Means("28_800"),
        doc: "After so long it ends, however it is used; and with the token that it was made from, if that is sooner.",
    },
    Setting {
        name: "token_sign_in",
        kind: Kind::Truth(|w| &mut w.console.token_sign_in),
        absent: Absent::Means("true"),
        doc: "Whether a browser may sign in with a token that its person has from elsewhere.",
    },
    Setting {
        name: "oidc_client_id",
        kind: Kind::Text(|w| &mut w.console.oidc_client_id),
        absent: Absent::Nothing { example: r#""sluice""# },
        doc: "Lets people sign in at their OpenID provider, which is the issuer above, under this name. The provider must\n\
              allow `/sluice/v1/session/callback` of `public_url`, and this name must stand in the issuer's `audience`.",
    },
    Setting {
        name: "oidc_client_secret",
        kind: Kind::Secret(|w| &mut w.console.oidc_client_secret),
        absent: Absent::Nothing { example: r#"{ file = "oidc.secret" }"# },
        doc: "What the provider knows it by, unless it is a public client. A secret. Several nodes need one, so that a sign-in\n\
              may end at another than it began at.",
    },
    Setting {
        name: "oidc_scopes",
        kind: Kind::Names(|w| &mut w.console.oidc_scopes),
        absent: Absent::Means(r#"["openid"]"#),
        doc: "What the provider is asked for; roles must come of it. `openid` is always among them.",
    },
    Setting {
        name: "oidc_name",
        kind: Kind::Text(|w| &mut w.console.oidc_name),
        absent: Absent::Means(r#""your organization""#),
        doc: "What people call the provider.",
    },
    Setting {
        name: "oidc_ca",
        kind: Kind::Certificates(|w| &mut w.console.oidc_ca),
        absent: Absent::Nothing { example: r#""tls/issuer-ca.pem""# },
        doc: "The authorities that the provider's certificate may come from, as a PEM file, instead of the system's.",
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
