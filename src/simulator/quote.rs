//! Quotes: what is sent, what arrives, and at which rate.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decimal::Decimal;

/// How long a quote holds.
const HOLDS: SignedDuration = SignedDuration::from_secs(300);

#[derive(Clone, Debug)]
pub(super) struct Quote {
    pub(super) send_gross: Decimal,
    pub(super) send_net: Decimal,
    pub(super) receive_gross: Decimal,
    pub(super) receive_net: Decimal,
    sold: String,
    bought: String,
    rate: Decimal,
    expires_at: Timestamp,
}

impl Quote {
    /// For a given amount to send; `None` if it is too large to reckon with.
    pub(super) fn of_sent(sent: Decimal, sold: &str, bought: &str, rate: Decimal, now: Timestamp) -> Option<Quote> {
        Quote::with_fee(sent, Decimal::ZERO, sold, bought, rate, now)
    }

    /// For a given amount to arrive.
    pub(super) fn of_received(
        received: Decimal,
        sold: &str,
        bought: &str,
        rate: Decimal,
        now: Timestamp,
    ) -> Option<Quote> {
        let exact = received.divided_by(rate)?;
        let short = exact.times(rate)? < received;
        let sent = if short { exact.plus(Decimal::from_millionths(1)) } else { exact };
        Some(Quote { receive_gross: received, receive_net: received, ..Quote::of_sent(sent, sold, bought, rate, now)? })
    }

    /// A fee in the sold currency is taken before the exchange.
    pub(super) fn with_fee(
        sent: Decimal,
        fee: Decimal,
        sold: &str,
        bought: &str,
        rate: Decimal,
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
        let money = |amount: Decimal, currency: &str| json!({"amount": amount.to_string(), "currency": currency});
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

/// What one unit of the first currency is worth in the second.
pub(super) fn market_rate(sold: &str, bought: &str) -> Decimal {
    match (sold, bought) {
        ("usdt", "usdc") => Decimal::from_millionths(999_800),
        ("usdc", "usdt") => Decimal::from_millionths(1_000_100),
        (_, "eur") => Decimal::from_millionths(921_500),
        _ => Decimal::from_millionths(1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_for_what_arrives_sends_enough() {
        let received = Decimal::parse("250").unwrap();
        let quote =
            Quote::of_received(received, "usdt", "usdc", market_rate("usdt", "usdc"), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(quote.send_gross.to_string(), "250.050011");
        assert!(quote.send_gross.times(quote.rate).unwrap() >= received);
    }
}
