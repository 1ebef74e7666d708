//! Writes the shipped policies as files.

use std::fs;
use std::io;
use std::path::Path;

/// The shipped files and their text.
const SHIPPED: [(&str, &str); 5] = [
    ("default.toml", include_str!("../../policies/default.toml")),
    ("invariants.toml", include_str!("../../policies/invariants.toml")),
    ("people.toml", include_str!("../../policies/people.toml")),
    ("rates.toml", include_str!("../../policies/rates.toml")),
    ("schema.json", include_str!("../../policies/schema.json")),
];

/// Writes the shipped policies to a new folder, with people of this issuer.
pub(super) fn write_shipped(folder: &Path, issuer: &str) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (name, text) in SHIPPED {
        fs::write(folder.join(name), text.replace("\"main:", &format!("\"{issuer}:")))?;
    }
    Ok(())
}
