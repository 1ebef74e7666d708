//! A gate that says all that it can, so that the search for secrets has the most to find them in.

use std::net::SocketAddr;
use std::ops::Deref;

use crate::support::shape::shape;
use crate::support::{Answer, Call, Gate, Setup, canary, get};

#[derive(Debug)]
pub(super) struct Watched {
    gate: Gate,
}

impl Watched {
    pub(super) fn start(setup: Setup) -> Watched {
        Watched { gate: setup.set("log", "level", "trace").start() }
    }

    /// Something that the gate knows, and nobody shall hear of it.
    pub(super) fn hides(&self, secret: &str) {
        canary::plant(secret);
    }

    /// A call with this token in the place of the usual one.
    pub(super) fn call(&self, address: SocketAddr, call: Call, token: &str) -> Answer {
        call.without("Authorization").header("Authorization", format!("Bearer {token}")).send(address)
    }

    /// A read in production.
    pub(super) fn read(&self, token: &str) -> Answer {
        self.call(self.production(), get("/v2/users"), token)
    }

    pub(super) fn assert_passes(&self, token: &str) {
        let answer = self.read(token);
        assert_eq!((answer.status, answer.origin().as_str()), (200, "upstream"), "{answer}");
    }

    pub(super) fn assert_refused(&self, token: &str) {
        assert_refused(&self.read(token), "");
    }

    pub(super) fn readiness(&self) -> (u16, String) {
        let answer = self.probe("/readyz");
        (answer.status, answer.text())
    }

    pub(super) fn refused(&self, reason: &str) -> u64 {
        self.metric(&format!("sluice_tokens_refused_total{{environment=\"production\",reason={reason:?}}}"))
    }

    pub(super) fn fetches(&self, outcome: &str) -> u64 {
        self.metric(&format!("sluice_keys_fetches_total{{issuer=\"second\",outcome={outcome:?}}}"))
    }

    /// Ends the gate, and gives what it can be started with again.
    pub(super) fn kill(self) -> Setup {
        self.gate.kill()
    }

    /// All that the gate has said so far.
    pub(super) fn said(&self) -> String {
        let log: Vec<String> = self.log.all().iter().map(ToString::to_string).collect();
        format!("{}\n{}\n{}", log.join("\n"), self.stderr(), self.probe("/metrics").text())
    }

    pub(super) fn assert_silent(&self) {
        let said = self.said();
        assert!(said.contains("sluice_build_info"), "nothing was heard");
        canary::assert_silent("the gate", &said);
    }
}

impl Deref for Watched {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}

/// 401 as design.md says, and no more about the token than that.
pub(super) fn assert_refused(answer: &Answer, what: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (401, "UNAUTHORIZED"), "{what}: {answer}");
    assert_eq!((shape(&answer.json()), answer.origin().as_str()), ("A", "gateway"), "{what}: {answer}");
    let told = answer.header("www-authenticate");
    assert_eq!(told.as_deref(), Some("Bearer error=\"invalid_token\""), "{what}: {answer}");
}
