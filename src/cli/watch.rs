//! `sluice approvals watch`: what begins to wait, and what becomes of it.
//!
//! The console tells by a stream when to look again. Where the stream breaks off, that is said, and it is looked at by
//! turns until there is one again: nothing that still waits then is missed.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use super::console::{Ask, Stream, Way, refusal};
use super::hold::{line, list, standing};
use super::{Ending, print};

/// Where there is no stream.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// What happens in one moment is looked at once.
const GATHER: Duration = Duration::from_millis(300);
/// A stream that gives no sign of life for so long is dead.
const SILENCE: Duration = Duration::from_secs(45);
/// No more than so many pages are looked at.
const MOST_PAGES: usize = 20;

/// Tell what begins to wait, and what becomes of it, until you end it
#[derive(Debug, Args)]
pub(super) struct Watch {
    #[command(flatten)]
    way: Way,
}

/// Why it cannot go on.
enum Stop {
    /// The console said so, and would say so again.
    Refused(String),
    /// It may come back.
    Lost(String),
}

impl Watch {
    pub fn run(&self) -> anyhow::Result<Ending> {
        let runtime = Runtime::new().context("no threads to run on")?;
        runtime.block_on(self.watch())
    }

    async fn watch(&self) -> anyhow::Result<Ending> {
        let (mut known, mut is_lost) = (BTreeMap::new(), false);
        loop {
            let why = match self.follow(&mut known, &mut is_lost).await {
                Ok(()) => continue,
                Err(Stop::Refused(why)) => {
                    eprintln!("sluice: {why}");
                    return Ok(Ending::Refused);
                }
                Err(Stop::Lost(why)) => why,
            };
            if !is_lost {
                eprintln!("sluice: the connection is lost: {why}; trying again");
                is_lost = true;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// As long as one stream lasts.
    async fn follow(&self, known: &mut BTreeMap<String, String>, is_lost: &mut bool) -> Result<(), Stop> {
        let mut stream = match self.way.listen("holds/changes").await.map_err(|error| Stop::Lost(error.to_string()))? {
            Ok(stream) => stream,
            // As many are listening as may be: it is looked at by turns.
            Err((503, _)) => {
                self.look(known).await?;
                sleep(LOOK_EVERY).await;
                return Ok(());
            }
            Err((status, answer)) => return Err(Stop::Refused(refusal(status, &answer))),
        };
        self.look(known).await?;
        if std::mem::take(is_lost) {
            eprintln!("sluice: connected again");
        }
        while hears(&mut stream).await? {
            sleep(GATHER).await;
            self.look(known).await?;
        }
        // It ends by itself after a while, and a token is shown anew.
        Ok(())
    }

    async fn look(&self, known: &mut BTreeMap<String, String>) -> Result<(), Stop> {
        let (mut now, mut after) = (BTreeMap::new(), None);
        for _ in 0..MOST_PAGES {
            let ask = Ask::get("holds").with("limit", Some("100".to_owned())).with("after", after);
            let answer = self.told(&ask).await?;
            for hold in list(&answer, "holds") {
                let id = hold["id"].as_str().unwrap_or("-").to_owned();
                let stands = format!("{} {}", line(hold), standing(hold));
                if known.get(&id) != Some(&stands) {
                    say(&stands)?;
                }
                now.insert(id, stands);
            }
            after = answer.get("next").and_then(Value::as_str).map(str::to_owned);
            if after.is_none() {
                break;
            }
        }
        for gone in known.keys().filter(|id| !now.contains_key(*id)) {
            match self.told(&Ask::get(format!("holds/{gone}"))).await {
                Ok(hold) => say(&format!("{gone} {}", standing(&hold)))?,
                Err(Stop::Refused(_)) => say(&format!("{gone} Nothing of it is kept."))?,
                Err(lost) => return Err(lost),
            }
        }
        *known = now;
        Ok(())
    }

    async fn told(&self, ask: &Ask) -> Result<Value, Stop> {
        match self.way.fetch(ask).await {
            Ok((200, answer)) => Ok(answer),
            Ok((status @ 500.., answer)) => Err(Stop::Lost(refusal(status, &answer))),
            Ok((status, answer)) => Err(Stop::Refused(refusal(status, &answer))),
            Err(error) => Err(Stop::Lost(error.to_string())),
        }
    }
}

/// `false`: the stream has ended in order.
async fn hears(stream: &mut Stream) -> Result<bool, Stop> {
    loop {
        let piece = timeout(SILENCE, stream.piece()).await;
        let piece = piece.map_err(|_| Stop::Lost("the console gives no sign of life".to_owned()))?;
        match piece.map_err(|error| Stop::Lost(format!("{error:#}")))? {
            None => return Ok(false),
            Some(piece) if piece.windows(6).any(|part| part == b"event:") => return Ok(true),
            Some(_) => {}
        }
    }
}

fn say(text: &str) -> Result<(), Stop> {
    print(&format!("{text}\n")).map_err(|error| Stop::Refused(error.to_string()))
}
