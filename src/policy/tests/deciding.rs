use proptest::prelude::*;
use serde_json::{Value, json};

use super::language::WORDS;
use super::*;
use crate::catalog::Operation;
use crate::ledger::{StoreTime, WindowSpan};

pub(super) const USER: &str = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";
const OTHER: &str = "11111111-2f53-4a5e-9a52-6a1c0f7d4e11";
pub(super) const WALLET: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

pub(super) fn rules(text: &str) -> Rules {
    rules_of(text, catalog())
}

fn rules_of(text: &str, catalog: &Catalog) -> Rules {
    let files = [text, WORDS].map(|text| ("x.toml".to_owned(), text.to_owned()));
    let known = KnownNames { catalog, issuers: &["main", "console"], can_share: false };
    match read_policies(&files, &known) {
        Ok(reading) => reading.policies.rules,
        Err(findings) => panic!("{}", findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

pub(super) fn rule(id: &str, effect: &str, when: &str) -> String {
    let approval = if effect == "hold" { "approval = \"dual\"\n" } else { "" };
    format!("[[rule]]\nid = \"{id}\"\neffect = \"{effect}\"\n{approval}when = {{ {when} }}\n")
}

pub(super) fn asking<T>(operation: &str, body: &Value, ask: impl FnOnce(&PolicyRequest<'_>) -> T) -> T {
    asking_for(catalog().operation(&OperationId::new(operation)).unwrap(), body, ask)
}

fn asking_for<T>(operation: &Operation, body: &Value, ask: impl FnOnce(&PolicyRequest<'_>) -> T) -> T {
    let movement = operation.movement(body);
    ask(&PolicyRequest {
        environment: Environment::Production,
        operation,
        issuer: "main",
        subject: "payroll",
        requester: Some("anna"),
        roles: &["payroll".to_owned()].into(),
        path: "/v2/x",
        path_parameters: &[],
        body: Stated::Whole(body),
        movement: movement.as_ref(),
    })
}

pub(super) fn decide_with(rules: &Rules, operation: &str, body: &Value, facts: &Facts) -> Verdict {
    asking(operation, body, |asked| rules.decide(asked, facts))
}

pub(super) fn decide(rules: &Rules, body: &Value) -> Verdict {
    decide_with(rules, "createSwap", body, &Facts::default())
}

pub(super) fn swap(source: Value, destination: Value) -> Value {
    let mut body = json!({"requestId": "r-1", "source": {"currency": "usdc", "chain": "BASE", "userId": USER},
                          "destination": {"currency": "usdt", "chain": "BASE"}});
    for (side, members) in [("source", source), ("destination", destination)] {
        for (name, value) in members.as_object().unwrap() {
            body[side][name] = value.clone();
        }
    }
    body
}

#[test]
fn deny_beats_hold_beats_allow_and_nothing_is_deny() {
    let (allow, hold, deny) = (
        rule("a", "allow", "op = \"createSwap\""),
        rule("h", "hold", "op = \"createSwap\""),
        rule("d", "deny", "op = \"createSwap\""),
    );
    let body = swap(json!({"amount": "5"}), json!({}));
    let effect = |text: &str| decide(&rules(text), &body).effect;
    assert_eq!(effect(""), Effect::Deny);
    assert_eq!(effect(&allow), Effect::Allow);
    assert_eq!(effect(&format!("{allow}{hold}")), Effect::Hold);
    assert_eq!(effect(&format!("{allow}{hold}{deny}")), Effect::Deny);
    assert_eq!(effect(&rule("a", "allow", "op = \"createOfframp\"")), Effect::Deny);
    let second = hold.replace("\"h\"", "\"i\"").replace("dual", "one");
    let both = decide(&rules(&format!("{allow}{hold}{second}")), &body);
    assert_eq!(both.approvals.iter().map(|name| &**name).collect::<Vec<_>>(), ["dual", "one"]);
    let shadow = deny.replace("effect", "mode = \"shadow\"\neffect");
    let shown = decide(&rules(&format!("{allow}{shadow}")), &body);
    assert_eq!((shown.effect, shown.shadows.len()), (Effect::Allow, 1));
}

/// No way of writing an amount gets past the rule that it should meet.
#[test]
fn hostile_amounts_meet_their_rule() {
    let text = rule("a", "allow", "op = \"createSwap\", amount = \"(0, 100] USD\"")
        + &rule("h", "hold", "op = \"createSwap\", amount = \"(100, 1000] USD\"");
    let rules = rules(&text);
    let hostile = [
        (json!({"amount": "100"}), json!({}), Effect::Allow),
        (json!({"amount": 100}), json!({}), Effect::Allow),
        (json!({"amount": "100.000001"}), json!({}), Effect::Hold),
        (json!({"amount": "100.0000001"}), json!({}), Effect::Deny),
        (json!({"amount": "1000.000001"}), json!({}), Effect::Deny),
        (json!({"amount": "1e1"}), json!({}), Effect::Deny),
        (json!({"amount": "-5"}), json!({}), Effect::Deny),
        (json!({"amount": "+5"}), json!({}), Effect::Deny),
        (json!({"amount": "0"}), json!({}), Effect::Deny),
        (json!({"amount": "٥"}), json!({}), Effect::Deny),
        (json!({"amount": "5 "}), json!({}), Effect::Deny),
        (json!({"amount": ["5"]}), json!({}), Effect::Deny),
        (json!({"amount": null}), json!({}), Effect::Deny),
        (json!({"amount": "99999999999999999999999999999999999999999"}), json!({}), Effect::Deny),
        (json!({"amount": "5", "currency": "USDC"}), json!({}), Effect::Allow),
        (json!({"amount": "5", "currency": "wbtc"}), json!({}), Effect::Deny),
        (json!({"amount": "5", "currency": null}), json!({}), Effect::Deny),
        (json!({"amount": "5"}), json!({"amount": "500"}), Effect::Hold),
        (json!({"amount": "500"}), json!({"amount": "5"}), Effect::Hold),
        (json!({"amount": "5"}), json!({"amount": "x"}), Effect::Deny),
        (json!({"amount": "5"}), json!({"amount": "5", "currency": "wbtc"}), Effect::Deny),
        (json!({}), json!({"amount": "5"}), Effect::Deny),
        (json!({}), json!({}), Effect::Deny),
    ];
    for (source, destination, effect) in hostile {
        let body = swap(source, destination);
        assert_eq!(decide(&rules, &body).effect, effect, "{body}");
    }
}

#[test]
fn what_only_arrives_is_valued_by_its_price_or_a_slippage() {
    let allow = rule("a", "allow", "op = \"createSwap\", amount = \"(0, 101] USD\"");
    let value = |text: &str, price: Option<&str>| {
        let mut body = swap(json!({}), json!({"amount": "100"}));
        body["limitPrice"] = price.map_or(Value::Null, Value::from);
        let verdict = decide(&rules(text), &body);
        (verdict.effect, verdict.value.map(|value| value.to_string()))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(value(&allow, None), (Effect::Deny, None));
    assert_eq!(value(&allow, Some("1")), (Effect::Allow, some("100 USD")));
    assert_eq!(value(&allow, Some("2")), (Effect::Allow, some("100 USD")));
    assert_eq!(value(&allow, Some("0.5")), (Effect::Deny, some("200 USD")));
    assert_eq!(value(&allow, Some("0")), (Effect::Deny, None));
    let slipping = format!("{allow}[value]\nslippage = \"1%\"\n");
    assert_eq!(value(&slipping, None), (Effect::Allow, some("101 USD")));
    let stale = format!(
        "{slipping}[asset.usdc]\ndecimals = 6\nvalue = \"1 USD\"\nas_of = \"2026-01-01T00:00:00Z\"\ngood_for = \"1h\"\n"
    );
    assert_eq!(value(&stale, None), (Effect::Deny, None));
}

#[test]
fn an_allow_needs_every_name_of_a_destination_and_a_deny_any() {
    let allow = rule(
        "a",
        "allow",
        &format!("op = \"createSwap\", destination = {{ user = \"{USER}\", wallet = \"{WALLET}\" }}"),
    );
    let deny = rule("any", "allow", "op = \"createSwap\"")
        + &rule("d", "deny", &format!("op = \"createSwap\", destination.wallet = \"{WALLET}\""));
    let lower = WALLET.to_lowercase();
    let table = [
        (json!({}), Effect::Deny, Effect::Allow),
        (json!({"userId": USER}), Effect::Allow, Effect::Allow),
        (json!({"userId": USER.to_uppercase()}), Effect::Allow, Effect::Allow),
        (json!({"walletAddress": lower}), Effect::Allow, Effect::Deny),
        (json!({"walletAddress": lower, "chain": null}), Effect::Deny, Effect::Deny),
        (json!({"walletAddress": lower, "chain": "base"}), Effect::Allow, Effect::Deny),
        (json!({"walletAddress": lower, "chain": "OTHER"}), Effect::Deny, Effect::Deny),
        (json!({"userId": USER, "walletAddress": WALLET}), Effect::Allow, Effect::Deny),
        (json!({"userId": OTHER, "walletAddress": WALLET}), Effect::Deny, Effect::Deny),
        (json!({"userId": USER, "externalWalletId": OTHER}), Effect::Deny, Effect::Allow),
    ];
    let (allow, deny) = (rules(&allow), rules(&deny));
    for (destination, allowed, denied) in table {
        let body = swap(json!({"amount": "5"}), destination);
        assert_eq!((decide(&allow, &body).effect, decide(&deny, &body).effect), (allowed, denied), "{body}");
    }
}

#[test]
fn new_destinations_are_a_fact_and_an_unknown_one_is_deny() {
    let text =
        rule("a", "allow", "op = \"createSwap\"") + &rule("h", "hold", "op = \"createSwap\", destination.new = true");
    let body = swap(json!({"amount": "5"}), json!({"userId": USER}));
    let decide = |paid: Option<bool>| {
        let paid = paid.map(|paid| (format!("user:{USER}"), paid)).into_iter().collect();
        decide_with(&rules(&text), "createSwap", &body, &Facts { paid, ..Facts::default() })
    };
    assert_eq!(decide(None).effect, Effect::Deny);
    assert_eq!(decide(Some(false)).effect, Effect::Hold);
    assert_eq!(decide(Some(false)).assumed, [(format!("user:{USER}"), false)].into());
    assert_eq!(decide(Some(true)).effect, Effect::Allow);
}

#[test]
fn listed_places_need_a_rule_that_names_them() {
    let body = json!({"requestId": "r", "source": {"amount": "5", "currency": "usdc"}, "memo": "x"});
    let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
    let catalog = catalog.with_further(&["createOfframp:/memo".to_owned()], "x").unwrap();
    assert_ne!(catalog.digest(), super::catalog().digest());
    let operation = catalog.operation(&OperationId::new("createOfframp")).unwrap();
    let effect = |when: &str| {
        asking_for(operation, &body, |asked| {
            rules_of(&rule("a", "allow", when), &catalog).decide(asked, &Facts::default()).effect
        })
    };
    assert_eq!(effect("op = \"createOfframp\""), Effect::Deny);
    assert_eq!(effect("op = \"createOfframp\", body = { \"/memo\" = \"present\" }"), Effect::Allow);
    assert_eq!(effect("op = \"createOfframp\", body = { \"/memo\" = { in = [\"x\", \"y\"] } }"), Effect::Allow);
    assert_eq!(effect("op = \"createOfframp\", body = { \"/memo\" = { equals = \"y\" } }"), Effect::Deny);
    assert_eq!(effect("op = \"createOfframp\", body = { \"/memo\" = \"absent\" }"), Effect::Deny);
}

#[test]
fn days_and_hours_are_those_of_the_zone() {
    let text =
        rule("a", "allow", "op = \"createSwap\", weekday = [\"mon\"], hour = \"[9, 17)\", zone = \"Europe/Berlin\"");
    let rules = rules(&text);
    // 2026-03-30 was a Monday, the day after summer time began.
    for (time, effect) in [
        ("2026-03-30T06:59:59Z", Effect::Deny),
        ("2026-03-30T07:00:00Z", Effect::Allow),
        ("2026-03-30T14:59:59Z", Effect::Allow),
        ("2026-03-30T15:00:00Z", Effect::Deny),
        ("2026-03-23T07:00:00Z", Effect::Deny),
        ("2026-03-23T08:00:00Z", Effect::Allow),
        ("2026-03-31T08:00:00Z", Effect::Deny),
    ] {
        let now = StoreTime::of_micros(time.parse::<jiff::Timestamp>().unwrap().as_microsecond());
        let body = swap(json!({"amount": "5"}), json!({}));
        assert_eq!(
            decide_with(&rules, "createSwap", &body, &Facts { now, ..Facts::default() }).effect,
            effect,
            "{time}"
        );
    }
}

pub(super) fn limit(id: &str, lines: &str) -> String {
    format!("[[limit]]\nid = \"{id}\"\nops = [\"createSwap\"]\n{lines}\n")
}

#[test]
fn limits_say_what_must_be_reserved() {
    let text = rule("a", "allow", "op = \"createSwap\"")
        + &limit(
            "day",
            "window = \"calendar day Europe/Berlin\"\nper = [\"environment\", \"caller\"]\nmax = \"100 USD\"\nover = \"deny\"",
        )
        + &limit(
            "to",
            "window = \"rolling 1h\"\nper = [\"destination\"]\nmax = \"2 calls\"\nover = \"hold\"\napproval = \"one\"",
        );
    let rules = rules(&text);
    let mut facts = Facts { now: StoreTime::of_micros(1_774_800_000_000_000), ..Facts::default() };
    let body = swap(json!({"amount": "60.5"}), json!({"userId": USER, "walletAddress": WALLET}));
    let verdict = decide_with(&rules, "createSwap", &body, &facts);
    let reserved: Vec<(String, u64, u64)> =
        verdict.reservations.iter().map(|r| (r.window.key.clone(), r.units, r.max)).collect();
    assert_eq!(verdict.effect, Effect::Allow);
    assert_eq!(
        reserved,
        [
            (r#"{"caller":"main:payroll","environment":"production"}"#.to_owned(), 60_500_000, 100_000_000),
            (format!("{{\"destination\":\"user:{USER}\",\"unit\":\"calls\"}}"), 1, 2),
            (format!("{{\"destination\":\"wallet:{}\",\"unit\":\"calls\"}}", WALLET.to_lowercase()), 1, 2),
        ]
    );
    // The day on which summer time begins has 23 hours.
    let WindowSpan::Fixed { from, to } = verdict.reservations[0].span else { panic!("a calendar day is fixed") };
    assert_eq!(to.since(from).as_secs(), 23 * 3_600);
    let key = |at: usize| (verdict.reservations[at].window.limit.clone(), verdict.reservations[at].window.key.clone());
    facts.exceeded = [(key(2), 2)].into();
    let held = decide_with(&rules, "createSwap", &body, &facts);
    assert_eq!((held.effect, held.approvals.len(), held.reservations.len()), (Effect::Hold, 1, 3));
    // Of two windows it says which one is full.
    let which = format!("over the limit of 2 calls for wallet:{}, up to 3 calls", WALLET.to_lowercase());
    assert!(held.reasons.iter().any(|reason| reason.text.starts_with(&which)), "{:?}", held.reasons);
    facts.exceeded.insert(key(0), 50_000_000);
    assert_eq!(decide_with(&rules, "createSwap", &body, &facts).effect, Effect::Deny);
    // Nobody else is blamed for an amount that cannot be valued.
    let unvalued = decide(&rules, &swap(json!({"amount": "5", "currency": "pebbles"}), json!({})));
    assert!(
        unvalued.effect == Effect::Deny && unvalued.reasons.iter().all(|one| one.cause == Cause::Gate),
        "{unvalued:?}"
    );
    // One payment that is larger than the limit needs no window to be told.
    assert_eq!(decide(&rules, &swap(json!({"amount": "100.000001"}), json!({}))).effect, Effect::Deny);
}

#[test]
fn one_payment_is_one_however_it_is_written() {
    let text = rule("a", "allow", "op = \"createSwap\"")
        + &limit("all", "window = \"rolling 24h\"\nmax = \"100000 USD\"\nover = \"deny\"")
        + &limit("twice", "window = \"rolling 1h\"\nper = [\"payment\"]\nmax = \"1 call\"\nover = \"deny\"");
    let rules = rules(&text);
    let key = |body: &Value| decide(&rules, body).reservations.last().unwrap().window.key.clone();
    let mut other =
        swap(json!({"amount": 5, "currency": "USDC", "userId": USER.to_uppercase()}), json!({"chain": "base"}));
    other["requestId"] = "r-2".into();
    let body = swap(json!({"amount": "5.00"}), json!({}));
    assert_eq!(key(&body), key(&other));
    assert_ne!(key(&body), key(&swap(json!({"amount": "5.01"}), json!({}))));
    assert_ne!(key(&body), key(&swap(json!({"amount": "5"}), json!({"userId": USER}))));
}

#[test]
fn a_change_of_terms_is_one_however_its_wallets_and_numbers_are_written() {
    let payment = |body: &Value| asking("createSettlementRule", body, |asked| View::unvalued(asked).payment());
    let body = |id: &str, wallet: &str, value: &str| -> Value {
        let value: Value = serde_json::from_str(value).unwrap();
        let rule = json!({"type": "FIXED", "calculationModel": "FIXED", "walletAddress": wallet, "value": value});
        json!({"requestId": id, "chain": "BASE", "rules": [rule]})
    };
    let one = payment(&body("r-1", WALLET, "1"));
    for (wallet, value) in [(WALLET.to_lowercase().as_str(), "1"), (WALLET, "1.0"), (WALLET, "1.00")] {
        assert_eq!(payment(&body("r-2", wallet, value)), one, "{wallet} {value}");
    }
    let other = format!("0x{:040}", 9);
    for (wallet, value) in [(other.as_str(), "1"), (WALLET, "10"), (WALLET, "1.01")] {
        assert_ne!(payment(&body("r-1", wallet, value)), one, "{wallet} {value}");
    }
}

#[test]
fn a_near_miss_is_one_condition_away() {
    let text = rule("a", "allow", "op = \"createSwap\", role = \"payroll\", amount = \"(0, 5] USD\"")
        + &rule("b", "allow", "op = \"createSwap\", role = \"other\", amount = \"(0, 5] USD\"");
    let rules = rules(&text);
    let body = swap(json!({"amount": "6"}), json!({}));
    let facts = Facts::default();
    let near = asking("createSwap", &body, |asked| rules.near(asked, &facts));
    assert_eq!(near.iter().map(|(rule, _)| &*rule.id).collect::<Vec<_>>(), ["a"]);
    assert!(matches!(near[0].1, Condition::Amount { .. }));
    // Of an amount that cannot be valued nobody knows whether it lacks as well.
    let unknown = swap(json!({"amount": "6", "currency": "unheard-of"}), json!({}));
    assert!(asking("createSwap", &unknown, |asked| rules.near(asked, &facts)).is_empty());
}

/// A rule of a small world.
fn any_rule() -> impl Strategy<Value = String> {
    let effect = prop_oneof![Just("allow"), Just("hold"), Just("deny")];
    let parts = [
        vec!["", "amount = \"(0, 10] USD\"", "amount = \"(5, 20] USD\"", "amount = \"(10, inf) USD\""],
        vec!["", "role = \"payroll\"", "role = \"other\"", "caller = \"main:payroll\""],
        vec![
            "",
            "destination.user = \"9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11\"",
            "destination.new = true",
            "destination.new = false",
        ],
        vec![
            "",
            "chain = \"BASE\"",
            "currency = [\"usdc\", \"usdt\"]",
            "body = { \"/limitPrice\" = \"present\" }",
            "price = \"[1, 2]\"",
        ],
    ];
    let parts = parts.map(proptest::sample::select);
    (effect, proptest::bool::weighted(0.2), parts).prop_map(|(effect, shadow, parts)| {
        let when =
            ["op = \"createSwap\""].into_iter().chain(parts).filter(|p| !p.is_empty()).collect::<Vec<_>>().join(", ");
        let mode = if shadow { "mode = \"shadow\"\n" } else { "" };
        rule("ID", effect, &when).replace("effect =", &format!("{mode}effect ="))
    })
}

fn any_swap() -> impl Strategy<Value = (Value, Facts)> {
    let amount = proptest::sample::select(vec![json!("5"), json!(10), json!("20.5"), json!("x"), Value::Null]);
    let to = proptest::sample::select(vec![Value::Null, json!(USER), json!(OTHER)]);
    let price = proptest::sample::select(vec![None, Some("1.5"), Some("3"), Some("x")]);
    let paid = proptest::option::of(any::<bool>());
    (amount.clone(), amount, to, price, paid).prop_map(|(source, destination, to, price, paid)| {
        let mut body = swap(json!({"amount": source}), json!({"amount": destination, "userId": to}));
        if let Some(price) = price {
            body["limitPrice"] = price.into();
        }
        let known = paid.into_iter().flat_map(|paid| [USER, OTHER].map(|user| (format!("user:{user}"), paid)));
        (body, Facts { paid: known.collect(), ..Facts::default() })
    })
}

fn set(texts: &[String]) -> Rules {
    let numbered = texts.iter().enumerate().map(|(at, text)| text.replace("ID", &format!("r{at}")));
    rules(&numbered.collect::<String>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn order_means_nothing(texts in proptest::collection::vec(any_rule(), 0..8), (body, facts) in any_swap(), turn in 0_usize..8) {
        let numbered: Vec<String> = texts.iter().enumerate().map(|(at, text)| text.replace("ID", &format!("r{at}"))).collect();
        let mut turned = numbered.clone();
        turned.rotate_left(turn % numbered.len().max(1));
        turned.reverse();
        let decide = |texts: &[String]| decide_with(&set(texts), "createSwap", &body, &facts);
        prop_assert_eq!(decide(&numbered), decide(&turned));
    }

    #[test]
    fn a_deny_more_never_allows_more(
        mut texts in proptest::collection::vec(any_rule(), 0..8), more in any_rule(), (body, facts) in any_swap(),
    ) {
        let before = decide_with(&set(&texts), "createSwap", &body, &facts).effect;
        texts.push(more.replace("approval = \"dual\"\n", "").replace("\"allow\"", "\"deny\"").replace("\"hold\"", "\"deny\""));
        let after = decide_with(&set(&texts), "createSwap", &body, &facts).effect;
        prop_assert!(after >= before, "{before:?} became {after:?}");
    }

    /// Rules that the index leaves out could not have matched: going through every rule says the same.
    #[test]
    fn the_index_loses_no_rule(texts in proptest::collection::vec(any_rule(), 1..8), (body, facts) in any_swap()) {
        let rules = set(&texts);
        let verdict = decide_with(&rules, "createSwap", &body, &facts);
        let meant = asking("createSwap", &body, |asked| {
            let view = View::of(asked, &rules.valuation, &facts);
            let enforced = rules.rules.iter().filter(|rule| rule.mode == Mode::Enforce);
            let says = |rule: &Rule| match rule.matches(&view, &facts) {
                Ok(matches) => matches.then_some(rule.effect),
                Err(_) => Some(Effect::Deny),
            };
            let valued = view.value.unwrap().is_ok();
            enforced.filter_map(says).max().filter(|_| valued).unwrap_or(Effect::Deny)
        });
        prop_assert_eq!(verdict.effect, meant);
    }
}
