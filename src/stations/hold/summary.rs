//! A call in words for its approvers: the money, from where, to where. Everything comes from its bytes.

use crate::base::normal::shown_wallet;
use crate::catalog::{Charge, ChargeForm, Party};
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
    lines.extend(movement.charges.iter().map(|one| ("fee", charge(one))));
    let is_told = |wallet: &&String| movement.charges.iter().any(|one| one.wallet.as_ref() == Some(*wallet));
    let others = movement.fee_wallets.iter().filter(|wallet| !is_told(wallet));
    lines.extend(others.map(|wallet| ("fee to", shown_wallet(wallet))));
    lines
}

fn charge(charge: &Charge) -> String {
    let value = charge.value.as_deref().unwrap_or("unknown");
    let amount = match charge.form {
        Some(ChargeForm::Flat) => value.to_owned(),
        Some(ChargeForm::Percentage) => format!("{value} of the amount"),
        None => format!("{value}, in an unknown form"),
    };
    match &charge.wallet {
        Some(wallet) => format!("{amount}, to wallet {}", shown_wallet(wallet)),
        None => amount,
    }
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
        parts.extend(named.as_ref().map(|name| format!("{what} {}", shown_wallet(name))));
    }
    parts.retain(|part| !part.is_empty());
    (!parts.is_empty()).then(|| parts.join(", "))
}
