//! One request and its answer, with a deadline on everything.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::answer_head::AnswerHead;
use super::answer_room::{AnswerBuffer, AnswerShare};
use super::line::UpstreamLine;
use crate::ports::Clock;
use crate::stations::forward::{AnswerBody, Loss, Outgoing, Sent};

/// How long the gate looks once more at what is readable, when a deadline is over. A timer that fires late, as after the
/// process was stopped, must not win over an answer that is already there: while the next timer runs, the reactor looks
/// at every socket.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// The result of writing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteResult {
    /// The kernel has every byte.
    Whole,
    /// The connection broke.
    Broken,
    /// The deadline was over, or the process ends.
    GivenUp,
}

/// The result of reading an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Whole,
    /// The connection broke, or the answer is not HTTP.
    Broken,
    TooLarge,
}

/// An answer that is being read. Reading can be given up and taken up again.
#[derive(Debug)]
pub(super) struct Hearing {
    head: Option<(u16, HeaderMap)>,
    body: AnswerBuffer,
}

/// Writes a request until its time is over, by the node's monotonic clock.
pub(super) async fn write_until(
    line: &mut UpstreamLine,
    outgoing: &Outgoing,
    clock: &dyn Clock,
    time: Duration,
    cut: &CancellationToken,
) -> WriteResult {
    let until = clock.elapsed().saturating_add(time);
    let mut writing = pin!(write_request(line, outgoing));
    // The clock is asked before each piece: a process that was stopped must not go on writing.
    let writing = poll_fn(|context| {
        if clock.elapsed() >= until {
            return Poll::Ready(WriteResult::GivenUp);
        }
        writing.as_mut().poll(context).map(|written| match written {
            Ok(()) => WriteResult::Whole,
            Err(_) => WriteResult::Broken,
        })
    });
    tokio::select! {
        biased;
        written = writing => written,
        () = cut.cancelled() => WriteResult::GivenUp,
        () = tokio::time::sleep(time) => WriteResult::GivenUp,
    }
}

pub(super) async fn write_request(line: &mut UpstreamLine, outgoing: &Outgoing) -> pingora::Result<()> {
    line.write(outgoing.method(), outgoing.target(), outgoing.headers(), outgoing.body()).await
}

impl Hearing {
    pub fn new(room: AnswerShare) -> Hearing {
        Hearing { head: None, body: AnswerBuffer::new(room) }
    }

    /// Reads until the answer is complete, the deadline is over or the gate is to listen no longer.
    pub async fn until(
        &mut self,
        line: &mut UpstreamLine,
        deadline: Instant,
        over: &CancellationToken,
    ) -> Option<Heard> {
        tokio::select! {
            biased;
            heard = self.read(line) => return Some(heard),
            () = over.cancelled() => {}
            () = sleep_until(deadline) => {}
        }
        timeout(LAST_LOOK, self.read(line)).await.ok()
    }

    /// Returns what is known now. `heard` is `None` where the deadline was over.
    pub fn sent(&mut self, heard: Option<Heard>) -> Sent {
        let loss = if heard.is_none() { Loss::Silent } else { Loss::Broken };
        let Some((status, headers)) = self.head.clone() else { return Sent::Lost(loss) };
        let body = match heard {
            Some(Heard::Whole) => AnswerBody::Complete(self.body.take()),
            Some(Heard::Broken | Heard::TooLarge) | None => {
                AnswerBody::Incomplete { loss, beginning: self.body.beginning() }
            }
        };
        Sent::Answered { status, headers, body }
    }

    async fn read(&mut self, line: &mut UpstreamLine) -> Heard {
        if self.head.is_none() {
            let Ok(AnswerHead { status, headers, .. }) = read_head(line).await else { return Heard::Broken };
            // An unrequested upgrade, or an invalid HTTP status.
            if !(200..600).contains(&status.as_u16()) {
                return Heard::Broken;
            }
            self.head = Some((status.as_u16(), headers));
        }
        let stated = self.head.as_ref().and_then(|(_, headers)| stated_length(headers));
        loop {
            self.body.may_grow(stated).await;
            match line.piece().await {
                Ok(None) => return Heard::Whole,
                Ok(Some(piece)) if self.body.len().saturating_add(piece.len()) > self.body.longest() => {
                    self.body.push_beginning(&piece);
                    return Heard::TooLarge;
                }
                Ok(Some(piece)) => self.body.push(&piece),
                Err(_) => return Heard::Broken,
            }
        }
    }
}

fn stated_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns the head of the answer; interim ones before it are skipped.
pub(super) async fn read_head(line: &mut UpstreamLine) -> pingora::Result<AnswerHead> {
    loop {
        let head = line.head().await?;
        if !head.is_interim() {
            return Ok(head);
        }
    }
}
