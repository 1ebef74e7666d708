//! A gate whose every word is searched at its end for the secrets and tokens that it was given.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Mutex;

use crate::support::shape::shape;
use crate::support::token::SECRET;
use crate::support::{Answer, Call, Gate, Setup, get};

/// As long a piece of a secret as says something of it.
const PIECE: usize = 16;

#[derive(Debug)]
pub(super) struct Watched {
    gate: Gate,
    secrets: Mutex<BTreeSet<String>>,
    answers: Mutex<String>,
}

impl Watched {
    pub(super) fn start(setup: Setup) -> Watched {
        let gate = setup.set("log", "level", "trace").start();
        Watched { gate, secrets: Mutex::new(BTreeSet::from([SECRET.to_owned()])), answers: Mutex::default() }
    }

    /// Something that the gate knows, and nobody shall hear of it.
    pub(super) fn hides(&self, secret: &str) {
        self.secrets.lock().unwrap().insert(secret.to_owned());
    }

    /// A call with this token in the place of the usual one.
    pub(super) fn call(&self, address: SocketAddr, call: Call, token: &str) -> Answer {
        self.hides(token);
        let call = call.without("Authorization").header("Authorization", format!("Bearer {token}"));
        let answer = call.send(address);
        self.answers.lock().unwrap().push_str(&answer.to_string());
        answer
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
        self.assert_silent();
        let Watched { gate, .. } = self;
        gate.kill()
    }

    /// All that the gate has said so far.
    pub(super) fn said(&self) -> String {
        let log: Vec<String> = self.log.all().iter().map(ToString::to_string).collect();
        let answers = self.answers.lock().unwrap();
        format!("{}\n{}\n{}\n{answers}", log.join("\n"), self.stderr(), self.probe("/metrics").text())
    }

    pub(super) fn assert_silent(&self) {
        let said = self.said();
        assert!(said.contains("sluice_build_info"), "nothing was heard");
        for secret in self.secrets.lock().unwrap().iter() {
            let piece = leaked(&said, secret);
            assert!(piece.is_none(), "{piece:?} is told");
        }
    }
}

impl Deref for Watched {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}

/// A piece of the secret that stands in the text. A token's header is none: every token has it.
pub(super) fn leaked<'s>(text: &str, secret: &'s str) -> Option<&'s str> {
    let body = secret.split_once('.').map_or(secret, |(_, body)| body);
    let pieces = body.as_bytes().windows(PIECE.min(body.len().max(1)));
    pieces.filter_map(|piece| std::str::from_utf8(piece).ok()).find(|piece| text.contains(piece))
}

/// 401 as design.md says, and no more about the token than that.
pub(super) fn assert_refused(answer: &Answer, what: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (401, "UNAUTHORIZED"), "{what}: {answer}");
    assert_eq!((shape(&answer.json()), answer.origin().as_str()), ("A", "gateway"), "{what}: {answer}");
    let told = answer.header("www-authenticate");
    assert_eq!(told.as_deref(), Some("Bearer error=\"invalid_token\""), "{what}: {answer}");
}
