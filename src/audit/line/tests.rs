//! Lines that are written and read back.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

fn outstanding(entry: &'static str) -> Outstanding {
    Outstanding {
        environment: Environment::Sandbox,
        number: Number::new(7),
        at: StoreTime::of_micros(1_000_001),
        node: NodeId::parse("a").unwrap(),
        entry: Bytes::from_static(entry.as_bytes()),
    }
}

fn written(entry: &'static str) -> String {
    let mut out = Vec::new();
    LineText::of_entry(&outstanding(entry)).unwrap().put_behind(Hash::NOTHING, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_line_is_canonical_json_and_reads_back() {
    let line = written(r#"{"what": "sending", "amount": 1.50, "a": "ä\u0041"}"#);
    let text = line.strip_suffix('\n').unwrap();
    let value = json::parse(text.as_bytes(), LINE).unwrap();
    assert_eq!(String::from_utf8(json::to_bytes(&value)).unwrap(), text);
    assert!(text.contains(r#""entry":{"a":"äA","amount":1.50,"what":"sending"}"#), "{text}");
    assert!(text.starts_with(r#"{"at":"1970-01-01T00:00:01.000001Z","#), "{text}");
    let read = read_line(text.as_bytes()).unwrap();
    assert_eq!(read.previous, Hash::NOTHING);
    let LineBody::Entry(entry) = read.body else { panic!("an entry") };
    assert_eq!((entry.number, &entry.entry[..12]), (Number::new(7), "{\"a\":\"äA\",\"".as_bytes()));
}

#[test]
fn a_header_reads_back() {
    for snapshot in [None, Some(SnapshotLink { sequence: 1, sha256: Hash::of(&[b"content"]) })] {
        for anew in [&[][..], &[Environment::Sandbox], &Environment::ALL] {
            reads_back(snapshot, anew.iter().copied().collect());
        }
    }
}

fn reads_back(snapshot: Option<SnapshotLink>, anew: BTreeSet<Environment>) {
    let header = FileHeader {
        node: NodeId::parse("a").unwrap(),
        sequence: 2,
        at: StoreTime::of_micros(0),
        highest: Highest::from([(Environment::Production, 6)]),
        snapshot,
        anew,
    };
    let text = LineText::of_header(&header).unwrap();
    let mut out = Vec::new();
    let hash = text.put_behind(Hash::of(&[b"x"]), &mut out);
    assert_eq!(out.len(), text.length());
    let read = read_line(out.strip_suffix(b"\n").unwrap()).unwrap();
    assert_eq!((read.hash, read.body), (hash, LineBody::Header(header)));
    let value = json::parse(&out, LINE).unwrap();
    assert_eq!([json::to_bytes(&value), b"\n".to_vec()].concat(), out);
}

#[test]
fn another_spelling_another_hash_and_another_form_are_told_apart() {
    let line = written("{}");
    let text = line.strip_suffix('\n').unwrap();
    let fault = |changed: String| read_line(changed.as_bytes()).unwrap_err();
    assert_eq!(fault(text.replacen(',', ", ", 1)), LineFault::Spelling);
    assert_eq!(fault(text.replace("\"number\":7", "\"number\":8")), LineFault::Hash);
    assert_eq!(fault(text.replace("sandbox", "sandpit")), LineFault::Form("`environment` is unknown"));
    assert!(matches!(fault(text.replace('}', "")), LineFault::Json(_)));
    assert!(matches!(fault(format!("{{\"format\":2,{}", &text[1..])), LineFault::Newer(2)));
    assert_eq!(fault(text.replace("\"node\"", "\"more\":1,\"node\"")), LineFault::Spelling);
}

proptest! {
    #[test]
    fn a_line_reads_the_same_in_its_form_and_by_its_values(
        entry in r#"\{("a":(1|-1|0\.50|"[a"\\/é]{0,3}"|\[\])(,"b":\{\}|,"a":1|)|)\}"#,
        changes in prop::collection::vec((any::<Index>(), 0_u8..128), 0..2),
    ) {
        let Ok(text) = LineText::of_entry(&Outstanding { entry: entry.into(), ..outstanding("") }) else { return Ok(()) };
        let mut line = Vec::new();
        text.put_behind(Hash::NOTHING, &mut line);
        line.pop();
        for (at, byte) in changes {
            let at = at.index(line.len());
            line[at] = byte;
        }
        if let Some(read) = read_entry_in_form(&line) {
            prop_assert_eq!(read_any_line(&line), Ok(read));
        }
    }
}

#[test]
fn most_lines_are_read_in_their_form() {
    let line = written(r#"{"amount":"1.50","steps":"AAAA","what":"sending"}"#);
    assert!(read_entry_in_form(line.trim_end().as_bytes()).is_some());
    assert!(read_entry_in_form(line.trim_end().replace(":7", ":8").as_bytes()).is_none());
}

#[test]
fn what_is_no_object_is_no_entry() {
    assert!(LineText::of_entry(&outstanding("[]")).is_err());
    assert!(LineText::of_entry(&outstanding("{")).is_err());
}

#[test]
fn the_deepest_entry_can_be_read_again() {
    let deep = format!("{}1{}", "{\"a\":".repeat(64), "}".repeat(64));
    let line = written(Box::leak(deep.into_boxed_str()));
    assert!(read_line(line.strip_suffix('\n').unwrap().as_bytes()).is_ok());
}
