//! The facts that the processes of gates state of themselves, sealed: what is not of a gate with the key is no testimony.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;

use super::sealed::Seals;
use super::sealed_place::{SEALED, SealedPlace, parts};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, StoreFault};

/// The kind under which the facts of a gate are sealed; no record has it.
const FACTS: &str = "gate-facts";

impl Seals {
    /// Seals the facts that a process of a gate states of itself, as text, and binds them to it.
    pub(super) fn seal_facts(&self, of: (Environment, &NodeId, &str), facts: &str) -> Result<String, StoreFault> {
        if self.keys.is_empty() {
            return Ok(facts.to_owned());
        }
        let name = facts_name(of);
        let sealed = self.seal_at(&of_facts(of.0, &name), &Bytes::copy_from_slice(facts.as_bytes()))?;
        Ok(STANDARD_NO_PAD.encode(sealed))
    }

    /// Opens the facts that a process of a gate stated of itself; `None` where they are another's, or nobody with a key sealed
    /// them.
    pub(super) fn open_facts(&self, of: (Environment, &NodeId, &str), told: String) -> Option<String> {
        if self.keys.is_empty() {
            return Some(told);
        }
        let sealed = STANDARD_NO_PAD.decode(told).ok().filter(|sealed| sealed.starts_with(SEALED))?;
        let name = facts_name(of);
        let facts = self.open_at(&of_facts(of.0, &name), sealed.into()).ok()?;
        String::from_utf8(facts.to_vec()).ok()
    }

    /// Returns the id of the key with which facts are sealed, if it is that of a key here.
    pub(super) fn id_of_facts(&self, told: &str) -> Option<String> {
        let sealed = STANDARD_NO_PAD.decode(told).ok()?;
        let (id, _, _) = parts(sealed.strip_prefix(SEALED)?)?;
        self.keys.iter().find(|key| key.id == id).map(|key| key.id.clone())
    }
}

/// Neither part has a space in it.
fn facts_name((_, node, instance): (Environment, &NodeId, &str)) -> String {
    format!("{node} {instance}")
}

fn of_facts(environment: Environment, name: &str) -> SealedPlace<'_> {
    SealedPlace { environment, kind: FACTS, name }
}

#[cfg(test)]
mod tests {
    use super::super::sealing_key::SealingKey;
    use super::*;
    use crate::base::secret::Secret;

    #[test]
    fn the_facts_of_a_gate_are_opened_for_its_own_process_only() {
        let key = |id: &str, text: &str| SealingKey::new(id, &Secret::new(text.repeat(32))).unwrap();
        let seals = Seals::new(vec![key("one", "5e")]);
        let [left, right] = ["left", "right"].map(|name| NodeId::parse(name).unwrap());
        let (production, sandbox) = (Environment::Production, Environment::Sandbox);
        let sealed = seals.seal_facts((production, &left, "a1"), r#"{"format":8}"#).unwrap();
        let opened = |of, told: &str| seals.open_facts(of, told.to_owned());
        assert_eq!(opened((production, &left, "a1"), &sealed).as_deref(), Some(r#"{"format":8}"#));
        for of in [(production, &right, "a1"), (production, &left, "b2"), (sandbox, &left, "a1")] {
            assert_eq!(opened(of, &sealed), None, "{of:?}");
        }
        // Somebody without the key wrote them, or changed them.
        let forged = STANDARD_NO_PAD.encode(r#"{"format":8}"#);
        let cut = &sealed[..sealed.len() - 4];
        let foreign = Seals::new(vec![key("one", "6f")]).seal_facts((production, &left, "a1"), "{}").unwrap();
        for told in [r#"{"format":8}"#, "", "{}", &forged, cut, &foreign] {
            assert_eq!(opened((production, &left, "a1"), told), None, "{told}");
        }
        // Another secret under the same id is known by the id.
        assert_eq!(seals.id_of_facts(&foreign).as_deref(), Some("one"));
        assert_eq!(Seals::new(vec![key("two", "5e")]).id_of_facts(&foreign), None);
        assert_eq!((seals.id_of_facts(&forged), seals.id_of_facts("")), (None, None));
        // Every key opens.
        let renewed = Seals::new(vec![key("two", "6f"), key("one", "5e")]);
        assert!(renewed.open_facts((production, &left, "a1"), sealed.clone()).is_some());
        // Values in plain text may be taken from before the key, and facts are not.
        let accepting = Seals::new(vec![key("one", "5e")]).accepting_plain(true);
        assert_eq!(accepting.open_facts((production, &left, "a1"), "{}".to_owned()), None);
        assert_eq!(Seals::default().open_facts((production, &left, "a1"), "{}".to_owned()).as_deref(), Some("{}"));
    }
}
