//! The acts by which a person signs a vote: the challenge for the passkey, and the passkeys that the person has.

use serde_json::{Value, json};

use super::holds::{find_hold, unknown, vote_refused};
use super::request::{ActRequest, store_failed};
use super::state::ConsoleState;
use crate::base::digest::{Fingerprint, plain_sha256};
use crate::base::json::written_as::base64url;
use crate::node::approve;
use crate::node::approve::{AskedSignature, VoteError};
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
        Ok(AskedSignature { nonce, statement, rp_id, credentials }) => {
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
        Err(VoteError::Store(fault)) => store_failed(inside, &fault),
        Err(VoteError::NoSuchHold) => unknown(),
        Err(VoteError::Refused(why)) => vote_refused(&why),
    }
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
            "passkeys": own.collect::<Vec<_>>(),
        })
    });
    ok_json(200, &json!({ "person": person, "signing": signing }))
}
