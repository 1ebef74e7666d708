//! Quotes: the amount sent, the amount received, and the rate.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decimal::SimulatorDecimal;

/// How long a quote is valid.
const HOLDS: SignedDuration = SignedDuration::from_secs(300);

#[derive(Clone, Debug)]
pub(super) struct Quote {
    pub(super) send_gross: SimulatorDecimal,
    pub(super) send_net: SimulatorDecimal,
    pub(super) receive_gross: SimulatorDecimal,
    pub(super) receive_net: SimulatorDecimal,
    sold: String,
    bought: String,
    rate: SimulatorDecimal,
    expires_at: Timestamp,
}

impl Quote {
    /// Returns the quote for an amount to send; `None` if it is too large.
    pub(super) fn of_sent(
        sent: SimulatorDecimal,
        sold: &str,
        bought: &str,
        rate: SimulatorDecimal,
        now: Timestamp,
    ) -> Option<Quote> {
        Quote::with_fee(sent, SimulatorDecimal::ZERO, sold, bought, rate, now)
    }

    /// Returns the quote for an amount to receive.
    pub(super) fn of_received(
        received: SimulatorDecimal,
        sold: &str,
        bought: &str,
        rate: SimulatorDecimal,
        now: Timestamp,
    ) -> Option<Quote> {
        let exact = received.divided_by(rate)?;
        let short = exact.times(rate)? < received;
        let sent = if short { exact.plus(SimulatorDecimal::from_millionths(1)) } else { exact };
        Some(Quote { receive_gross: received, receive_net: received, ..Quote::of_sent(sent, sold, bought, rate, now)? })
    }

    /// Deducts a fee in the sold currency before the exchange.
    pub(super) fn with_fee(
        sent: SimulatorDecimal,
        fee: SimulatorDecimal,
        sold: &str,
        bought: &str,
        rate: SimulatorDecimal,
        now: Timestamp,
    ) -> Option<Quote> {
        let send_net = sent.minus(fee);
        let received = send_net.times(rate)?;
        Some(Quote {
            send_gross: sent,
            send_net,
            receive_gross: received,
            receive_net: received,
            sold: sold.to_owned(),
            bought: bought.to_owned(),
            rate,
            expires_at: now.checked_add(HOLDS).unwrap_or(Timestamp::MAX),
        })
    }

    pub(super) fn to_json(&self) -> Value {
        let money =
            |amount: SimulatorDecimal, currency: &str| json!({"amount": amount.to_string(), "currency": currency});
        json!({
            "sendGross": money(self.send_gross, &self.sold),
            "sendNet": money(self.send_net, &self.sold),
            "receiveGross": money(self.receive_gross, &self.bought),
            "receiveNet": money(self.receive_net, &self.bought),
            "rate": self.rate.to_string(),
            "expiresAt": self.expires_at.to_string(),
        })
    }
}

/// Returns the value of one unit of the first currency in the second.
pub(super) fn market_rate(sold: &str, bought: &str) -> SimulatorDecimal {
    match (sold, bought) {
        ("usdt", "usdc") => SimulatorDecimal::from_millionths(999_800),
        ("usdc", "usdt") => SimulatorDecimal::from_millionths(1_000_100),
        (_, "eur") => SimulatorDecimal::from_millionths(921_500),
        _ => SimulatorDecimal::from_millionths(1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_for_what_arrives_sends_enough() {
        let received = SimulatorDecimal::parse("250").unwrap();
        let quote =
            Quote::of_received(received, "usdt", "usdc", market_rate("usdt", "usdc"), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(quote.send_gross.to_string(), "250.050011");
        assert!(quote.send_gross.times(quote.rate).unwrap() >= received);
    }
}
