//! Prints an example as a request of a `[[test]]`.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::payment::Payment;
use super::written::toml;
use crate::base::ids::Environment;
use crate::ledger::StoreTime;
use crate::policy::policy_test::USUAL_TIME;

/// Writes a duration as tests do.
fn ago(length: Duration) -> String {
    let secs = length.as_secs();
    for (each, unit) in [(86_400, 'd'), (3_600, 'h')] {
        if secs >= each && secs.is_multiple_of(each) {
            return format!("{}{unit}", secs / each);
        }
    }
    format!("{}m", secs / 60)
}

/// Prints the request as the `given` of a `[[test]]`.
impl fmt::Display for Payment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| Value::from(text).to_string();
        let list = |items: &mut dyn Iterator<Item = &str>| items.map(quoted).collect::<Vec<_>>().join(", ");
        write!(f, "op = {}", quoted(self.operation.as_str()))?;
        if self.environment != Environment::Production {
            write!(f, ", environment = {}", quoted(self.environment.as_str()))?;
        }
        write!(f, ", caller = {}", quoted(&format!("{}:{}", self.issuer, self.subject)))?;
        if let Some(requester) = &self.requester {
            write!(f, ", requester = {}", quoted(requester))?;
        }
        if !self.roles.is_empty() {
            write!(f, ", role = [{}]", list(&mut self.roles.iter().map(String::as_str)))?;
        }
        let path: Vec<_> = self.path_parameters.iter().filter(|(_, value)| value != "x").collect();
        if !path.is_empty() {
            let path: Vec<String> = path.iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
            write!(f, ", path = {{ {} }}", path.join(", "))?;
        }
        if self.now != StoreTime::of_micros(USUAL_TIME) {
            let time = Timestamp::from_microsecond(self.now.as_micros()).map_err(|_| fmt::Error)?;
            write!(f, ", time = {}", quoted(&time.to_string()))?;
        }
        for (side, name) in self.sides.iter().zip(["source", "destination"]) {
            if !side.is_empty() {
                let fields: Vec<String> =
                    side.iter().map(|(word, text)| format!("{word} = {}", quoted(text))).collect();
                write!(f, ", {name} = {{ {} }}", fields.join(", "))?;
            }
        }
        if let Some(price) = &self.price {
            write!(f, ", price = {}", quoted(price))?;
        }
        match self.paid.values().min() {
            Some(None) => write!(f, ", paid_before = false")?,
            Some(Some(known)) if *known < Duration::MAX => write!(f, ", first_paid = {}", quoted(&ago(*known)))?,
            Some(Some(_)) | None => {}
        }
        if !self.full.is_empty() {
            write!(f, ", full = [{}]", list(&mut self.full.iter().map(String::as_str)))?;
        }
        if !self.places.is_empty() {
            let places: Vec<String> =
                self.places.iter().map(|(place, value)| format!("{} = {}", quoted(place), toml(value))).collect();
            write!(f, ", body = {{ {} }}", places.join(", "))?;
        }
        Ok(())
    }
}
