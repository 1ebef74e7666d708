//! The lists of what upstream's refusals prove: by status and code, for each operation and for all of them.

use super::read::ContractNode;

/// The lists of one operation, then those of all operations. The first entry that fits counts; entries with a code come
/// before those for every code of a status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusalLists {
    entries: Vec<RefusalEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RefusalEntry {
    status: u16,
    /// `None`: every code of the status.
    code: Option<String>,
    proves: bool,
}

/// The place of a refusal in the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The contract names the status and the code: nothing was executed under this requestId.
    ProvesByCode,
    /// The contract names the status alone.
    ProvesByStatus,
    DoesNotProve,
    Unlisted,
}

impl RefusalLists {
    /// Looks a refusal up; `code` is `None` where its form has no code.
    pub fn listing(&self, status: u16, code: Option<&str>) -> Listing {
        let fits = |entry: &&RefusalEntry| {
            entry.status == status && entry.code.as_deref().is_none_or(|listed| Some(listed) == code)
        };
        match self.entries.iter().find(fits) {
            Some(RefusalEntry { proves: true, code: Some(_), .. }) => Listing::ProvesByCode,
            Some(RefusalEntry { proves: true, code: None, .. }) => Listing::ProvesByStatus,
            Some(RefusalEntry { proves: false, .. }) => Listing::DoesNotProve,
            None => Listing::Unlisted,
        }
    }

    /// Adds lists that count where these say nothing.
    pub(super) fn before(mut self, shared: &RefusalLists) -> RefusalLists {
        self.entries.extend(shared.entries.iter().cloned());
        self
    }

    /// Reads `notExecuted`: the lists `proves` and `doesNotProve`.
    pub(super) fn read(node: &ContractNode<'_>) -> RefusalLists {
        node.only(&["proves", "doesNotProve"]);
        let mut entries: Vec<RefusalEntry> = Vec::new();
        for (list, proves) in [("proves", true), ("doesNotProve", false)] {
            for item in node.optional(list).map(|n| n.items()).unwrap_or_default() {
                for (status, code) in patterns(&item) {
                    if entries.iter().any(|known| known.status == status && known.code == code) {
                        item.note("the same status and code appear twice: keep the entry in one list");
                    }
                    entries.push(RefusalEntry { status, code, proves });
                }
            }
        }
        // The sort is stable: it only moves entries with a code to the front.
        entries.sort_by_key(|entry| entry.code.is_none());
        RefusalLists { entries }
    }
}

/// Reads one item: `{"status": 400}` or `{"status": 400, "codes": ["INVALID_REQUEST"]}`.
fn patterns(item: &ContractNode<'_>) -> Vec<(u16, Option<String>)> {
    item.only(&["status", "codes"]);
    let Some(status) = item.required("status").and_then(|n| status(&n)) else { return Vec::new() };
    let Some(codes) = item.optional("codes") else { return vec![(status, None)] };
    let named: Vec<_> = codes.items().iter().filter_map(|n| Some((status, Some(n.text()?.to_owned())))).collect();
    if named.is_empty() {
        codes.note("a list of codes names at least one; without `codes` the entry is for every code of the status");
    }
    named
}

fn status(node: &ContractNode<'_>) -> Option<u16> {
    let read = node.value.as_u64().and_then(|s| u16::try_from(s).ok()).filter(|s| (400..500).contains(s));
    if read.is_none() {
        node.note("a status from 400 to 499 is expected here: no other can prove that nothing was executed");
    }
    read
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::read::ContractFaults;
    use super::*;

    fn read(value: &Value) -> (RefusalLists, Vec<String>) {
        let faults = ContractFaults::new("openapi.json");
        let lists = RefusalLists::read(&ContractNode::root(value, &faults));
        (lists, faults.into_findings().iter().map(|finding| finding.text.clone()).collect())
    }

    #[test]
    fn a_code_counts_before_its_status_and_an_operation_before_all_of_them() {
        let (own, faults) = read(&json!({
            "proves": [{"status": 400, "codes": ["INVALID_REQUEST", "NO_FUNDS"]}, {"status": 404}],
            "doesNotProve": [{"status": 400}],
        }));
        assert_eq!(faults, [""; 0]);
        let (shared, _) = read(&json!({
            "proves": [{"status": 400, "codes": ["OTHER"]}, {"status": 422}],
            "doesNotProve": [{"status": 404, "codes": ["GONE"]}, {"status": 422, "codes": ["TWIN"]}],
        }));
        let lists = own.before(&shared);
        for (status, code, expected) in [
            (400, Some("INVALID_REQUEST"), Listing::ProvesByCode),
            (400, Some("invalid_request"), Listing::DoesNotProve),
            (400, None, Listing::DoesNotProve),
            (400, Some("OTHER"), Listing::DoesNotProve),
            (404, Some("GONE"), Listing::ProvesByStatus),
            (422, Some("TWIN"), Listing::DoesNotProve),
            (422, Some("X"), Listing::ProvesByStatus),
            (403, None, Listing::Unlisted),
            (403, Some("INVALID_REQUEST"), Listing::Unlisted),
        ] {
            assert_eq!(lists.listing(status, code), expected, "{status} {code:?}");
        }
    }

    #[test]
    fn lists_that_make_no_sense_are_errors() {
        for (value, fault) in [
            (json!({"proves": [{"status": 500}]}), "a status from 400 to 499"),
            (json!({"proves": [{"status": "400"}]}), "a status from 400 to 499"),
            (json!({"proves": [{"codes": ["A"]}]}), "`status` is missing"),
            (json!({"proves": [400]}), "`status` is missing"),
            (json!({"proves": [{"status": 400, "codes": []}]}), "at least one"),
            (json!({"proves": [{"status": 400, "codes": [1]}]}), "a string is expected"),
            (json!({"proves": {"status": 400}}), "a list is expected"),
            (json!({"prove": []}), "did you mean `proves`?"),
            (json!({"proves": [{"status": 400, "code": "A"}]}), "did you mean `codes`?"),
            (json!({"proves": [{"status": 400}], "doesNotProve": [{"status": 400}]}), "appear twice"),
            (json!({"proves": [{"status": 400, "codes": ["A", "A"]}]}), "appear twice"),
        ] {
            let (_, faults) = read(&value);
            assert!(faults.iter().any(|one| one.contains(fault)), "{value}: {faults:?}");
        }
    }
}
