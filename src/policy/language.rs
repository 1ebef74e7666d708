//! The fields of the policy language: one table for the parser, the JSON Schema and the manual.

use super::field_form::FieldValue::{
    BodyConditions, BodyValues, List, Members, Name, Names, Number, OneOrMore, Operation, Operations, Pattern, Table,
    Tables, Text, Texts, Truth, Word, Words,
};
use super::field_form::{FieldValue, PolicyField, PolicyTable, Sort, last_day_pattern, optional, required, with_group};
use super::limit;
use super::limit_key;
use super::rate::{self, Mode, RateKey};
use super::request::Field;
use super::rule::Effect;
use super::value_kind::ValueKind;
use super::{quota, recovery_keys, signing, times, when};
use crate::base::money::MAX_DECIMALS;

/// A decimal number, as a regular expression.
const NUMBER: &str = "[0-9]+([.][0-9]+)?";
const EFFECT_REMEDY: &str = "write `effect = \"allow\"`, `\"hold\"` or `\"deny\"`";
const OPERATIONS_REMEDY: &str = "write `ops = [\"*\"]` for all, classes as `\"@money\"`, or operations by their ids";
const OP_REMEDY: &str = "write `op = [\"*\"]` for all, classes as `\"@money\"`, or operations by their ids";
const EFFECT: FieldValue = Word(|| Effect::ALL.map(Effect::as_str).into());
const SPAN: FieldValue = Pattern(|| "^[1-9][0-9]*[mhd]$".to_owned());
const WEEKDAY: FieldValue = Word(|| times::DAYS.map(|(name, _)| name).into());

const ID: PolicyField = required(
    "id",
    Pattern(|| "^[a-z0-9-]{1,32}$".to_owned()),
    "write for example `id = \"per-caller\"`",
    "The name in decisions, metrics and logs.",
);
const MODE: PolicyField = optional(
    "mode",
    Word(|| Mode::ALL.map(Mode::as_str).into()),
    "`shadow`: counted and logged, but not enforced. Default: `enforce`.",
);
const DESCRIPTION: PolicyField = optional(
    "description",
    Text,
    "What it is for. Callers, approvers and auditors see it; it decides nothing. At most 300 characters.",
);
const OP: PolicyField = required("op", OneOrMore(&Operations), OP_REMEDY, "The operations that it matches.");

/// Returns the fields of a kind of table.
pub(super) fn table_of(kind: ValueKind) -> &'static PolicyTable {
    match kind {
        ValueKind::Rate => &RATE,
        ValueKind::Asset => &ASSET,
        ValueKind::Value => &VALUE,
        ValueKind::Group => &GROUP,
        ValueKind::List => &LIST,
        ValueKind::Signing => &signing::SIGNING,
        ValueKind::Passkey => &signing::PASSKEY,
        ValueKind::Recovery => &recovery_keys::RECOVERY,
        ValueKind::RecoveryKey => &recovery_keys::RECOVERY_KEY,
        ValueKind::Approval => &APPROVAL,
        ValueKind::Rule => &RULE,
        ValueKind::Limit => &LIMIT,
        ValueKind::Invariant => &INVARIANT,
        ValueKind::Test => &TEST,
    }
}

static RATE: PolicyTable = PolicyTable {
    name: "rate",
    doc: "A limit on how often calls may be made, or on how many may run at one time.",
    fields: &[
        ID,
        required("ops", List(&Operations), OPERATIONS_REMEDY, "The operations that it matches."),
        optional("environment", List(&Name(Sort::Environment)), "Only calls in these environments."),
        optional("issuer", List(&Name(Sort::Issuer)), "Only callers of these issuers."),
        optional("role", List(&Text), "Only callers with one of these roles, exactly as tokens name them."),
        optional("caller", List(&Name(Sort::Caller)), "Only these callers."),
        optional(
            "per",
            Words(|| RateKey::ALL.map(RateKey::as_str).into()),
            "The properties whose values have a bucket each. Without it, all calls share one.",
        ),
        optional("quota", Pattern(quota::pattern), "`100/s burst 200`: calls per time, and how many at once."),
        optional("concurrent", Number { least: 1, most: rate::MAX_CONCURRENT }, "How many calls may run at one time."),
        optional("shared", Truth, "Whether all nodes count together, in their Redis. Default: each by itself."),
        MODE,
    ],
    base: None,
    one_of: &[&["quota"], &["concurrent"]],
};

static ASSET: PolicyTable = PolicyTable {
    name: "asset",
    doc: "An asset: its decimals, and its value. Without a value, its amounts cannot be valued.",
    fields: &[
        required(
            "decimals",
            Number { least: 0, most: MAX_DECIMALS as u64 },
            "write for example `decimals = 6`",
            "The decimals of its amounts.",
        ),
        optional("par", Truth, "One unit is one USD."),
        optional("value", Pattern(|| format!("^{NUMBER} USD$")), "The value of one unit: `2500.25 USD`."),
        optional("as_of", Text, "The time of that value: `2026-11-20T09:00:00Z`."),
        optional("good_for", SPAN, "How long that value may be used: `24h`."),
    ],
    base: None,
    one_of: &[],
};

static VALUE: PolicyTable = PolicyTable {
    name: "value",
    doc: "Assumptions for bodies that leave something open.",
    fields: &[optional(
        "slippage",
        Pattern(|| format!("^{NUMBER}%$")),
        "How much more than what arrives a swap may cost, if it states only what arrives: `0.5%`.",
    )],
    base: None,
    one_of: &[],
};

static GROUP: PolicyTable = PolicyTable {
    name: "group",
    doc: "A group of people, as `issuer:subject`.",
    fields: &[required(
        "members",
        List(&Name(Sort::Caller)),
        "write for example `members = [\"console:anna\"]`",
        "The people.",
    )],
    base: None,
    one_of: &[],
};

static LIST: PolicyTable = PolicyTable {
    name: "list",
    doc: "Names that conditions refer to as `@NAME`.",
    fields: &[
        DESCRIPTION,
        optional("user", Members(Sort::User), "Users."),
        optional("wallet", Members(Sort::Wallet), "Wallets."),
        optional("external_wallet", Members(Sort::ExternalWallet), "External wallets."),
        optional("account", Members(Sort::Account), "Accounts."),
        optional("chain", List(&Name(Sort::Chain)), "Chains."),
        optional("currency", List(&Name(Sort::Currency)), "Assets."),
        optional("text", List(&Name(Sort::Text)), "Texts, for roles, requesters and fields of the body."),
        optional(
            "date",
            List(&Name(Sort::Date)),
            "Dates, such as holidays: `2026-12-24`, or `[2026-12-24, 2027-01-02)`.",
        ),
    ],
    base: None,
    one_of: &[],
};

static APPROVAL: PolicyTable = PolicyTable {
    name: "approval",
    doc: "The people who must approve a held call.",
    fields: &[
        DESCRIPTION,
        required(
            "expires",
            SPAN,
            "write for example `expires = \"8h\"`",
            "The time in which they may approve it: `8h`.",
        ),
        optional(
            "signed",
            Truth,
            "Whether only votes count that are signed with a passkey of the set. Default: `false`.",
        ),
    ],
    base: Some(&NEED),
    one_of: &[],
};

static NEED: PolicyTable = PolicyTable {
    name: "need",
    doc: "A need for approvals.",
    fields: &[
        optional("all", Tables(&NEED), "Every one of these needs."),
        optional("any", Tables(&NEED), "One of these needs."),
        with_group("of", Text, "write the name of a group", "The name of a group."),
        with_group("n", Number { least: 1, most: 100 }, "write how many of them", "How many members of the group."),
    ],
    base: None,
    one_of: &[&["all"], &["any"], &["of", "n"]],
};

static RULE: PolicyTable = PolicyTable {
    name: "rule",
    doc: "A rule: its effect on the requests that it matches. Deny beats hold, hold beats allow.",
    fields: &[
        ID,
        DESCRIPTION,
        required("effect", EFFECT, EFFECT_REMEDY, "The effect on a request that it matches."),
        required(
            "when",
            Table(&WHEN),
            "write for example `when = { op = [\"createSwap\"] }`",
            "The conditions on a request; all of them must hold.",
        ),
        optional("approval", Text, "The name of the `[approval.NAME]` that releases a held call; only with `hold`."),
        optional("expires", Pattern(last_day_pattern), "The last day on which it matches: `2026-12-31 Europe/Berlin`."),
        MODE,
    ],
    base: None,
    one_of: &[],
};

static LIMIT: PolicyTable = PolicyTable {
    name: "limit",
    doc: "A limit on how much may be paid, or how often, in a time.",
    fields: &[
        ID,
        DESCRIPTION,
        required(
            "ops",
            OneOrMore(&Operations),
            "write `ops = [\"@money\"]`, or operations by their ids",
            "The operations that count.",
        ),
        optional("when", Table(&CONDITIONS), "The conditions on a request; all of them must hold."),
        required(
            "window",
            Pattern(limit::window_pattern),
            "write for example `window = \"rolling 24h\"`",
            "The time: `rolling 24h`, with `m` for minutes, `h` for hours or `d` for days, at most `366d`; or `calendar day \
             Europe/Berlin`, `calendar week ZONE` (from Monday) or `calendar month ZONE`.",
        ),
        optional(
            "per",
            Words(|| limit_key::KEYS.map(|(name, _)| name).into()),
            "The properties whose values have a sum each. Without it, all calls of an environment count together. A `payment` is \
             one operation with its amounts, source, destination and fees: outer zeros, fees of zero and the user of a named \
             account or wallet make no other one; whatever else a call states or leaves out does.",
        ),
        required(
            "max",
            Pattern(|| format!("^({NUMBER} (USD|[a-z0-9]+)|[0-9]+ calls?)$")),
            "write for example `max = \"250000 USD\"` or `\"10 calls\"`",
            "The most that may be paid, `250000 USD`, or `5000 usdc` at its value; or the most calls, `10 calls`.",
        ),
        required(
            "over",
            Word(|| limit::OVERS.map(|(name, _)| name).into()),
            "write `over = \"deny\"`, or `over = \"hold\"` and `approval`",
            "The effect on a request that would exceed it.",
        ),
        optional("approval", Text, "The `[approval.NAME]` that may exceed it; only with `over = \"hold\"`."),
        optional(
            "without_amount",
            Word(|| limit::WITHOUT.map(|(name, _)| name).into()),
            "The effect on operations whose bodies state no amount.",
        ),
        optional("alert", List(&Text), "Webhooks that hear of payments it counts that fail or come back."),
        MODE,
    ],
    base: None,
    one_of: &[],
};

static INVARIANT: PolicyTable = PolicyTable {
    name: "invariant",
    doc: "A claim about every request, whatever the rules say. It is proved when the set is loaded.",
    fields: &[
        ID,
        optional("never", Table(&CLAIM), "No request that it matches has this effect."),
        optional("always", Table(&CLAIM), "Each request that it matches has this effect."),
    ],
    base: None,
    one_of: &[],
};

static CLAIM: PolicyTable = PolicyTable {
    name: "claim",
    doc: "An effect, and the conditions on a request.",
    fields: &[required("effect", EFFECT, EFFECT_REMEDY, "The effect that is claimed."), OP],
    base: Some(&CONDITIONS),
    one_of: &[],
};

static WHEN: PolicyTable = PolicyTable {
    name: "when",
    doc: "The operations and the conditions of a rule.",
    fields: &[OP],
    base: Some(&CONDITIONS),
    one_of: &[],
};

static CONDITIONS: PolicyTable = PolicyTable {
    name: "conditions",
    doc: "Conditions on a request; all of them must hold.",
    fields: &[
        condition("environment", Sort::Environment, Field::Environment, "The environment of the call."),
        condition("issuer", Sort::Issuer, Field::Issuer, "The caller's issuer."),
        condition("caller", Sort::Caller, Field::Caller, "The caller."),
        condition("role", Sort::Text, Field::Role, "A role of the caller."),
        condition("requester", Sort::Text, Field::Requester, "The person behind a service."),
        condition("user", Sort::User, Field::User, "Every user: of the source, the destination and the path."),
        condition("chain", Sort::Chain, Field::Chain, "The chains of both sides."),
        condition("currency", Sort::Currency, Field::Currency, "The assets of both sides."),
        condition("wallet", Sort::Wallet, Field::Wallet, "The wallets of both sides, and those that take fees."),
        condition("account", Sort::Account, Field::Account, "The accounts of both sides."),
        condition("fee_wallet", Sort::Wallet, Field::FeeWallet, "Every wallet that takes fees."),
        optional("source", Table(&SOURCE), "Where the money comes from."),
        optional("destination", Table(&DESTINATION), "Where the money goes."),
        optional(
            "amount",
            Pattern(|| interval_pattern(" USD")),
            "The value of the payment: `(0, 5000] USD` is more than 0, up to 5000.",
        ),
        optional(
            "without_amount",
            Word(|| when::WITHOUT.map(|(name, _)| name).into()),
            "Whether operations whose bodies state no amount match.",
        ),
        optional("price", Pattern(|| interval_pattern("")), "The limit price: `[0.99, inf)`."),
        optional("body", BodyConditions(&BODY_CONDITION), "Fields of the body: `\"/developerFee\" = \"absent\"`."),
        optional("weekday", OneOrMore(&WEEKDAY), "The weekday in `zone`; after midnight, it is the next one."),
        optional(
            "hour",
            Pattern(|| interval_pattern("")),
            "The hour in `zone`: `[9, 17)` is 9:00 to 16:59; `[22, 6)` goes over midnight. With `weekday` or `date`, both ends are of that day.",
        ),
        optional("date", Names(Sort::Date, None), "The date in `zone`: `2026-12-24`, `[2026-12-24, 2027-01-02)`."),
        optional("zone", Text, "The time zone of `weekday`, `hour` and `date`: `Europe/Berlin`, `UTC`."),
    ],
    base: None,
    one_of: &[],
};

static SOURCE: PolicyTable = PolicyTable {
    name: "source",
    doc: "Conditions on the source of the money.",
    fields: &[
        condition("user", Sort::User, Field::SourceUser, "The user."),
        condition("chain", Sort::Chain, Field::SourceChain, "The chain."),
        condition("currency", Sort::Currency, Field::SourceCurrency, "The asset."),
        condition("wallet", Sort::Wallet, Field::SourceWallet, "The wallet."),
        condition("account", Sort::Account, Field::SourceAccount, "The account."),
    ],
    base: None,
    one_of: &[],
};

static DESTINATION: PolicyTable = PolicyTable {
    name: "destination",
    doc: "Conditions on the destination of the money.",
    fields: &[
        condition("chain", Sort::Chain, Field::DestinationChain, "The chain."),
        condition("currency", Sort::Currency, Field::DestinationCurrency, "The asset."),
        condition("account", Sort::Account, Field::DestinationAccount, "The account."),
        optional("user", Names(Sort::User, None), "The user."),
        optional("wallet", Names(Sort::Wallet, None), "The wallet."),
        optional("external_wallet", Names(Sort::ExternalWallet, None), "The external wallet."),
        optional(
            "new",
            Truth,
            "Whether no call to it was executed before; of a wallet, on its chain. A fee of zero pays nobody.",
        ),
        optional(
            "cooldown",
            SPAN,
            "With `new`: how long it stays new after its first payment, `24h`, unless people approve the destination.",
        ),
    ],
    base: None,
    one_of: &[],
};

static BODY_CONDITION: PolicyTable = PolicyTable {
    name: "body condition",
    doc: "A condition on a field of the body, besides the words `present` and `absent`.",
    fields: &[
        optional("equals", FieldValue::Literal, "The value."),
        optional("in", FieldValue::Literals, "The values, and lists as `@NAME`."),
        optional("not_in", FieldValue::Literals, "Any values but these: the opposite of `in`."),
    ],
    base: None,
    one_of: &[],
};

static TEST: PolicyTable = PolicyTable {
    name: "test",
    doc: "A request, and the expected decision.",
    fields: &[
        required(
            "given",
            Table(&GIVEN),
            "write for example `given = { op = \"createSwap\", amount = \"5 usdc\" }`",
            "The request.",
        ),
        required("expect", EFFECT, "write `expect = \"allow\"`, `\"hold\"` or `\"deny\"`", "The expected effect."),
        optional("by", OneOrMore(&Text), "The rules and limits that must have caused it."),
        optional("people", Number { least: 1, most: 1_000 }, "The least number of people who must approve it."),
    ],
    base: None,
    one_of: &[],
};

static GIVEN: PolicyTable = PolicyTable {
    name: "given",
    doc: "A request in a few words.",
    fields: &[
        required("op", Operation, "write the id of an operation", "The operation."),
        optional("environment", Name(Sort::Environment), "The environment. Default: `production`."),
        optional("caller", Name(Sort::Caller), "The caller."),
        optional("requester", Text, "The person behind the service."),
        optional("role", OneOrMore(&Text), "The caller's roles."),
        optional("time", Text, "The time: `2026-11-20T09:00:00Z`. Default: a Wednesday, noon in UTC."),
        optional("paid_before", Truth, "Whether the destination was paid before. Default: `true`."),
        optional(
            "first_paid",
            Pattern(|| "^(0|[1-9][0-9]*)[mhd]$".to_owned()),
            "How long ago the destination was first paid, and not approved: `23h`. Default: longer than any cool-down.",
        ),
        optional("full", OneOrMore(&Text), "The limits that are used up when the call would be sent."),
        optional("path", Texts, "The parameters of the path."),
        optional("amount", Text, "The amount that leaves: `5000.000001 usdc`."),
        optional("source", Table(&SIDE), "Where the money comes from."),
        optional("destination", Table(&SIDE), "Where the money goes."),
        optional("price", Text, "The limit price."),
        optional("body", BodyValues, "Further fields of the body."),
    ],
    base: None,
    one_of: &[],
};

static SIDE: PolicyTable = PolicyTable {
    name: "side",
    doc: "The source or the destination of a test's payment.",
    fields: &[
        optional("amount", Text, "The amount: `5 usdc`."),
        optional("user", Text, "The user."),
        optional("chain", Text, "The chain."),
        optional("currency", Text, "The asset."),
        optional("wallet", Text, "The wallet."),
        optional("external_wallet", Text, "The external wallet."),
        optional("account", Text, "The account."),
    ],
    base: None,
    one_of: &[],
};

const fn condition(name: &'static str, sort: Sort, field: Field, doc: &'static str) -> PolicyField {
    optional(name, Names(sort, Some(field)), doc)
}

fn interval_pattern(unit: &str) -> String {
    format!("^[(\\[] *{NUMBER} *, *({NUMBER}|inf) *[)\\]]{unit}$")
}
