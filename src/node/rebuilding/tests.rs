//! The journals that a rebuild lacks.

use super::*;
use crate::base::json;
use crate::ledger::JournalId;
use crate::node::node_facts::FACTS_FORMAT;

fn member(name: &str, begins: u64, own: u64) -> Member {
    let facts = NodeFacts {
        software: String::new(),
        policies: String::new(),
        contract: String::new(),
        clock_micros: 0,
        journal: JournalId::parse(&"a1".repeat(16)).unwrap(),
        at: StoreTime::default(),
        open_from: None,
        journal_begins: Number::new(begins),
        knows_up_to: Number::new(own),
        is_journal_new: false,
        is_copy: false,
        well_at: None,
        closed_by: None,
        leaves: false,
        unlisted: Vec::new(),
        clock_leap_micros: None,
    };
    Member {
        node: NodeId::parse(name).unwrap(),
        instance: name.to_owned(),
        beat: StoreTime::default(),
        highest: Number::new(own),
        kept: Number::new(own),
        own: Number::new(own),
        run: String::new(),
        acknowledges: None,
        is_retired: false,
        told: json::to_record(&facts, FACTS_FORMAT),
    }
}

/// It takes the snapshot of the rebuild, and then nothing shows that it has more.
#[test]
fn a_journal_that_begins_later_and_has_commits_that_others_lack_leaves_money_to_people() {
    let (leads, earlier, later) = (member("leads", 2, 9), member("earlier", 0, 12), member("later", 4, 12));
    let committed: BTreeMap<NodeId, Number> = [("leads", 9), ("earlier", 5), ("later", 5)]
        .map(|(name, number)| (NodeId::parse(name).unwrap(), Number::new(number)))
        .into();
    let missing = |came: &[&Member]| {
        let gathered = NodesAtLoss { lost: StoreTime::default(), came: came.to_vec(), missing: Vec::new() };
        let (mut orphans, mut reasons) = (Forgotten::default(), Reasons::new());
        gathered.add_lacking(&committed, Number::new(2), (&mut orphans, &mut reasons));
        (orphans, reasons)
    };
    assert_eq!(missing(&[&leads]), (Forgotten::default(), Reasons::new()));
    let (orphans, reasons) = missing(&[&leads, &earlier]);
    assert!(!orphans.by_person && reasons.len() == 1, "the store is built again from it");
    assert_eq!(orphans.nodes, [(earlier.node.clone(), 5)].into());
    let (orphans, reasons) = missing(&[&leads, &later]);
    assert!(orphans.by_person && orphans.reasons == reasons, "{reasons:?}");
    assert_eq!(orphans.nodes, [(later.node.clone(), 5)].into());
    // A commit that is on no disk was never sent.
    let unsaid = Member { kept: Number::new(11), ..later };
    assert_eq!(missing(&[&leads, &unsaid]), (Forgotten::default(), Reasons::new()));
}
