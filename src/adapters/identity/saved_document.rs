//! The last good document of an issuer on disk, for a start while the issuer cannot be reached.
//!
//! The file's time says when the document was last known to be good: it is written after every good fetch. The file
//! names the URL that it came from: after a change of the URL, the former keys are not used.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;

use crate::base::json::{self, Limits};
use crate::stations::admit::{KeyFault, KeySet};

/// Why a kept document cannot be used.
#[derive(Debug, Error)]
pub(super) enum KeptFault {
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    #[error("it is too old")]
    TooOld,
    /// The file was changed, or came from another URL.
    #[error("it contains no keys from this URL")]
    Foreign,
    #[error(transparent)]
    Keys(KeyFault),
}

/// Returns the kept keys and their age, unless the age is `longest` or more.
pub(super) fn load(path: &Path, url: &str, longest: Duration) -> Result<(KeySet, Duration), KeptFault> {
    let written = fs::metadata(path).and_then(|of| of.modified()).map_err(KeptFault::Read)?;
    // A time in the future means that the clock was set back since.
    let age = written.elapsed().unwrap_or_default();
    if age >= longest {
        return Err(KeptFault::TooOld);
    }
    let text = fs::read(path).map_err(KeptFault::Read)?;
    let kept = json::parse(&text, Limits::ANSWER).map_err(|_| KeptFault::Foreign)?;
    let part = |name: &str| kept.get(name).and_then(Value::as_str);
    let document = part("document").filter(|_| part("jwks_url") == Some(url)).ok_or(KeptFault::Foreign)?;
    let keys = KeySet::from_jwks(document.as_bytes()).map_err(KeptFault::Keys)?;
    Ok((keys, age))
}

/// Replaces the file atomically: a reader, even after a crash, finds the former file or this one.
pub(super) fn save(path: &Path, url: &str, document: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    // A file that a crash left behind may be readable by others.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(json!({ "jwks_url": url, "document": document }).to_string().as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const SET: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    #[test]
    fn what_is_kept_is_found_again_by_its_url_alone_and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.json");
        assert!(matches!(load(&path, "u", DAY), Err(KeptFault::Read(_))));
        fs::write(folder.path().join("kept.json.new"), "left by a crash").unwrap();
        save(&path, "u", SET).unwrap();
        save(&path, "u", SET).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(load(&path, "u", DAY).unwrap().0, KeySet::from_jwks(SET.as_bytes()).unwrap());
        assert!(matches!(load(&path, "another", DAY), Err(KeptFault::Foreign)));

        let at = |age: Duration| {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_modified(fs::metadata(folder.path()).unwrap().modified().unwrap() - age).unwrap();
        };
        at(DAY + Duration::from_secs(1));
        assert!(matches!(load(&path, "u", DAY), Err(KeptFault::TooOld)));
        at(DAY / 2);
        assert!(load(&path, "u", DAY).unwrap().1 >= DAY / 2);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH + DAY * 100_000)
            .unwrap();
        assert_eq!(load(&path, "u", DAY).unwrap().1, Duration::ZERO);
    }

    #[test]
    fn what_was_not_written_here_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.json");
        for text in ["", "{}", SET, r#"{"jwks_url": "u"}"#, r#"{"jwks_url": "u", "document": 7}"#] {
            fs::write(&path, text).unwrap();
            assert!(matches!(load(&path, "u", DAY), Err(KeptFault::Foreign)), "{text}");
        }
        save(&path, "u", r#"{"keys": []}"#).unwrap();
        assert!(matches!(load(&path, "u", DAY), Err(KeptFault::Keys(KeyFault::NoneUsable))));
    }
}
