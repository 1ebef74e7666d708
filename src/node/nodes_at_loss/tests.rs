//! The journals that a rebuild lacks.

use super::*;
use crate::adapters::store::redis::HeartbeatVerdict;
use crate::base::json;
use crate::node::node_facts::FACTS_FORMAT;

fn written_facts(facts: &NodeFacts) -> String {
    json::to_record(facts, FACTS_FORMAT)
}

fn member(name: &str, begins: u64, own: u64) -> Member {
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
        told: written_facts(&NodeFacts::of_test(begins, own)),
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

/// Its claims of another history are in no other journal.
#[test]
fn a_journal_that_was_not_told_before_the_loss_is_awaited_again() {
    let awaits = |names: &[&str]| {
        let nodes = names.iter().map(|name| (NodeId::parse(name).unwrap(), 4)).collect();
        let closed_by = Some(Forgotten { nodes, by_person: true, ..Forgotten::default() });
        written_facts(&NodeFacts { closed_by, ..NodeFacts::of_test(6, 9) })
    };
    let untold = |came: &str, awaited: &[&str], has: u64| {
        let came = Member { told: awaits(awaited), ..member(came, 6, 9) };
        let gathered = NodesAtLoss { lost: StoreTime::default(), came: vec![&came], missing: Vec::new() };
        let committed = [(came.node.clone(), Number::new(has))].into();
        let (mut orphans, mut reasons) = (Forgotten::default(), Reasons::new());
        gathered.add_untold(&committed, &NodeId::parse("leads").unwrap(), (&mut orphans, &mut reasons));
        assert_eq!(orphans.nodes.len(), reasons.len());
        orphans.nodes.into_values().next()
    };
    assert_eq!(untold("other", &["other"], 0), Some(4));
    assert_eq!(untold("other", &["other", "leads"], 7), Some(7), "the journal at hand has what is before");
    assert_eq!(untold("other", &["leads"], 0), None, "somebody else is awaited");
    assert_eq!(untold("leads", &["leads"], 0), None, "the store is rebuilt from its journal");
}

/// What it said of an earlier loss is sealed, and can be put back with a beat of now.
#[test]
fn a_gate_came_whose_own_words_are_of_now() {
    let (lost, now) = (StoreTime::of_micros(1_000_000_000), StoreTime::of_micros(1_002_000_000));
    let said = |at: StoreTime| {
        let told = written_facts(&NodeFacts { at, acknowledges: Some(lost), ..NodeFacts::of_test(0, 9) });
        Member { beat: now, acknowledges: Some(lost), told, ..member("other", 0, 9) }
    };
    let came = |at: StoreTime| {
        let heard = HeartbeatReply {
            verdict: HeartbeatVerdict::Lost,
            at: now,
            clock: now,
            generation: String::new(),
            run: String::new(),
            last: Number::default(),
            above: Number::default(),
            lost: Some(lost),
            members: vec![said(at)],
        };
        NodesAtLoss::of(&heard).came.len()
    };
    assert_eq!(came(now), 1);
    assert_eq!(came(StoreTime::of_micros(900_000_000)), 0);
}

/// It may have another history behind the same number, which no other journal would be asked for.
#[test]
fn of_journals_that_know_as_much_one_leads_whose_gate_met_the_lost_store() {
    let met = |name: &str, facts: NodeFacts| Member { told: written_facts(&facts), ..member(name, 0, 9) };
    let came_back = met("a", NodeFacts::of_test(0, 9));
    let well = met("b", NodeFacts { well_at: Some(StoreTime::default()), ..NodeFacts::of_test(0, 9) });
    let closed = met("c", NodeFacts { closed_by: Some(Forgotten::default()), ..NodeFacts::of_test(0, 9) });
    let fuller = met("d", NodeFacts::of_test(0, 10));
    let leader = |came: &[&Member]| {
        let gathered = NodesAtLoss { lost: StoreTime::default(), came: came.to_vec(), missing: Vec::new() };
        gathered.leader().map(|member| member.node.to_string())
    };
    assert_eq!(leader(&[&came_back, &well]).as_deref(), Some("b"));
    assert_eq!(leader(&[&came_back, &closed]).as_deref(), Some("c"));
    assert_eq!(leader(&[&came_back]).as_deref(), Some("a"));
    assert_eq!(leader(&[&well, &fuller]).as_deref(), Some("d"), "it knows more");
}
