//! Brings each new checkpoint of the journal to all witnesses, beside the calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::open_node_error::OpenNodeError;
use super::workers::Workers;
use crate::adapters::audit::{AuditFiles, JournalTree, NewCheckpoint};
use crate::adapters::random::jittered;
use crate::adapters::witnesses::{WitnessClient, WitnessFault};
use crate::audit::NoteSignature;
use crate::config::{Config, UnwitnessedMode, WitnessingConfig};
use crate::ports::Clock;
use crate::telemetry::Metrics;

/// How often it looks whether lines wait.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time to the next attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The deadline of one attempt with all witnesses, of which each has deadlines of its own.
const ROUND_WITHIN: Duration = Duration::from_secs(30);

/// Has the journal witnessed from now on, if there are witnesses.
pub(super) fn have_witnessed(
    config: &Config,
    audit: &AuditFiles,
    clock: Arc<dyn Clock>,
    metrics: &Metrics,
    workers: &Workers,
) -> Result<(), OpenNodeError> {
    let witnessing = &config.audit.witnessing;
    let Some(tree) = audit.tree().filter(|_| !witnessing.witnesses.is_empty()) else { return Ok(()) };
    let witnesses = witnessing.witnesses.iter().map(|one| WitnessClient::new(one).map(Arc::new));
    let witnesses = witnesses.collect::<Result<Vec<_>, _>>().map_err(OpenNodeError::Witness)?;
    let rounds = WitnessRounds { tree: tree.clone(), witnesses, metrics: metrics.clone(), told: BTreeMap::new() };
    let (tell, witnessed) = watch::channel(0);
    workers.spawn_required("witnesses", rounds.keep_asking(witnessing.needed, tell));
    let watch = WitnessWatch {
        tree: tree.clone(),
        witnessed,
        witnessing: witnessing.clone(),
        clock,
        metrics: metrics.clone(),
        waits_since: None,
        is_late: false,
    };
    workers.spawn_required("the watch of witnesses", watch.keep_looking());
    Ok(())
}

/// Brings checkpoints to the witnesses.
struct WitnessRounds {
    tree: JournalTree,
    witnesses: Vec<Arc<WitnessClient>>,
    metrics: Metrics,
    /// The fault of each witness that was logged last.
    told: BTreeMap<String, WitnessFault>,
}

impl WitnessRounds {
    /// Runs as long as the process. Tells how many of the lines of this process enough witnesses have signed.
    async fn keep_asking(mut self, needed: usize, tell: watch::Sender<u64>) {
        let (mut witnessed, mut pause) = (None, LOOK_INTERVAL);
        loop {
            let newest = self.tree.newest().filter(|new| Some(new.checkpoint.size) > witnessed);
            if let Some(new) = newest {
                let signatures = self.signatures(&new).await;
                if signatures.len() >= needed {
                    (witnessed, pause) = (Some(new.checkpoint.size), LOOK_INTERVAL);
                    let mut signed = new.checkpoint.clone();
                    signed.note.signatures.extend(signatures);
                    self.tree.keep(signed);
                    tell.send_replace(new.covers);
                } else {
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
            }
            sleep(jittered(pause)).await;
        }
    }

    /// Asks all witnesses at once.
    async fn signatures(&mut self, new: &Arc<NewCheckpoint>) -> Vec<NoteSignature> {
        let mut asked = JoinSet::new();
        for witness in &self.witnesses {
            let (witness, new, folder) = (Arc::clone(witness), Arc::clone(new), self.tree.folder().clone());
            asked.spawn(async move {
                // A disk that hangs must not keep the others' signatures.
                let signed = timeout(ROUND_WITHIN, witness.sign(&folder, &new.checkpoint)).await;
                (witness.name().to_owned(), signed.unwrap_or(Err(WitnessFault::Unreachable)))
            });
        }
        let mut signatures = Vec::new();
        while let Some(answer) = asked.join_next().await {
            // A task that panicked gave no signature.
            let Ok((name, signed)) = answer else { continue };
            self.metrics.witness_answered(&name, signed.as_ref().map_or_else(WitnessFault::as_str, |_| "signed"));
            match signed {
                Ok(signature) => {
                    if self.told.remove(&name).is_some() {
                        tracing::info!(witness = name, "the witness signs again");
                    }
                    signatures.push(signature);
                }
                Err(fault) => self.tell(name, fault),
            }
        }
        signatures
    }

    /// Logs a fault once.
    fn tell(&mut self, witness: String, fault: WitnessFault) {
        if self.told.get(&witness) != Some(&fault) {
            tracing::error!(witness, why = %fault, "a witness did not sign the journal's checkpoint");
            self.told.insert(witness, fault);
        }
    }
}

/// Looks how long lines have waited for witnesses, whatever keeps them from being signed.
struct WitnessWatch {
    tree: JournalTree,
    /// How many of the lines of this process enough witnesses have signed.
    witnessed: watch::Receiver<u64>,
    witnessing: WitnessingConfig,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    waits_since: Option<Duration>,
    is_late: bool,
}

impl WitnessWatch {
    /// Runs as long as the process.
    async fn keep_looking(mut self) {
        let mut seen = 0;
        loop {
            let (handed, witnessed) = (self.tree.handed(), *self.witnessed.borrow());
            if witnessed >= handed {
                self.waits_since = None;
                self.metrics.unwitnessed_since(0);
            } else if self.waits_since.is_none() || witnessed > seen {
                // The lines that wait came since the last look, where nothing waited, or else behind the checkpoint that was signed
                // just now: these may have come while it was asked for, a round earlier.
                self.waits_since = Some(self.clock.elapsed());
                self.metrics.unwitnessed_since(self.clock.now().as_second());
            }
            seen = witnessed;
            let waits = self.waits_since.map(|since| self.clock.elapsed().saturating_sub(since));
            match waits {
                Some(waits) if waits >= self.witnessing.within => self.is_too_late(),
                _ => self.is_in_time(),
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    fn is_too_late(&mut self) {
        if self.is_late {
            return;
        }
        self.is_late = true;
        let (waited_secs, needed) = (self.witnessing.within.as_secs(), self.witnessing.needed);
        match self.witnessing.unwitnessed {
            UnwitnessedMode::Alert => {
                tracing::error!(waited_secs, needed, "too few witnesses have signed the journal for too long");
            }
            UnwitnessedMode::Close => {
                self.tree.close(true);
                tracing::error!(
                    waited_secs,
                    needed,
                    "too few witnesses have signed the journal for too long: this gate's money is closed until they sign"
                );
            }
        }
    }

    fn is_in_time(&mut self) {
        if std::mem::take(&mut self.is_late) {
            self.tree.close(false);
            tracing::warn!("enough witnesses have signed the journal again");
        }
    }
}
