//! Trouble of the machine while files are read: it says nothing of the files, so all stays as it is, and they are read again.

use std::io;

/// Tells people of the trouble once, and when it is over.
#[derive(Debug, Default)]
pub(super) struct FilesTrouble {
    is_told: bool,
    /// Whether this look has met it.
    is_met: bool,
}

impl FilesTrouble {
    pub fn tell(&mut self, error: &io::Error) {
        self.is_met = true;
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::error!(
                %error,
                remedy = "for file descriptors, raise `LimitNOFILE`, or lower `limits.connections`; for a disk, make room, or repair it",
                "the files of the configuration or of the policies cannot be used at the moment: all stays as it is, and the gate \
                 tries again each second"
            );
        }
    }

    /// A look has ended. If it met no trouble, the trouble is over.
    pub fn end_of_look(&mut self) {
        if !std::mem::take(&mut self.is_met) && std::mem::take(&mut self.is_told) {
            tracing::warn!("the files of the configuration and of the policies can be used again");
        }
    }
}
