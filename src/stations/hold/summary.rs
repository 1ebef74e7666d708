//! A call in words for its approvers: the money, from where, to where. Everything comes from its bytes.

use crate::catalog::Party;
use crate::stations::check::Intent;

/// Returns names and values, in reading order.
pub fn in_words(intent: &Intent) -> Vec<(&'static str, String)> {
    let operation = intent.operation();
    let mut lines = vec![("does", format!("{} ({})", operation.summary, operation.id))];
    lines.extend(intent.path_parameters().iter().map(|(name, value)| ("at", format!("{name} {value}"))));
    let Some(movement) = intent.movement() else { return lines };
    lines.extend(party(&movement.source).map(|text| ("from", text)));
    lines.extend(party(&movement.destination).map(|text| ("to", text)));
    lines.extend(movement.price.iter().map(|price| ("price", format!("at least {price}"))));
    lines.extend(movement.fee_wallets.iter().map(|wallet| ("fee to", wallet.clone())));
    lines
}

/// One end of a payment; `None` if the call does not state it.
fn party(party: &Party) -> Option<String> {
    let Party { amount, currency, chain, user, wallet, external_wallet, account } = party;
    let money = [amount, currency].into_iter().flatten().cloned().collect::<Vec<_>>().join(" ");
    let mut parts = vec![money];
    parts.extend(chain.as_ref().map(|chain| format!("on {chain}")));
    for (what, named) in
        [("user", user), ("wallet", wallet), ("external wallet", external_wallet), ("account", account)]
    {
        parts.extend(named.as_ref().map(|name| format!("{what} {name}")));
    }
    parts.retain(|part| !part.is_empty());
    (!parts.is_empty()).then(|| parts.join(", "))
}
