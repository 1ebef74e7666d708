//! Texts that witnesses and gates send each other, and lines of the file of checkpoints.

use sluice::audit::{Checkpoint, KeptCheckpoint, Note, NoteKey, WitnessAnswer, WitnessRequest};

/// A note, a key, a request and a kept checkpoint that are read are written as they were.
pub fn note(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Some(note) = Note::parse(text) {
        assert_eq!(Note::parse(&note.to_string()), Some(note), "a note is read again");
    }
    if let Ok(checkpoint) = Checkpoint::of_note(text) {
        let kept = KeptCheckpoint { checkpoint, place: None };
        let line = kept.to_line().expect("a checkpoint can be written");
        assert_eq!(KeptCheckpoint::read(line.as_bytes()), Ok(kept), "a checkpoint is read again");
    }
    if let Some(request) = WitnessRequest::parse(text) {
        assert_eq!(request.to_text(), text, "a request has one form");
    }
    if let Some(key) = NoteKey::parse(text) {
        assert_eq!(NoteKey::parse(&key.to_string()), Some(key), "a key is read again");
    }
    if let Ok(kept) = KeptCheckpoint::read(input) {
        let line = kept.to_line().expect("a checkpoint can be written");
        assert_eq!(KeptCheckpoint::read(line.as_bytes()), Ok(kept), "a kept checkpoint is read again");
    }
    for status in [200, 400, 403, 404, 409, 422, 500] {
        drop(WitnessAnswer::of_http(status, text));
    }
}

pub fn notes() -> Vec<Vec<u8>> {
    const NOTE: &str =
        "sluice/gate/0123456789abcdef\n7\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u{2014} w AAAAAAAA\n";
    let hash = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    [
        NOTE.to_owned(),
        format!("old 3\n{hash}\n\n{NOTE}"),
        format!("{{\"checkpoint\":{NOTE:?}}}").replace("\\u{2014}", "\u{2014}"),
    ]
    .map(String::into_bytes)
    .to_vec()
}
