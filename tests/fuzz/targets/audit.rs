//! Lines of the audit log, which somebody may have changed.

use sluice::audit::{Hash, LineBody, LineReader, LineText, read_line};
use sluice::base::ids::Environment;
use sluice::ledger::{NodeId, Number, Outstanding, StoreTime};

/// A line is read alike each time, and only in one form. A line that is written with any entry is read again.
pub fn line(input: &[u8]) {
    if let Ok(line) = read_line(input) {
        let again = read_line(input).expect("a line that was read is read again");
        assert_eq!(line.content().as_bytes(), again.content().as_bytes());
        for other in [[input, b" "].concat(), [b" ", input].concat()] {
            assert!(read_line(&other).is_err(), "a line has two forms");
        }
    }
    if let Some(written) = written(input) {
        let line = read_line(&written).expect("a line that was written is read");
        assert!(matches!(line.body, LineBody::Entry(_)));
    }
    let mut reader = LineReader::of(input);
    let mut end = 0;
    while let Ok(Some(line)) = reader.following() {
        assert_eq!(line.offset, end, "a line begins where the one before it ends");
        end = line.end();
    }
    assert_eq!(end, input.len() as u64);
}

/// A line with this entry, without its end.
fn written(entry: &[u8]) -> Option<Vec<u8>> {
    let outstanding = Outstanding {
        environment: Environment::Production,
        number: Number::new(7),
        at: StoreTime::of_micros(1_700_000_000_000_000),
        node: NodeId::parse("gate").expect("a name"),
        entry: entry.to_vec().into(),
    };
    let text = LineText::of_entry(&outstanding).ok()?;
    let mut line = Vec::new();
    text.put_behind(Hash::NOTHING, &mut line);
    line.pop();
    Some(line)
}

pub fn lines() -> Vec<Vec<u8>> {
    let entry = br#"{"what":"sending","claim":"request/r-1","steps":[{"above":3}],"operands":{"/source/amount":"5"}}"#;
    [Some(entry.to_vec()), written(entry), written(b"{}")].into_iter().flatten().collect()
}
