//! The acts by which a person signs a vote or an act of two people: the challenge for the passkey, and the passkeys that the
//! person has.

use serde_json::{Value, json};

use super::holds::{find_hold, unknown, vote_refused};
use super::request::{ActRequest, store_failed, violated};
use super::signature::unsigned;
use super::state::ConsoleState;
use super::{freezes, requests, sets};
use crate::base::digest::{Fingerprint, plain_sha256};
use crate::base::ids::Environment;
use crate::base::json::written_as::base64url;
use crate::catalog::Violation;
use crate::node::approve::{AskedSignature, VoteError};
use crate::node::{approve, sign_act};
use crate::people::signed_act::PersonAct;
use crate::stations::hold::{CHALLENGE_TIME, SeenHold, member_of};
use crate::stations::reply::{Reply, ok_json};

/// Asks for what a signed approval must name. The passkey signs the SHA-256 of the statement.
pub(super) async fn ask(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let key = match find_hold(inside, asked).await {
        Ok(Some((key, ..))) => key,
        Ok(None) => return unknown(),
        Err(fault) => return store_failed(inside, &fault),
    };
    let digest = |name: &str| asked.body.get(name).and_then(Value::as_str).and_then(Fingerprint::of_hex);
    let seen = SeenHold { fingerprint: digest("fingerprint"), causes: digest("causes") };
    let (catalog, policies) = (inside.catalog(), inside.in_force.now().policies.clone());
    let of = (&asked.person.who, seen);
    match approve::ask_for_signature(&inside.node, &catalog, &policies, &key, of).await {
        Ok(challenge) => challenged(&challenge),
        Err(VoteError::Store(fault)) => store_failed(inside, &fault),
        Err(VoteError::NoSuchHold) => unknown(),
        Err(VoteError::Refused(why)) => vote_refused(&why),
    }
}

/// Asks for what a signed agreement to the set that waits must name.
pub(super) async fn ask_to_agree(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let version = asked.path.first().map(String::as_str).unwrap_or_default();
    match sets::agreeing(inside, version) {
        Ok(act) => ask_for_act(inside, asked, act).await,
        Err(violation) => violated(vec![violation]),
    }
}

/// Asks for what the signed lift of a freeze must name.
pub(super) async fn ask_to_lift(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    match freezes::lifting(inside, &asked.body).await {
        Ok(Ok(Some(act))) => ask_for_act(inside, asked, act).await,
        Ok(Ok(None)) => violated(vec![Violation::new("/scope", "const", "a freeze that stands")]),
        Ok(Err(fault)) => store_failed(inside, &fault),
        Err(violation) => violated(vec![violation]),
    }
}

/// Asks for what a signed word on an unknown outcome must name.
pub(super) async fn ask_to_resolve(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    match requests::resolving(inside, asked).await {
        Ok(act) => ask_for_act(inside, asked, act).await,
        Err(refused) => refused,
    }
}

async fn ask_for_act(inside: &ConsoleState, asked: &ActRequest, (environment, act): (Environment, PersonAct)) -> Reply {
    let policies = inside.in_force.now().policies.clone();
    match sign_act::ask(&inside.node, &policies, environment, act, &asked.person.who).await {
        Ok(challenge) => challenged(&challenge),
        Err(why) => unsigned(inside, &why),
    }
}

fn challenged(AskedSignature { nonce, statement, rp_id, credentials }: &AskedSignature) -> Reply {
    let challenge = base64url::encoded(&plain_sha256(statement.as_bytes()));
    let asked = json!({
        "nonce": nonce,
        "statement": statement,
        "challenge": challenge,
        "rpId": rp_id,
        "credentials": credentials,
        "lastsSecs": CHALLENGE_TIME.as_secs(),
    });
    ok_json(200, &asked)
}

/// Shows how votes are signed, and the person's own passkeys.
pub(super) async fn show(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let policies = &inside.in_force.now().policies;
    let person = member_of(&asked.person.who);
    let signing = policies.rules.signing.as_ref().map(|signing| {
        let own = signing.of(&person).map(|(id, passkey)| json!({ "credential": id, "name": passkey.name }));
        json!({
            "installation": signing.installation,
            "rpId": signing.rp_id,
            "origins": signing.origins,
            "synced": signing.synced.as_str(),
            "acts": signing.acts,
            "passkeys": own.collect::<Vec<_>>(),
        })
    });
    ok_json(200, &json!({ "person": person, "signing": signing }))
}
