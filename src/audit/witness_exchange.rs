//! The texts of C2SP's `tlog-witness`: what a gate asks, and what a witness answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::checkpoint::{parse_root, parse_size};
use super::hash::Hash;

/// The most hashes of a proof.
const MOST_HASHES: usize = 63;
/// The type of an answer that is the number of lines.
pub const SIZE_TYPE: &str = "text/x.tlog.size";

/// A checkpoint, with the proof that it has all lines of an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessRequest {
    /// The size of the earlier one.
    pub old: u64,
    pub proof: Vec<Hash>,
    /// The checkpoint: a signed note.
    pub note: String,
}

impl WitnessRequest {
    pub fn to_text(&self) -> String {
        let proof: String = self.proof.iter().map(|hash| format!("{}\n", STANDARD.encode(hash.as_bytes()))).collect();
        format!("old {}\n{proof}\n{}", self.old, self.note)
    }

    pub fn parse(text: &str) -> Option<WitnessRequest> {
        let (head, note) = text.split_once("\n\n")?;
        let mut lines = head.split('\n');
        let old = parse_size(lines.next()?.strip_prefix("old ")?)?;
        let proof: Vec<Hash> = lines.map(parse_root).collect::<Option<_>>()?;
        (proof.len() <= MOST_HASHES).then(|| WitnessRequest { old, proof, note: note.to_owned() })
    }
}

/// The answer of a witness to a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WitnessAnswer {
    /// Its signature, as a line of a note.
    Signed(String),
    /// The request is not one.
    Unreadable(&'static str),
    /// No log has that name.
    UnknownLog,
    /// No key that the witness knows signed as the log.
    Unsigned,
    /// The witness signed a checkpoint of another size last.
    OtherSize(u64),
    /// The checkpoint does not have all lines of the one that the witness signed last.
    Inconsistent,
    /// The witness cannot remember the checkpoint.
    Failed,
}

impl WitnessAnswer {
    /// Returns the status and the body of the answer.
    pub fn to_http(&self) -> (u16, String) {
        match self {
            WitnessAnswer::Signed(line) => (200, line.clone()),
            WitnessAnswer::Unreadable(why) => (400, format!("{why}\n")),
            WitnessAnswer::UnknownLog => (404, "this witness knows no log with that name\n".to_owned()),
            WitnessAnswer::Unsigned => (403, "no key that this witness knows signed the checkpoint\n".to_owned()),
            WitnessAnswer::OtherSize(size) => (409, format!("{size}\n")),
            WitnessAnswer::Inconsistent => {
                let text = "the checkpoint does not have all lines of the one that this witness signed last\n";
                (422, text.to_owned())
            }
            WitnessAnswer::Failed => (500, "the witness cannot write its folder\n".to_owned()),
        }
    }

    /// Reads an answer; `None` if it is not one of a witness.
    pub fn of_http(status: u16, body: &str) -> Option<WitnessAnswer> {
        Some(match status {
            200 => WitnessAnswer::Signed(body.to_owned()),
            400 => WitnessAnswer::Unreadable("the witness cannot read the request"),
            403 => WitnessAnswer::Unsigned,
            404 => WitnessAnswer::UnknownLog,
            409 => WitnessAnswer::OtherSize(parse_size(body.strip_suffix('\n')?)?),
            422 => WitnessAnswer::Inconsistent,
            500..600 => WitnessAnswer::Failed,
            _ => return None,
        })
    }

    /// Returns the name of the answer in metrics and logs.
    pub fn as_str(&self) -> &'static str {
        match self {
            WitnessAnswer::Signed(_) => "signed",
            WitnessAnswer::Unreadable(_) => "unreadable",
            WitnessAnswer::UnknownLog => "unknown_log",
            WitnessAnswer::Unsigned => "unknown_key",
            WitnessAnswer::OtherSize(_) => "other_size",
            WitnessAnswer::Inconsistent => "inconsistent",
            WitnessAnswer::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_and_each_answer_are_read_as_they_were_written() {
        for proof in [vec![], vec![Hash::of(&[b"1"]), Hash::of(&[b"2"])]] {
            let request = WitnessRequest { old: 7, proof, note: "a\n1\n\nb\n".to_owned() };
            assert_eq!(WitnessRequest::parse(&request.to_text()), Some(request));
        }
        for wrong in ["", "old 7\n", "old 07\n\nnote", "old x\n\nnote", "old 7\nAAAA\n\nnote", "7\n\nnote"] {
            assert_eq!(WitnessRequest::parse(wrong), None, "{wrong}");
        }
        let many = format!("old 7\n{}\nnote", format!("{}\n", STANDARD.encode([0; 32])).repeat(64));
        assert_eq!(WitnessRequest::parse(&many), None);
        use WitnessAnswer::*;
        for answer in [Signed("line\n".to_owned()), UnknownLog, Unsigned, OtherSize(12), Inconsistent, Failed] {
            let (status, body) = answer.to_http();
            assert_eq!(WitnessAnswer::of_http(status, &body), Some(answer));
        }
        for (status, body) in [(409, "12"), (409, "-1\n"), (302, ""), (201, "")] {
            assert_eq!(WitnessAnswer::of_http(status, body), None, "{status}");
        }
    }
}
