//! Commands that read much say on a terminal how far they are, and nothing of it anywhere else.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::support::gate::sluice;
use crate::support::terminal::Terminal;

const MEGA: usize = 1_000_000;
/// More than a command reads in silence, in millions of bytes.
const LONG: usize = 66;

/// An audit file of damaged lines.
fn long_file(folder: &Path) -> String {
    let path = folder.join("audit-left-00000001.jsonl");
    let mut file = fs::File::create(&path).unwrap();
    let line = [vec![b'x'; MEGA - 1], vec![b'\n']].concat();
    for _ in 0..LONG {
        file.write_all(&line).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

/// An export without any row.
fn export(folder: &Path) -> String {
    let head = "{\"format\":2,\"what\":\"payments\"}\n";
    let digest: String = Sha256::digest(head).iter().map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join("export.jsonl");
    fs::write(&path, format!("{head}{{\"rows\":0,\"sha256\":\"{digest}\"}}\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn long_reading_shows_how_far_it_is_on_a_terminal_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (file, export) = (long_file(folder.path()), export(folder.path()));
    for (words, code, last) in [
        (vec!["audit", "verify", &file], 3, ""),
        (vec!["audit", "show", &file], 1, "sluice: no matching entries\n"),
        (vec!["audit", "export", &file], 0, "the export is empty: no matching entries\n"),
        (vec!["payments", "verify", &export, "--audit", &file], 3, "the audit log has no entry of this export\n"),
    ] {
        let (status, told) = Terminal::of(80, 24).run_errors(sluice(&words));
        assert_eq!(status.code(), Some(code), "{words:?}: {told}");
        assert!(told.starts_with("\r\u{1b}[K") && told.contains("K66 of 66 MB\r"), "{words:?}: {told:?}");
        // The line is gone before the command says anything else.
        let (_, rest) = told.rsplit_once("MB\r\u{1b}[K").unwrap();
        assert!(!rest.contains('\r') && rest.ends_with(last), "{words:?}: {told:?}");
        let piped = sluice(&words).output().unwrap();
        assert!(piped.status.code() == Some(code) && !piped.stderr.contains(&b'\r'), "{words:?}");
    }
    // The receipt ends at the first damaged line, and its line is gone as well.
    let (status, told) = Terminal::of(80, 24).run_errors(sluice(&["audit", "receipt", &file]));
    assert!(status.code() == Some(1) && told.starts_with("\r\u{1b}[K1 of 66 MB\r\u{1b}[Ksluice: "), "{told:?}");
    // Rows on the same terminal are not mixed with it.
    let (_, told) = Terminal::of(80, 24).run(sluice(&["audit", "export", &file]));
    assert!(!told.contains("66 MB"), "{told:?}");
}
