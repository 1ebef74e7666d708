//! Where the journal of this gate begins: what was paid before is in no list of payments.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use crate::adapters::audit::audit_files;
use crate::audit::{LineBody, read_line};
use crate::ledger::{NodeId, StoreTime};

/// How much of the files is read for the first entries of the environments.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Returns the time from which on a journal has every entry, where it begins behind the first one: its folder was lost,
/// the gate came later, or older files were archived. `None` where it has them all.
pub fn late_beginning(folder: &Path, node: &NodeId) -> io::Result<Option<StoreTime>> {
    let (mut firsts, mut left) = (BTreeMap::new(), MAX_BYTES);
    for file in audit_files(folder)?.into_iter().filter(|file| file.node == *node) {
        let mut text = BufReader::new(File::open(&file.path)?.take(left));
        for line in text.by_ref().split(b'\n') {
            if let Ok(LineBody::Entry(outstanding)) = read_line(&line?).map(|line| line.body) {
                firsts.entry(outstanding.environment).or_insert((outstanding.number.as_u64(), outstanding.at));
            }
        }
        left = text.into_inner().limit();
        if left == 0 {
            break;
        }
    }
    Ok(firsts.into_values().filter(|(number, _)| *number > 1).map(|(_, at)| at).max())
}
