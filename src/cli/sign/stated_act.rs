//! The statement of an act of two people, computed on the person's own machine from what the person wrote.

use serde_json::Value;

use super::stated::{AskedStatement, ComputedStatement, SigningGround, lie};
use crate::base::ids::Environment;
use crate::base::json::{self as strict, Limits};
use crate::people::signed_act::{ActChallenge, PersonAct};
use crate::policy::SignableAct;

/// An act that a person wants to sign.
pub(in crate::cli) struct WantedAct<'w> {
    pub kind: SignableAct,
    /// `None`: it is for all environments.
    pub environment: Option<Environment>,
    /// Whether an act is the one that the person wrote; the gate chooses the rest of it.
    pub is_it: &'w dyn Fn(&PersonAct) -> bool,
}

/// Computes what a person signs. Fails where the gate asks for something else.
pub(super) fn state_act(
    answer: &Value,
    wanted: &WantedAct<'_>,
    ground: &SigningGround,
) -> anyhow::Result<ComputedStatement> {
    let asked = AskedStatement::read(answer)?;
    let told = asked.told().get("act").map(ToString::to_string).unwrap_or_default();
    let act: PersonAct = strict::from_slice(told.as_bytes(), Limits::ANSWER).map_err(|_| lie("another form of act"))?;
    if act.kind() != wanted.kind || !(wanted.is_it)(&act) {
        return Err(lie("another act"));
    }
    let of_gate = Environment::parse(&asked.text_of("environment"));
    let environment = wanted.environment.or(of_gate).ok_or_else(|| lie("another environment"))?;
    let (nonce, policy) = (asked.nonce.to_owned(), asked.text_of("policy"));
    let challenge = ActChallenge { person: ground.person.clone(), act, nonce, policy };
    let statement = challenge.statement(environment, &ground.signing);
    let title = format!("Sign `{}` in {environment} of {}", wanted.kind, ground.signing.installation);
    let members = asked.told().get("act").and_then(Value::as_object).into_iter().flatten();
    let in_words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let facts = members.map(|(name, value)| (name.clone(), in_words(value))).collect();
    asked.stated(statement, ground, (title, facts))
}
