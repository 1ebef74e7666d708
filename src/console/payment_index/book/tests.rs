use super::*;

fn fact(number: u64, status: Option<PaymentStatus>, kind: FactKind) -> PaymentFact {
    PaymentFact {
        environment: Environment::Production,
        claim: "request/r-1".to_owned(),
        number,
        at: StoreTime::of_micros(i64::try_from(number).unwrap()),
        place: FilePosition { sequence: 1, offset: number },
        operation: "createSwap".to_owned(),
        issuer: "main".to_owned(),
        subject: "pay".to_owned(),
        hold: None,
        status,
        event: "",
        answered: None,
        state: None,
        stage: None,
        problem: None,
        is_repeated: false,
        kind,
    }
}

fn decided(amount: &str) -> FactKind {
    FactKind::Decided(Box::new(DecidedCall {
        requester: Some("ann".to_owned()),
        rules: vec!["small".to_owned()],
        amount: Some(Decimal::parse(amount).unwrap()),
        currency: Some("usdc".to_owned()),
        chain: None,
        other_currency: None,
        value: Some(1),
        from: None,
        to: Some("wallet #aa".to_owned()),
        is_first: true,
    }))
}

fn vote(subject: &str, is_withdrawn: bool) -> FactKind {
    FactKind::Voted { issuer: "people".to_owned(), subject: subject.to_owned(), is_withdrawn }
}

fn facts() -> Vec<PaymentFact> {
    let mut facts = vec![
        fact(1, Some(PaymentStatus::Waiting), decided("5")),
        fact(2, None, vote("bob", false)),
        fact(3, None, vote("cid", false)),
        fact(4, None, vote("bob", true)),
        fact(5, Some(PaymentStatus::Waiting), vote("dan", false)),
        fact(6, Some(PaymentStatus::Sending), decided("5")),
        fact(7, Some(PaymentStatus::Paid), FactKind::Other),
        fact(8, None, FactKind::Other),
    ];
    facts[0].hold = Some("h".to_owned());
    facts[6].answered = Some(200);
    facts
}

fn described(book: &PaymentBook) -> String {
    let row = book.row(&(Environment::Production, "request/r-1".into())).unwrap();
    let approvers: Vec<&str> = row.approvers().map(|vote| &*vote.subject).collect();
    format!("{row:?} {approvers:?}")
}

#[test]
fn a_payment_is_the_same_in_whatever_order_its_entries_come() {
    let mut forwards = PaymentBook::new(10);
    facts().into_iter().for_each(|fact| forwards.add(fact));
    let row = forwards.rows().next().unwrap().1;
    assert_eq!((row.status, row.answered, row.number, row.changed), (PaymentStatus::Paid, Some(200), 6, 7));
    assert_eq!(row.approvers().map(|vote| &*vote.subject).collect::<Vec<_>>(), ["cid", "dan"]);
    assert_eq!((row.hold.as_deref(), row.to.as_deref()), (Some("h"), Some("wallet #aa")));
    for turn in 0..8 {
        let (mut backwards, mut turned) = (PaymentBook::new(10), facts());
        turned.reverse();
        turned.rotate_left(turn);
        turned.into_iter().for_each(|fact| backwards.add(fact));
        assert_eq!(described(&backwards), described(&forwards), "{turn}");
    }
}

#[test]
fn a_payment_whose_decision_is_not_read_yet_is_not_shown() {
    let mut book = PaymentBook::new(10);
    book.add(fact(7, Some(PaymentStatus::Paid), FactKind::Other));
    assert_eq!(book.rows().count(), 0);
    book.add(fact(6, Some(PaymentStatus::Sending), decided("5")));
    assert_eq!(book.rows().map(|(_, row)| row.status).collect::<Vec<_>>(), [PaymentStatus::Paid]);
}

#[test]
fn a_full_book_drops_the_oldest_and_says_so() {
    let mut book = PaymentBook::new(100);
    for number in 1..=110 {
        let claim = format!("request/r-{number}");
        book.add(PaymentFact { claim, ..fact(number, Some(PaymentStatus::Paid), decided("5")) });
    }
    assert_eq!((book.rows().count(), book.dropped_before), (100, Some(StoreTime::of_micros(11))));
    // What was dropped does not come back.
    book.add(fact(3, Some(PaymentStatus::Paid), decided("5")));
    assert_eq!(book.rows().count(), 100);
    let terms: Vec<&Arc<PaymentTerms>> = book.rows().map(|(_, row)| &row.terms).collect();
    assert!(terms.iter().all(|one| Arc::ptr_eq(one, terms[0])), "equal terms are kept once");
}
