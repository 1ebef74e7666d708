//! What a gate notes of its policies beside the audit log, when the disk or somebody damaged it: the start says which file it is,
//! what it was for, and what going on without it takes.

use std::fs;

use super::claims::{swap, told};
use crate::support::{Gate, Setup, Upstream};

#[test]
fn a_damaged_note_of_the_policies_is_named_with_its_remedy() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    let mut setup = gate.end();
    for (prefix, remedy) in [
        ("in-force.", "until the store names the policies in force, those of the folder decide on reads"),
        ("proposed.", "is proposed when its files change again"),
        ("followed.", "the gate believes what `in-force` beside it, or `policies_root`, names"),
    ] {
        let notes = fs::read_dir(setup.path("sluice-audit/policies")).unwrap().map(|entry| entry.unwrap().path());
        let is_it = |name: &str| name.starts_with(prefix);
        let note = notes.into_iter().find(|path| is_it(path.file_name().unwrap().to_str().unwrap())).unwrap();
        let before = fs::read(&note).unwrap();
        for damage in [b"".as_slice(), b"\xff\xfe", b"what is this"] {
            fs::write(&note, damage).unwrap();
            let gate = Gate::spawn(setup);
            assert_eq!(gate.wait_end().code(), Some(1), "{}", gate.stderr());
            let said = gate.stderr();
            assert!(said.contains(&format!("{}` is damaged: ", note.display())), "{said}");
            assert!(said.contains(remedy) && !said.contains("cannot be archived"), "{said}");
            setup = gate.kill();
        }
        // The remedy is one.
        fs::remove_file(&note).unwrap();
        let gate = setup.start().ready();
        assert_eq!(told(&swap().send(gate.production())), "200 - executed", "{}", gate.stderr());
        setup = gate.end();
        fs::write(&note, before).unwrap();
    }
}
