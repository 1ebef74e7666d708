//! The longest time that one write may take; leases, the quiet time and the grace of a shutdown derive from it.

use std::time::Duration;

use super::TimeoutsConfig;

/// The slack of clocks and schedulers on top of every timeout.
const SLACK: Duration = Duration::from_secs(10);
/// A request is written as head, body and end.
const PIECES: u32 = 3;

/// The longest time that one write may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongestWrite {
    /// Until its first byte is sent.
    pub begin: Duration,
    /// Until its outcome is known.
    pub whole: Duration,
}

impl LongestWrite {
    /// Adds up the timeouts: upstream may be reached at a second address, and a request is written in pieces.
    pub fn of(
        commit: Duration,
        connect: Duration,
        tls_handshake: Duration,
        write: Duration,
        answer: Duration,
    ) -> LongestWrite {
        let reach = connect.saturating_add(tls_handshake).saturating_mul(2);
        let begin = commit.saturating_add(reach);
        let sending = write.saturating_mul(PIECES).saturating_add(answer).saturating_add(SLACK);
        LongestWrite { begin, whole: begin.saturating_add(sending) }
    }
}

/// How long upstream may still act on a call, counted from different moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietTime {
    /// From the first byte. The gate listens as long for a late answer.
    pub from_first_byte: Duration,
    /// From the commit of the attempt. Before it is over, nobody may say that a call was not executed.
    pub from_commit: Duration,
}

impl QuietTime {
    /// Adds up the latest moment at which a byte can still arrive, and the time that upstream may take then. Bytes that
    /// upstream has not acknowledged within `answer` are dropped: by the gate, or by the kernel (`TCP_USER_TIMEOUT`).
    pub fn of(timeouts: &TimeoutsConfig) -> QuietTime {
        let TimeoutsConfig { commit, connect, tls_handshake, write, answer, upstream_max, .. } = timeouts;
        let begin = LongestWrite::of(*commit, *connect, *tls_handshake, *write, *answer).begin;
        let last_byte = write.saturating_mul(PIECES).saturating_add(*answer);
        let from_first_byte = last_byte.saturating_add(*upstream_max);
        QuietTime { from_first_byte, from_commit: begin.saturating_add(from_first_byte) }
    }
}
