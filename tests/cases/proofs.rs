//! The chain of proofs from a decision to its one send: each way around it fails to compile.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Each case has the errors that it must cause beside it, a line each.
#[test]
fn every_way_around_the_chain_of_proofs_fails_to_compile() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = library();
    let mut cases = files(&root.join("tests/compile_fail"), |name| name.ends_with(".rs"));
    cases.sort();
    assert!(!cases.is_empty());
    for case in cases {
        let expected = std::fs::read_to_string(case.with_extension("stderr")).unwrap();
        assert!(!expected.is_empty(), "{}: no error is expected", case.display());
        assert_eq!(errors(root, case.strip_prefix(root).unwrap(), &library), expected, "{}", case.display());
    }
}

/// Returns what the compiler says about a case that is linked with the library.
fn errors(root: &Path, case: &Path, library: &Path) -> String {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command.current_dir(root).args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--error-format=short"]);
    command.args(["--cap-lints=allow", "--extern"]).arg(format!("sluice={}", library.display()));
    command.arg("-L").arg(format!("dependency={}", library.parent().unwrap().display()));
    let out = command.arg("--out-dir").arg(tempfile::tempdir().unwrap().path()).arg(case).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success(), "{} compiles:\n{said}", case.display());
    let mut lines: Vec<&str> = said.lines().filter(|line| line.starts_with("tests/")).collect();
    lines.sort_unstable();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns the library that this program was built with: no dependency is compiled again for the cases.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let libraries = files(program.parent().unwrap(), |name| name.starts_with("libsluice-") && name.ends_with(".rlib"));
    let built = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    libraries.into_iter().max_by_key(built).unwrap()
}

fn files(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| is_wanted(path.file_name().unwrap().to_str().unwrap())).collect()
}
