//! Small worlds: random rules about a few things, and every request that they could tell apart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::world_fees::{fee_wallets, uncovered};
use super::*;
use crate::base::ids::{Environment, OperationId};
use crate::base::pointer::Pointer;
use crate::ledger::StoreTime;
use crate::policy::acquaintance::Acquaintance;
use crate::policy::request::Field;

pub const U1: &str = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";
const U2: &str = "11111111-2f53-4a5e-9a52-6a1c0f7d4e11";
pub const W1: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
pub const W2: &str = "0x0000000000000000000000000000000000000009";
pub const W3: &str = "0x0000000000000000000000000000000000000007";

/// A third of the seeds; `SLUICE_WORLDS` asks for all.
pub fn seeds(all: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    all.step_by(if std::env::var_os("SLUICE_WORLDS").is_some() { 1 } else { 3 })
}

/// Numbers that look random and are the same each time.
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678_9ABC_DEF1))
    }

    pub fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(most).unwrap()).unwrap()
    }

    pub fn one<'o, T>(&mut self, of: &'o [T]) -> &'o T {
        &of[self.below(of.len())]
    }

    pub fn is_lucky(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

pub type WorldChange = Box<dyn Fn(&mut Payment)>;

/// One thing that rules ask about: how they may, and every way in which requests may be.
pub struct Dimension {
    pub asked: Vec<String>,
    pub ways: Vec<WorldChange>,
}

pub fn change(change: impl Fn(&mut Payment) + 'static) -> WorldChange {
    Box::new(change)
}

pub fn lines(asked: &[&str]) -> Vec<String> {
    asked.iter().map(|line| (*line).to_owned()).collect()
}

pub const SWAP: &str = "createSwap";

/// The things that can be asked of an operation.
fn dimensions(operation: &str) -> Vec<Dimension> {
    let mut all = vec![environment(), callers(), roles(), requesters(), times()];
    match operation {
        SWAP => all.extend([chains(), currencies(), destinations(), amounts(), amounts(), prices(), bodies()]),
        "createSettlementRule" => all.extend([fee_wallets(), uncovered(), uncovered()]),
        _ => all.extend([path_users()]),
    }
    all
}

fn environment() -> Dimension {
    let ways = Environment::ALL.map(|one| change(move |payment| payment.environment = one));
    Dimension {
        asked: lines(&["environment = \"production\"", "environment = \"sandbox\""]),
        ways: ways.into_iter().collect(),
    }
}

fn callers() -> Dimension {
    let way = |issuer: &'static str, subject: &'static str| {
        change(move |payment| (payment.issuer, payment.subject) = (issuer.to_owned(), subject.to_owned()))
    };
    Dimension {
        asked: lines(&[
            "caller = \"main:a\"",
            "caller = [\"main:a\", \"console:b\"]",
            "issuer = \"main\"",
            "issuer = \"console\"",
            "caller = \"main:a\", issuer = \"console\"",
            "caller = { not_in = \"main:a\" }",
        ]),
        ways: vec![way("main", "a"), way("main", "z"), way("console", "b"), way("console", "z")],
    }
}

fn roles() -> Dimension {
    let way = |roles: &'static [&'static str]| {
        change(move |payment| payment.roles = roles.iter().map(|role| (*role).to_owned()).collect())
    };
    Dimension {
        asked: lines(&["role = \"r\"", "role = \"s\"", "role = [\"r\", \"s\"]", "role = { not_in = [\"r\", \"t\"] }"]),
        ways: vec![way(&[]), way(&["r"]), way(&["s"]), way(&["r", "s"]), way(&["t"]), way(&["r", "t"])],
    }
}

fn requesters() -> Dimension {
    let way = |name: Option<&'static str>| change(move |payment| payment.requester = name.map(str::to_owned));
    Dimension {
        asked: lines(&["requester = \"anna\"", "requester = [\"anna\", \"bob\"]", "requester = { not_in = \"bob\" }"]),
        ways: vec![way(None), way(Some("anna")), way(Some("bob")), way(Some("carl"))],
    }
}

fn times() -> Dimension {
    let way = |time: &'static str| {
        let time: jiff::Timestamp = time.parse().unwrap();
        change(move |payment| payment.now = StoreTime::of_micros(time.as_microsecond()))
    };
    Dimension {
        asked: lines(&[
            "weekday = [\"sat\", \"sun\"], zone = \"UTC\"",
            "weekday = \"sat\", zone = \"Europe/Berlin\"",
            "hour = \"[9, 17)\", zone = \"UTC\"",
            "date = \"[2026-01-09, 2026-01-11)\", zone = \"UTC\"",
            "date = [\"2026-01-07\", \"[2026-01-11, inf)\"], zone = \"Europe/Berlin\"",
            "date = { not_in = [\"2026-01-10\", \"2026-01-07\"] }, zone = \"UTC\"",
            "hour = \"[17, 9)\", zone = \"UTC\"",
            "hour = \"[9, 17)\", weekday = [\"mon\", \"wed\", \"fri\"], zone = \"UTC\"",
        ]),
        ways: vec![
            way("2026-01-07T12:00:00Z"),
            way("2026-01-07T08:59:00Z"),
            way("2026-01-07T16:59:00Z"),
            way("2026-01-07T17:00:00Z"),
            way("2026-01-09T23:30:00Z"),
            way("2026-01-10T12:00:00Z"),
            way("2026-01-10T23:30:00Z"),
            way("2026-01-11T03:00:00Z"),
        ],
    }
}

fn stand(side: usize, word: &'static str, text: Option<&'static str>) -> impl Fn(&mut Payment) {
    move |payment| {
        payment.sides[side].retain(|(known, _)| *known != word);
        payment.sides[side].extend(text.map(|text| (word, text.to_owned())));
    }
}

fn chains() -> Dimension {
    let names = [None, Some("BASE"), Some("SOLANA"), Some("TRON")];
    let both = |a, b| {
        let (source, destination) = (stand(0, "chain", a), stand(1, "chain", b));
        change(move |payment| {
            source(payment);
            destination(payment);
        })
    };
    Dimension {
        asked: lines(&[
            "chain = \"BASE\"",
            "chain = [\"BASE\", \"SOLANA\"]",
            "source.chain = \"BASE\"",
            "destination.chain = [\"SOLANA\", \"BASE\"]",
            "chain = { not_in = [\"BASE\", \"TRON\"] }",
            "destination.chain.not_in = \"SOLANA\"",
        ]),
        ways: names.into_iter().flat_map(|a| names.map(|b| both(a, b))).collect(),
    }
}

fn currencies() -> Dimension {
    let both = |a, b| {
        let (source, destination) = (stand(0, "currency", Some(a)), stand(1, "currency", b));
        change(move |payment| {
            source(payment);
            destination(payment);
        })
    };
    let seconds = [None, Some("usdc"), Some("usdt"), Some("doge")];
    let firsts = ["usdc", "usdt", "usd", "usdcx"];
    Dimension {
        asked: lines(&[
            "currency = \"usdc\"",
            "currency = [\"usdc\", \"usdt\"]",
            "source.currency = [\"usd\", \"usdc\"]",
            "destination.currency = \"usdt\"",
            "currency = { not_in = \"usdt\" }",
        ]),
        ways: firsts.into_iter().flat_map(|a| seconds.map(|b| both(a, b))).collect(),
    }
}

fn destinations() -> Dimension {
    let way = |user: Option<(&'static str, Option<Acquaintance>)>,
               wallet: Option<(&'static str, Option<Acquaintance>)>| {
        let to_user = stand(1, "user", user.map(|(name, _)| name));
        let to_wallet = stand(1, "wallet", wallet.map(|(name, _)| name));
        change(move |payment| {
            to_user(payment);
            to_wallet(payment);
            let paid = |way: Option<(&str, Option<Acquaintance>)>| way.and_then(|(_, paid)| paid);
            payment.paid = [(Field::DestinationUser, paid(user)), (Field::DestinationWallet, paid(wallet))]
                .into_iter()
                .filter_map(|(field, paid)| Some((field, paid?)))
                .collect();
        })
    };
    let all = |names: [&'static str; 2]| {
        let known = [None, Some(Some(Duration::MAX)), Some(Some(Duration::from_secs(3_600))), Some(None)];
        let each = names.into_iter().flat_map(|name| known.map(|paid| Some((name, paid))));
        [None].into_iter().chain(each).collect::<Vec<_>>()
    };
    let wallets = all([W1, W2]);
    Dimension {
        asked: vec![
            format!("destination.user = \"{U1}\""),
            format!("destination.wallet = \"{W1}\""),
            format!("destination.user = \"{U1}\", destination.wallet = \"{W1}\""),
            format!("destination.user = {{ not_in = \"{U1}\" }}"),
            format!("destination.user = \"{U1}\", destination.wallet = {{ not_in = \"{W1}\" }}"),
            format!("destination.user = {{ not_in = \"{U2}\" }}, destination.wallet = {{ not_in = \"{W1}\" }}"),
            "destination.new = true".to_owned(),
            "destination.new = false".to_owned(),
            "destination.new = true, destination.cooldown = \"1h\"".to_owned(),
            "destination.new = false, destination.cooldown = \"24h\"".to_owned(),
            "destination.new = true, destination.cooldown = \"24h\"".to_owned(),
            format!("destination.user = [\"{U1}\", \"{U2}\"], destination.new = true"),
        ],
        ways: all([U1, U2]).iter().flat_map(|user| wallets.iter().map(|wallet| way(*user, *wallet))).collect(),
    }
}

const VALUES: [&str; 9] =
    ["0.000001", "49.999999", "50", "100", "100.000001", "149.999999", "150", "1000", "1000.000001"];

fn amounts() -> Dimension {
    Dimension {
        asked: lines(&[
            "amount = \"(0, 100] USD\"",
            "amount = \"(100, 1000] USD\"",
            "amount = \"[50, 150) USD\"",
            "amount = \"(1000, inf) USD\"",
            "amount = \"[100, 100] USD\"",
        ]),
        ways: VALUES.into_iter().map(|value| change(stand(0, "amount", Some(value)))).collect(),
    }
}

fn prices() -> Dimension {
    let way = |price: Option<&'static str>| change(move |payment| payment.price = price.map(str::to_owned));
    let prices = [None, Some("0.49999999"), Some("0.5"), Some("1"), Some("1.00000001"), Some("?")];
    Dimension {
        asked: lines(&["price = \"[0.5, 1]\"", "price = \"(1, inf)\""]),
        ways: prices.into_iter().map(way).collect(),
    }
}

fn bodies() -> Dimension {
    let ways = [
        None,
        Some(json!({})),
        Some(json!(5)),
        Some(json!("a")),
        Some(json!("c")),
        Some(json!({"fees": []})),
        Some(json!({"fees": [{"w": "x"}]})),
        Some(json!({"fees": [{"w": "y"}]})),
        Some(json!({"fees": [{"w": "x"}, {"w": "y"}]})),
        Some(json!({"fees": [{"w": "x"}, {"w": "z"}]})),
    ];
    let way = |value: Option<Value>| {
        change(move |payment| payment.places.extend(value.clone().map(|value| ("/fee".to_owned(), value))))
    };
    Dimension {
        asked: lines(&[
            "body = { \"/fee\" = \"absent\" }",
            "body = { \"/fee\" = \"present\" }",
            "body = { \"/fee\" = { in = [\"a\", 5] } }",
            "body = { \"/fee/fees/*/w\" = { in = [\"x\", \"y\"] } }",
            "body = { \"/fee/fees/*/w\" = { equals = \"x\" } }",
            "body = { \"/fee\" = { not_in = [\"a\", 5] } }",
            "body = { \"/fee/fees/*/w\" = { not_in = [\"x\", \"y\"] } }",
            "body = { \"/fee\" = \"present\", \"/fee/fees/*/w\" = \"absent\" }",
        ]),
        ways: ways.into_iter().map(way).collect(),
    }
}

fn path_users() -> Dimension {
    let way = |user: &'static str| {
        change(move |payment| payment.path_parameters = vec![("userId".to_owned(), user.to_owned())])
    };
    Dimension {
        asked: vec![
            format!("user = \"{U1}\""),
            format!("user = [\"{U1}\", \"{U2}\"]"),
            format!("user = {{ not_in = \"{U2}\" }}"),
        ],
        ways: vec![way(U1), way(U2), way("x")],
    }
}

/// A request that says as little as can be.
fn bare_payment(operation: &str) -> Payment {
    let operation = catalog().operation(&OperationId::new(operation)).unwrap();
    let sides = match operation.has_amount() {
        true => [vec![("amount", "100".to_owned()), ("currency", "usdc".to_owned())], Vec::new()],
        false => [Vec::new(), Vec::new()],
    };
    Payment {
        operation: operation.id.clone(),
        environment: Environment::Production,
        issuer: "main".to_owned(),
        subject: "z".to_owned(),
        requester: None,
        roles: BTreeSet::new(),
        path_parameters: operation.template.parameters().map(|name| (name.to_owned(), "x".to_owned())).collect(),
        now: StoreTime::of_micros(crate::policy::policy_test::USUAL_TIME),
        paid: BTreeMap::new(),
        full: BTreeSet::new(),
        sides,
        price: None,
        places: BTreeMap::new(),
        body: json!({}),
    }
}

/// The same, by somebody whom rules name.
pub fn named(operation: &str, requester: &str) -> Payment {
    Payment { requester: Some(requester.to_owned()), ..bare_payment(operation) }
}

/// The subject of one small world.
pub struct AnalysisWorld {
    pub operation: &'static str,
    dimensions: Vec<Dimension>,
}

impl AnalysisWorld {
    pub fn random(dice: &mut Dice) -> AnalysisWorld {
        let operation = *dice.one(&[SWAP, SWAP, SWAP, "createSettlementRule", "updateUser"]);
        let mut all = dimensions(operation);
        let mut dimensions: Vec<Dimension> = Vec::new();
        while dimensions.len() < 3 {
            let taken = all.remove(dice.below(all.len()));
            if !dimensions.iter().any(|other| other.asked == taken.asked) {
                dimensions.push(taken);
            }
        }
        AnalysisWorld { operation, dimensions }
    }

    /// The conditions that a rule may have.
    pub fn when(&self, dice: &mut Dice) -> String {
        let mut asked = vec![format!("op = \"{}\"", self.operation)];
        for dimension in &self.dimensions {
            if dice.is_lucky(60) {
                asked.push(dice.one(&dimension.asked).clone());
            }
        }
        asked.join(", ")
    }

    pub fn rule(&self, id: &str, dice: &mut Dice) -> String {
        let effect = *dice.one(&["allow", "allow", "hold", "deny"]);
        let approval =
            if effect == "hold" { format!("approval = \"{}\"\n", dice.one(&["one", "dual"])) } else { String::new() };
        let mode = if dice.is_lucky(8) { "mode = \"shadow\"\n" } else { "" };
        format!("[[rule]]\nid = \"{id}\"\neffect = \"{effect}\"\n{approval}{mode}when = {{ {} }}\n", self.when(dice))
    }

    pub fn limit(&self, id: &str, dice: &mut Dice) -> String {
        let max = match self.operation == SWAP && dice.is_lucky(60) {
            true => *dice.one(&["100 USD", "149.999999 USD", "1000 USD"]),
            false => "3 calls",
        };
        let over = if dice.is_lucky(50) { "over = \"deny\"" } else { "over = \"hold\"\napproval = \"dual\"" };
        let when =
            self.when(dice).split_once(", ").map(|(_, rest)| format!("when = {{ {rest} }}\n")).unwrap_or_default();
        format!(
            "[[limit]]\nid = \"{id}\"\nops = \"{}\"\nwindow = \"rolling 1h\"\nper = [\"caller\"]\nmax = \"{max}\"\n{over}\n{when}",
            self.operation
        )
    }

    /// Rules, and now and then limits.
    pub fn set(&self, dice: &mut Dice) -> String {
        let rules = (0..2 + dice.below(4)).map(|at| self.rule(&format!("r{at}"), dice)).collect::<String>();
        let limits = (0..dice.below(5).saturating_sub(2)).map(|at| self.limit(&format!("l{at}"), dice));
        rules + &limits.collect::<String>()
    }

    /// Every request that could be told apart; with each limit full and not.
    pub fn requests(&self, limits: &[&str]) -> Vec<Payment> {
        let mut all = vec![bare_payment(self.operation)];
        for dimension in &self.dimensions {
            let change = |payment: &Payment| {
                let one = |way: &WorldChange| {
                    let mut payment = payment.clone();
                    way(&mut payment);
                    payment
                };
                dimension.ways.iter().map(one).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(change).collect();
        }
        for limit in limits {
            let full = |payment: &Payment| {
                let mut full = payment.clone();
                full.full.insert((*limit).to_owned());
                [payment.clone(), full]
            };
            all = all.iter().flat_map(full).collect();
        }
        let money = catalog().operation(&OperationId::new(self.operation)).unwrap().money.clone().unwrap_or_default();
        for payment in &mut all {
            payment.fill(&money);
            for (place, value) in payment.places.clone() {
                payment.put_several(&Pointer::parse(&place).unwrap(), vec![value]);
            }
        }
        all
    }
}

/// Whether everything about it can be told.
pub fn is_told(payment: &Payment) -> bool {
    let is_named = |word: &str| payment.sides[1].iter().any(|(known, _)| *known == word);
    let is_known = |word: &str, field: Field| !is_named(word) || payment.paid.contains_key(&field);
    let is_paid_known = is_known("user", Field::DestinationUser) && is_known("wallet", Field::DestinationWallet);
    is_paid_known && payment.price.as_deref() != Some("?")
}
