//! Settings of the console: its address, and the issuer of people's tokens.

use super::{Absent, Setting, SettingKind};

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        kind: SettingKind::Address(|w| &mut w.console.listen),
        absent: Absent::Fault { example: r#""127.0.0.1:8083""#, first: r#""127.0.0.1:8083""# },
        doc: "Where people, and their command line, reach the console: its own address and port.",
    },
    Setting {
        name: "issuer",
        kind: SettingKind::Text(|w| &mut w.console.issuer),
        absent: Absent::Fault { example: r#""main""#, first: r#""main""# },
        doc: "The name of the issuer of people's tokens: `main` is `[issuer.main]`. No other tokens are accepted.\n\
              Its `roles` say what each person may do: `viewer`, `approver`, `policy-admin`, `operator`; an issuer\n\
              for people only has `environments = []`.",
    },
    Setting {
        name: "tls_certificate",
        kind: SettingKind::Certificates(|w| &mut w.console.tls_certificate),
        absent: Absent::Nothing { example: r#""tls/certificate.pem""# },
        doc: "The certificate that people see, with its chain, as a PEM file; together with `tls_key`. Without\n\
              both, the console speaks plain HTTP.",
    },
    Setting {
        name: "tls_key",
        kind: SettingKind::Secret(|w| &mut w.console.tls_key),
        absent: Absent::Nothing { example: r#"{ file = "tls/key.pem" }"# },
        doc: "The private key of that certificate, as PEM. A secret.",
    },
    Setting {
        name: "public_url",
        kind: SettingKind::Origin(|w| &mut w.console.public_url),
        absent: Absent::Nothing { example: r#""https://sluice.example.com""# },
        doc: "The address of the console in browsers, if it differs: the scheme, the host and the port, without a\n\
              path. Requests of browsers with another origin are refused; links in notices to webhooks lead there.\n\
              Required for `oidc_client_id`.",
    },
    Setting {
        name: "hosts",
        kind: SettingKind::Names(|w| &mut w.console.hosts),
        absent: Absent::Means("[]"),
        doc: "Host names under which people and their command line reach the console, besides that of `public_url`,\n\
              IP addresses and `localhost`. Requests under other names are refused: they come from pages that let a\n\
              name of theirs resolve to this address.",
    },
    Setting {
        name: "audience",
        kind: SettingKind::Names(|w| &mut w.console.audiences),
        absent: Absent::Means("[]"),
        doc: "The audiences of people's tokens, among the issuer's `audience`: only tokens with one of them are\n\
              accepted here, and none of them is accepted from callers. Needed if callers have the same issuer; then\n\
              `oidc_client_id` is one by default.",
    },
    Setting {
        name: "sign_ins_per_minute",
        kind: SettingKind::Number {
            least: 1,
            most: 10_000,
            unit: "sign-ins",
            slot: |w| &mut w.console.sign_ins_per_minute,
        },
        absent: Absent::Means("30"),
        doc: "How many sign-ins one person may make in a minute; one address ten times as many, because people can\n\
              share it.",
    },
    Setting {
        name: "acts_per_minute",
        kind: SettingKind::Number {
            least: 60,
            most: 1_000_000,
            unit: "requests",
            slot: |w| &mut w.console.acts_per_minute,
        },
        absent: Absent::Means("3_000"),
        doc: "How many requests one person may make in a minute, a fifth of them at once; one address ten times as\n\
              many. Freezing has the same rate once more, for each operator alone.",
    },
    Setting {
        name: "entries_per_hour",
        kind: SettingKind::Number {
            least: 2,
            most: 1_000_000,
            unit: "entries",
            slot: |w| &mut w.console.entries_per_hour,
        },
        absent: Absent::Means("16_384"),
        doc: "The maximum number of audit entries that people's acts leave in an environment within an hour, at this\n\
              gate, with 8 KiB for each: votes and remarks, challenges to sign, stand-ins, words on outcomes and\n\
              gates, further reasons of a freeze, lifts. Exports have a fourth as many besides. A person may have as\n\
              many as stay free for the others, alone half of them; beyond it, 429. Freezing, rejecting, withdrawing\n\
              and revoking go on.",
    },
    Setting {
        name: "sessions_most",
        kind: SettingKind::Number { least: 1, most: 100_000, unit: "sessions", slot: |w| &mut w.console.sessions_most },
        absent: Absent::Means("1_000"),
        doc: "How many sessions of all people are open at one time; a person has at most 16 of them.",
    },
    Setting {
        name: "remind_before_secs",
        kind: SettingKind::Seconds { least: 60, most: 604_800, slot: |w| &mut w.console.remind_before },
        absent: Absent::Means("3_600"),
        doc: "How long before a hold expires webhooks get `hold.reminder`; if people have less than twice that\n\
              time, when half of it is over.",
    },
    Setting {
        name: "session_idle_secs",
        kind: SettingKind::Seconds { least: 1, most: 86_400, slot: |w| &mut w.console.session_idle },
        absent: Absent::Means("900"),
        doc: "How long a browser's session lasts without use.",
    },
    Setting {
        name: "session_longest_secs",
        kind: SettingKind::Seconds { least: 1, most: 604_800, slot: |w| &mut w.console.session_longest },
        absent: Absent::Means("28_800"),
        doc: "How long a session lasts at most; it also ends with the token that it was made from.",
    },
    Setting {
        name: "token_sign_in",
        kind: SettingKind::Truth(|w| &mut w.console.token_sign_in),
        absent: Absent::Means("true"),
        doc: "Whether a browser may sign in with a token that its person got elsewhere.",
    },
    Setting {
        name: "oidc_client_id",
        kind: SettingKind::Text(|w| &mut w.console.oidc_client_id),
        absent: Absent::Nothing { example: r#""sluice""# },
        doc: "Lets people sign in at their OpenID provider, the issuer above, under this client id. The provider\n\
              must allow `/sluice/v1/session/callback` of `public_url`, and the issuer's `audience` must contain\n\
              this id.",
    },
    Setting {
        name: "oidc_client_secret",
        kind: SettingKind::Secret(|w| &mut w.console.oidc_client_secret),
        absent: Absent::Nothing { example: r#"{ file = "oidc.secret" }"# },
        doc: "The client secret at the provider, unless the client is public. A secret. Several nodes need one, so\n\
              that a sign-in can end at another node than it began at.",
    },
    Setting {
        name: "oidc_scopes",
        kind: SettingKind::Names(|w| &mut w.console.oidc_scopes),
        absent: Absent::Means(r#"["openid"]"#),
        doc: "The scopes that are requested of the provider; the roles must be among their claims. `openid` is\n\
              always requested.",
    },
    Setting {
        name: "oidc_renew_secs",
        kind: SettingKind::Seconds { least: 1, most: 604_800, slot: |w| &mut w.console.oidc_renew },
        absent: Absent::Means("900"),
        doc: "How long a session lasts that began at the provider; it also ends with the provider's token. Then the page\n\
              signs in again there without asking (`prompt=none`), so that a role that was taken away ends.",
    },
    Setting {
        name: "oidc_name",
        kind: SettingKind::Text(|w| &mut w.console.oidc_name),
        absent: Absent::Means(r#""your organization""#),
        doc: "The provider's name for people.",
    },
    Setting {
        name: "oidc_ca",
        kind: SettingKind::Certificates(|w| &mut w.console.oidc_ca),
        absent: Absent::Nothing { example: r#""tls/issuer-ca.pem""# },
        doc: "The authorities of the provider's certificate, as a PEM file, instead of the system's.",
    },
    Setting {
        name: "owners",
        kind: SettingKind::Names(|w| &mut w.console.owners),
        absent: Absent::Means("[]"),
        doc: "People who may not approve the requests of a service, nor lift its freeze, besides the person that its tokens\n\
              name: `\"main:payroll=anna\"` says that requests of `payroll`, by a token of `[issuer.main]`, count as\n\
              anna's own. An entry can also say that two names belong to one person.",
    },
    Setting {
        name: "visible",
        kind: SettingKind::Names(|w| &mut w.console.visible),
        absent: Absent::Means("[]"),
        doc: "Whose calls a role sees in payments, holds, requests and the history: `\"viewer:sandbox\"` limits viewers to the\n\
              sandbox, `\"viewer:production:main:payroll\"` lets them see the calls of `payroll` by `[issuer.main]` as well. A\n\
              role that no entry names sees everything; a person sees what any of their roles sees.",
    },
    Setting {
        name: "payments_indexed",
        kind: SettingKind::Number {
            least: 1_000,
            most: 5_000_000,
            unit: "payments",
            slot: |w| &mut w.console.payments_indexed,
        },
        absent: Absent::Means("300_000"),
        doc: "How many of the newest payments the console keeps in memory once somebody looks at payments, some 700 bytes\n\
              each. Older ones are found by `sluice audit show`.",
    },
];
