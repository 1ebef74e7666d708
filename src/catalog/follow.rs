//! How a payment is followed after its send: the list that upstream keeps of all of them, and what its states mean.

use super::read::ContractNode;
use crate::base::ids::OperationId;
use crate::base::pointer::Pointer;
use crate::base::word_enum::word_enum;

/// The longest name of a state.
const MAX_STATE: usize = 64;

/// The list in which upstream shows the payments of an operation, the latest first, and the fields of its records. The
/// money of a record stands beside its requestId, under the names that the operation's body has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    pub operation: OperationId,
    pub records: Pointer,
    /// Upstream's own name of the payment.
    pub id: Pointer,
    pub request_id: Pointer,
    pub status: Pointer,
    /// The time that pages are ordered by.
    pub created_at: Pointer,
    pub updated_at: Option<Pointer>,
    /// A field that is set where upstream made the payment by itself.
    pub made_by_upstream: Option<Pointer>,
    /// Every state, in the order of rank: a payment moves only forward in this list.
    pub states: Vec<FollowedState>,
}

/// A state of a followed payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedState {
    pub name: String,
    pub meaning: StateMeaning,
    /// Whether it is certain that no money left, or that all of it came back.
    pub is_nothing_left: bool,
}

word_enum! {
    /// The meaning of a state for the people who pay.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum StateMeaning {
        /// The payment is under way.
        Open = "open",
        /// The money arrived.
        Settled = "settled",
        /// The money did not arrive.
        Failed = "failed",
        /// The money came back after it had left.
        Returned = "returned",
    }
}

impl Follow {
    /// Returns the rank of a state; `None` where the contract does not list it.
    pub fn rank(&self, state: &str) -> Option<usize> {
        self.states.iter().position(|known| known.name == state)
    }

    pub fn state(&self, name: &str) -> Option<&FollowedState> {
        self.states.iter().find(|known| known.name == name)
    }
}

/// Reads `{"operation": "listOfframps", "records": "/records", "states": ["CREATED", "COMPLETED"], "settled":
/// ["COMPLETED"], …}`.
pub(super) fn follow(node: &ContractNode<'_>) -> Option<Follow> {
    node.only(&[
        "operation",
        "records",
        "id",
        "requestId",
        "status",
        "createdAt",
        "updatedAt",
        "madeByUpstream",
        "states",
        "settled",
        "failed",
        "returned",
        "nothingLeft",
    ]);
    let pointer = |name: &str| node.required(name).and_then(|n| n.pointer());
    let optional = |name: &str| node.optional(name).and_then(|n| n.pointer());
    Some(Follow {
        operation: OperationId::new(node.required("operation")?.text()?),
        records: pointer("records")?,
        id: pointer("id")?,
        request_id: pointer("requestId")?,
        status: pointer("status")?,
        created_at: pointer("createdAt")?,
        updated_at: optional("updatedAt"),
        made_by_upstream: optional("madeByUpstream"),
        states: states(node)?,
    })
}

fn states(node: &ContractNode<'_>) -> Option<Vec<FollowedState>> {
    let ordered = node.required("states")?;
    let mut states: Vec<FollowedState> = Vec::new();
    for item in ordered.items() {
        let Some(name) = item.text() else { continue };
        let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
        if name.is_empty() || name.len() > MAX_STATE || !is_plain {
            item.note("a state is 1 to 64 letters, digits, `_`, `-` and `.`");
        } else if states.iter().any(|known| known.name == name) {
            item.note(format!("the state `{name}` stands here twice"));
        } else {
            let (name, meaning) = (name.to_owned(), StateMeaning::Open);
            states.push(FollowedState { name, meaning, is_nothing_left: false });
        }
    }
    for meaning in [StateMeaning::Settled, StateMeaning::Failed, StateMeaning::Returned] {
        each(node, meaning.as_str(), &mut states, &|state| {
            let is_first = state.meaning == StateMeaning::Open;
            state.meaning = meaning;
            is_first
        });
    }
    // Money that arrived is gone.
    each(node, "nothingLeft", &mut states, &|state| {
        let is_possible = state.meaning != StateMeaning::Settled;
        state.is_nothing_left = true;
        is_possible
    });
    Some(states)
}

/// Marks each state of one list. `mark` returns whether the state may be in it.
fn each(node: &ContractNode<'_>, list: &str, states: &mut [FollowedState], mark: &dyn Fn(&mut FollowedState) -> bool) {
    for item in node.optional(list).map(|n| n.items()).unwrap_or_default() {
        let Some(name) = item.text() else { continue };
        match states.iter_mut().find(|state| state.name == name).map(mark) {
            None => item.note(format!("`{name}` is none of `states`")),
            Some(true) => {}
            Some(false) => item.note(format!("the state `{name}` is in two lists that exclude each other")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalog::{Catalog, SchemaFiles};

    fn shipped() -> Follow {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        catalog.operation(&OperationId::new("createOfframp")).unwrap().follow.clone().unwrap()
    }

    /// The shipped contract with one text of `openapi.json` replaced by another.
    fn faults(from: &str, to: &str) -> String {
        let mut files = SchemaFiles::built_in();
        let text = String::from_utf8(files.read("openapi.json").unwrap().to_vec()).unwrap();
        assert!(text.contains(from), "`{from}`");
        files.insert("openapi.json", text.replacen(from, to, 1).into_bytes());
        format!("{:?}", Catalog::build(&files, &[]).unwrap_err())
    }

    #[test]
    fn every_documented_state_has_a_rank_and_only_three_give_limits_back() {
        let schema: serde_json::Value =
            serde_json::from_slice(SchemaFiles::built_in().read("offramp.json").unwrap()).unwrap();
        let documented = schema["$defs"]["status"]["enum"].as_array().unwrap();
        let documented: BTreeSet<&str> = documented.iter().filter_map(|state| state.as_str()).collect();
        let follow = shipped();
        assert_eq!(follow.states.iter().map(|state| state.name.as_str()).collect::<BTreeSet<_>>(), documented);
        let certain = follow.states.iter().filter(|state| state.is_nothing_left).map(|state| state.name.as_str());
        assert_eq!(certain.collect::<BTreeSet<_>>(), BTreeSet::from(["QUOTE_FAILED", "CANCELLED", "CRYPTO_RETURNED"]));
    }

    #[test]
    fn money_that_comes_back_outranks_money_that_arrived_and_that_outranks_what_never_left() {
        let follow = shipped();
        let ranks = ["CREATED", "FIAT_PENDING", "CANCELLED", "FIAT_FAILED", "COMPLETED", "FIAT_RETURNED"];
        let ranks: Vec<usize> = ranks.iter().map(|state| follow.rank(state).unwrap()).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert_eq!(follow.rank("CRYPTO_RETURNED"), Some(follow.states.len() - 1));
        assert_eq!(follow.rank("PAID"), None);
    }

    #[test]
    fn a_list_of_states_that_contradicts_itself_is_refused() {
        assert!(faults("\"settled\": [", "\"settled\": [\"PAID\", ").contains("none of `states`"));
        assert!(faults("\"nothingLeft\": [", "\"nothingLeft\": [\"COMPLETED\", ").contains("exclude each other"));
        assert!(faults("\"failed\": [", "\"failed\": [\"COMPLETED\", ").contains("exclude each other"));
        assert!(faults("\"NOT_INITIATED\",", "\"NOT_INITIATED\", \"CREATED\",").contains("twice"));
        let (from, to) =
            ("\"follow\": {\n            \"operation\": \"list", "\"follow\": {\n            \"operation\": \"liste");
        assert!(faults(from, to).contains("did you mean"));
    }
}
