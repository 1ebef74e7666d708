//! The limits on sizes and numbers.

use super::WrittenConfig;
use crate::config::LimitsConfig;

impl WrittenConfig {
    pub(super) fn limits(&self) -> Option<LimitsConfig> {
        Some(LimitsConfig {
            body_bytes: self.body_bytes.as_ref()?.value,
            bodies_bytes: self.bodies_bytes.as_ref()?.value,
            holds: self.holds.as_ref()?.value,
            holds_bytes: self.holds_bytes.as_ref()?.value,
            buffered_bytes: self.buffered_bytes.as_ref()?.value,
            calls: self.calls.as_ref()?.value,
            refusals: self.refusals.as_ref()?.value,
            answer_bytes: self.answer_bytes.as_ref()?.value,
            answers_bytes: self.answers_bytes.as_ref()?.value,
            head_bytes: self.head_bytes.as_ref()?.value,
            headers: self.headers.as_ref()?.value,
            connections: self.connections.as_ref()?.value,
            connections_per_peer: self.connections_per_peer.as_ref()?.value,
            requests_per_connection: self.requests_per_connection.as_ref()?.value,
            streams_per_connection: self.streams_per_connection.as_ref()?.value,
        })
    }
}
