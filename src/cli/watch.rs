//! `sluice approvals watch`: prints each new hold and each change of a hold.
//!
//! A stream of the console says when to fetch the list of holds again. If the stream breaks, the command reports it
//! and polls until there is a stream again, so that it misses no hold that is still open.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use super::console::{ConsoleCall, ConsoleOptions, Stream, refusal};
use super::hold::{list, list_line, state_in_words};
use super::{ExitReason, print};
use crate::cli::complain;

/// How often to poll without a stream.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long to wait after an event, so that one fetch covers events that come together.
const GATHER_TIME: Duration = Duration::from_millis(300);
/// A stream that is silent for this long is treated as broken.
const MAX_SILENCE: Duration = Duration::from_secs(45);
/// How many pages of holds are fetched at most.
const MAX_PAGES: usize = 20;

/// Print each new hold and each change of a hold, until Ctrl-C
#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    #[command(flatten)]
    way: ConsoleOptions,
}

/// Why the watch stopped.
enum WatchEnd {
    /// The console refused, and would refuse again.
    Refused(String),
    /// The connection broke, and may recover.
    Lost(String),
}

impl WatchArgs {
    pub fn run(&self) -> anyhow::Result<ExitReason> {
        let runtime = Runtime::new().context("the async runtime cannot start")?;
        runtime.block_on(self.watch())
    }

    async fn watch(&self) -> anyhow::Result<ExitReason> {
        let (mut known, mut is_lost) = (BTreeMap::new(), false);
        loop {
            let why = match self.follow(&mut known, &mut is_lost).await {
                Ok(()) => continue,
                Err(WatchEnd::Refused(why)) => {
                    complain(format_args!("sluice: {why}"));
                    return Ok(ExitReason::Refused);
                }
                Err(WatchEnd::Lost(why)) => why,
            };
            if !is_lost {
                complain(format_args!("sluice: the connection is lost: {why}; trying again"));
                is_lost = true;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Follows one stream to its end.
    async fn follow(&self, known: &mut BTreeMap<String, String>, is_lost: &mut bool) -> Result<(), WatchEnd> {
        let mut stream =
            match self.way.listen("holds/changes").await.map_err(|error| WatchEnd::Lost(error.to_string()))? {
                Ok(stream) => stream,
                // The console has no free stream: poll instead.
                Err((503, _)) => {
                    self.print_changes(known).await?;
                    sleep(POLL_INTERVAL).await;
                    return Ok(());
                }
                Err((status, answer)) => return Err(WatchEnd::Refused(refusal(status, &answer))),
            };
        self.print_changes(known).await?;
        if std::mem::take(is_lost) {
            complain(format_args!("sluice: connected again"));
        }
        while next_event(&mut stream).await? {
            sleep(GATHER_TIME).await;
            self.print_changes(known).await?;
        }
        // The console ends each stream after a while, so that the token is checked again.
        Ok(())
    }

    async fn print_changes(&self, known: &mut BTreeMap<String, String>) -> Result<(), WatchEnd> {
        let (mut now, mut after) = (BTreeMap::new(), None);
        for _ in 0..MAX_PAGES {
            let ask = ConsoleCall::get("holds").with("limit", Some("100".to_owned())).with("after", after);
            let answer = self.fetch(&ask).await?;
            for hold in list(&answer, "holds") {
                let id = hold["id"].as_str().unwrap_or("-").to_owned();
                let shown = format!("{} {}", list_line(hold), state_in_words(hold));
                if known.get(&id) != Some(&shown) {
                    print_line(&shown)?;
                }
                now.insert(id, shown);
            }
            after = answer.get("next").and_then(Value::as_str).map(str::to_owned);
            if after.is_none() {
                break;
            }
        }
        for id in known.keys().filter(|id| !now.contains_key(*id)) {
            match self.fetch(&ConsoleCall::get(format!("holds/{id}"))).await {
                Ok(hold) => print_line(&format!("{id} {}", state_in_words(&hold)))?,
                Err(WatchEnd::Refused(_)) => print_line(&format!("{id} The console no longer has it."))?,
                Err(lost) => return Err(lost),
            }
        }
        *known = now;
        Ok(())
    }

    async fn fetch(&self, ask: &ConsoleCall) -> Result<Value, WatchEnd> {
        match self.way.fetch(ask).await {
            Ok((200, answer)) => Ok(answer),
            Ok((status @ 500.., answer)) => Err(WatchEnd::Lost(refusal(status, &answer))),
            Ok((status, answer)) => Err(WatchEnd::Refused(refusal(status, &answer))),
            Err(error) => Err(WatchEnd::Lost(error.to_string())),
        }
    }
}

/// Waits for the next event; returns `false` if the stream has ended regularly.
async fn next_event(stream: &mut Stream) -> Result<bool, WatchEnd> {
    loop {
        let piece = timeout(MAX_SILENCE, stream.piece()).await;
        let piece = piece.map_err(|_| WatchEnd::Lost("the console has been silent for 45 s".to_owned()))?;
        match piece.map_err(|error| WatchEnd::Lost(format!("{error:#}")))? {
            None => return Ok(false),
            Some(piece) if piece.windows(6).any(|part| part == b"event:") => return Ok(true),
            Some(_) => {}
        }
    }
}

fn print_line(text: &str) -> Result<(), WatchEnd> {
    print(&format!("{text}\n")).map_err(|error| WatchEnd::Refused(error.to_string()))
}
