//! The files of a policy folder: which ones are read, and their texts.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{PolicyText, placed};
use crate::adapters::regular_file::{MAX_FILE_BYTES, read_regular};
use crate::base::finding::Finding;

/// The most bytes of all files together.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// How UTF-16 begins, which some editors write as "Unicode".
const UTF_16: [&[u8]; 2] = [&[0xff, 0xfe], &[0xfe, 0xff]];

/// Returns the name and the text of every TOML file in a folder, sorted by name.
pub fn texts(folder: &Path) -> Result<Vec<PolicyText>, Vec<Finding>> {
    let files = files(folder).map_err(|error| vec![unreadable_folder(folder, &error)])?;
    let (mut texts, mut findings, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
    for path in files {
        match text(&path) {
            Ok((name, text)) => {
                bytes = bytes.saturating_add(text.len());
                texts.push((name, text));
            }
            Err(finding) => findings.push(finding),
        }
        if bytes > MAX_BYTES {
            let text = format!("the policy files have more than {} MiB together", MAX_BYTES >> 20);
            findings.push(Finding::error("", text).remedy("make them smaller: fewer rules, or shorter lists"));
            break;
        }
    }
    if findings.is_empty() { Ok(texts) } else { Err(placed(folder, findings)) }
}

/// Returns a warning for each name in a folder that looks like policies and is not read.
pub fn unread(folder: &Path) -> Vec<Finding> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let warning = |path: &PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let (why, remedy) = unread_because(path, &name)?;
        Some(Finding::warning(&name, why).remedy(remedy))
    };
    paths.iter().filter_map(warning).collect()
}

/// Returns the files that are read, sorted by name.
pub(super) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_named_policies(&path) && !is_hidden(&path) && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_named_policies(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// Whether `ls` does not show a file: it may be an editor's own, and what decides is to be seen.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn unread_because(path: &Path, name: &str) -> Option<(String, &'static str)> {
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    if is_hidden(path) {
        let remedy = "remove it, or name it without the leading dot";
        return (is_named_policies(path) && !path.is_dir())
            .then(|| ("hidden files are not read: it decides nothing".to_owned(), remedy));
    }
    if path.is_dir() {
        let has_files = is_named_policies(path) || files(path).is_ok_and(|inside| !inside.is_empty());
        let remedy = "move its files into the folder of the policies";
        return has_files.then(|| ("folders are not read: what is in it decides nothing".to_owned(), remedy));
    }
    let is_near = extension != "toml" && strsim::damerau_levenshtein(&extension.to_lowercase(), "toml") <= 1;
    (is_near && !name.ends_with('~')).then(|| {
        (
            format!("only files whose names end with `.toml` are read: `.{extension}` decides nothing"),
            "rename it, or remove it",
        )
    })
}

/// Reads a file, or returns a finding with its name.
fn text(path: &Path) -> Result<PolicyText, Finding> {
    let Some(name) = path.file_name().and_then(OsStr::to_str).map(str::to_owned) else {
        let text = format!("the file name `{}` is not UTF-8", path.display());
        return Err(Finding::error("", text).remedy("rename it"));
    };
    let bytes = read_regular(path).map_err(|error| unreadable_file(&name, &error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let bytes = error.as_bytes();
        if UTF_16.iter().any(|begin| bytes.starts_with(begin)) {
            return Finding::error(&name, "the file is UTF-16").remedy("save it as UTF-8");
        }
        let (before, _) = bytes.split_at_checked(error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count().saturating_add(1);
        let finding = Finding::error(&name, "the file is not UTF-8: here is a byte of another encoding");
        finding.at(line.to_string()).remedy("save it as UTF-8")
    })?;
    Ok((name, text))
}

fn unreadable_file(name: &str, error: &io::Error) -> Finding {
    let remedy = match error.kind() {
        io::ErrorKind::FileTooLarge => format!("make it smaller than {} MiB", MAX_FILE_BYTES >> 20),
        io::ErrorKind::PermissionDenied => "let the gate's user read it".to_owned(),
        io::ErrorKind::NotFound => "remove it: it is a link to a file that is not there".to_owned(),
        _ => "make it a regular file that can be read".to_owned(),
    };
    Finding::error(name, format!("the policies cannot be read: {error}")).remedy(remedy)
}

fn unreadable_folder(folder: &Path, error: &io::Error) -> Finding {
    let name = folder.display().to_string();
    if error.kind() == io::ErrorKind::NotFound && !folder.exists() {
        let remedy =
            "name the folder with the policies: `policies` of the configuration, or the argument of the command";
        return Finding::error(&name, "the folder of the policies does not exist").remedy(remedy);
    }
    let text = format!("the policies cannot be read: {error}");
    Finding::error(&name, text).remedy("make it a folder that can be read")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    /// Returns findings in words, without the folder.
    fn told(folder: &Path, findings: &[Finding]) -> Vec<String> {
        let folder = format!("{}/", folder.display());
        findings.iter().map(|finding| finding.to_string().replace(&folder, "").replace("\n", "")).collect()
    }

    #[test]
    fn what_looks_like_policies_and_is_not_read_is_told() {
        let nothing: &[u8] = b"";
        let names =
            ["a.toml", "sub/deny.toml", "notes/readme.md", "UP.TOML", "b.tmol", "c.tml", "d.txt", "x.toml/y.md"];
        let hidden = [".q.toml", ".vimrc", "..data/a.toml", "README.md", "schema.json", "e.toml~", "f.toml.bak"];
        let all: Vec<(&str, &[u8])> = names.into_iter().chain(hidden).map(|name| (name, nothing)).collect();
        let folder = folder(&all);
        symlink("user@host.1", folder.path().join(".#a.toml")).unwrap();
        let read: Vec<String> = texts(folder.path()).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(read, ["a.toml"]);
        let warnings = unread(folder.path());
        assert!(warnings.iter().all(|finding| !finding.is_error() && finding.remedy.is_some()), "{warnings:?}");
        let names: Vec<&str> = warnings.iter().map(|finding| finding.file.as_str()).collect();
        assert_eq!(names, [".#a.toml", ".q.toml", "UP.TOML", "b.tmol", "c.tml", "sub", "x.toml"]);
    }

    #[test]
    fn each_file_that_cannot_be_read_is_told_with_its_remedy() {
        let folder = folder(&[
            ("latin.toml", b"# one\n# caf\xe9\n"),
            ("utf16.toml", b"\xff\xfe[\0"),
            ("good.toml", b"# good\n"),
            ("large.toml", &vec![b'#'; 17 << 20]),
        ]);
        symlink("nowhere", folder.path().join("link.toml")).unwrap();
        let findings = texts(folder.path()).unwrap_err();
        let told = told(folder.path(), &findings);
        let expected = [
            "latin.toml:2: the file is not UTF-8: here is a byte of another encoding  remedy: save it as UTF-8",
            "link.toml: the policies cannot be read: No such file or directory (os error 2)  remedy: remove it: it is a link to a file that is not there",
            "large.toml: the policies cannot be read: it is larger than 16 MiB  remedy: make it smaller than 16 MiB",
            "utf16.toml: the file is UTF-16  remedy: save it as UTF-8",
        ];
        for expected in expected {
            assert!(told.contains(&format!("error: {expected}")), "{expected}: {told:#?}");
        }
        assert_eq!(told.len(), expected.len());
    }
}
