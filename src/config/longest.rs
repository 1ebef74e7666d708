//! How long one write may take, at most: what its lease and the grace of a shutdown follow from.

use std::time::Duration;

/// For the store and the audit chain, before the first byte of a call is sent.
const BOOKKEEPING: Duration = Duration::from_secs(10);
/// What clocks and schedulers may take on top of every timeout.
const SLACK: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongestWrite {
    /// Until its first byte is sent.
    pub begin: Duration,
    /// Until its outcome is known.
    pub whole: Duration,
}

impl LongestWrite {
    /// Upstream may be reached at a second address, and what is written is a head, a body and its end.
    pub fn of(connect: Duration, tls_handshake: Duration, write: Duration, answer: Duration) -> LongestWrite {
        let reach = connect.saturating_add(tls_handshake).saturating_mul(2);
        let begin = BOOKKEEPING.saturating_add(reach);
        let sending = write.saturating_mul(3).saturating_add(answer).saturating_add(SLACK);
        LongestWrite { begin, whole: begin.saturating_add(sending) }
    }
}
