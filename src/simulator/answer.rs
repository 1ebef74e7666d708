//! The simulator's answers, before a fault changes them.

use serde_json::Value;

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimulatorAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

impl SimulatorAnswer {
    pub(super) fn new(status: u16, body: Value) -> SimulatorAnswer {
        SimulatorAnswer { status, headers: Vec::new(), body }
    }
}

/// The result of executing a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) status: u16,
    pub(super) body: Value,
    /// Whether something moved or changed.
    pub(super) effect: bool,
}

impl Done {
    pub(super) fn read(body: Value) -> Done {
        Done { status: 200, body, effect: false }
    }

    pub(super) fn changed(body: Value) -> Done {
        Done { status: 200, body, effect: true }
    }

    pub(super) fn created(body: Value) -> Done {
        Done { status: 201, body, effect: true }
    }

    /// Returns the record that an earlier call with the same requestId made.
    pub(super) fn repeated(body: Value) -> Done {
        Done { status: 201, body, effect: false }
    }
}
