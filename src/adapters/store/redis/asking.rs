//! Asks the script, and waits where an answer must be durable.

use std::sync::atomic::Ordering;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, RedisResult};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use super::call_head::{CallMark, ScriptHead};
use super::generation::FoundDamage;
use super::script_args::Words;
use super::{DAMAGED, NO_SCRIPT, OTHER, RedisStore, ScriptReply, durability, fault, root};
use crate::adapters::redis::{Unanswered, of_another_call};
use crate::base::digest::hex;
use crate::base::ids::Environment;
use crate::config::Durability;
use crate::ledger::StoreFault;

/// The bytes of the command, the digest of the script, and its keys.
const CALL_BYTES: usize = 112;
/// How long the mark behind what was read stays.
const MARK_SECONDS: u64 = 60;

/// Returns the answer without the digest of its words and of the mark of its call.
fn own(mut told: ScriptReply, mark: CallMark) -> RedisResult<ScriptReply> {
    let last = told.pop();
    // The script can make no other digest. It is for faults: who changes answers on purpose can make it as well.
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    told.iter().for_each(|word| digest.update(word));
    digest.update(&mark);
    match last {
        Some(last) if last == hex(digest.finish().as_ref()).as_bytes() => Ok(told),
        _ => Err(of_another_call()),
    }
}

impl RedisStore {
    fn command(&self, environment: Environment, run: &str, operation: &str, words: &Words) -> (Cmd, CallMark) {
        let knowledge = self.beliefs.as_ref().map(|beliefs| (beliefs.node.as_str(), beliefs.known(environment, run)));
        let (node, (generation, highest)) = knowledge.unwrap_or_default();
        let mark = self.calls.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        let head = ScriptHead {
            mark,
            clock: self.clock.as_ref().map(|clock| clock.now().as_microsecond()),
            told: self.told(environment),
            expected: self.pace(environment).expected(),
            node,
            generation: &generation,
            highest,
            run,
        };
        let (head, (count, bytes)) = (head.packed(), words.size());
        let bytes = [bytes, operation.len(), head.len(), CALL_BYTES].into_iter().fold(0, usize::saturating_add);
        let mut command = Cmd::with_capacity(count.saturating_add(7), bytes);
        command.arg("EVALSHA").arg(self.script.get_hash());
        if self.shards.of(environment).is_in_cluster() {
            // INVARIANT: while a slot moves, a cluster refuses a call that names a key which is not here, also one that does
            // not check what scripts read. A record at the other shard would look there as if it never was.
            command.arg(2).arg(root(environment)).arg(format!("{}:none", root(environment)));
        } else {
            command.arg(1).arg(root(environment));
        }
        command.arg(operation).arg(head);
        for word in words.all() {
            command.arg(word);
        }
        (command, mark)
    }

    pub(super) async fn ask(
        &self,
        environment: Environment,
        operation: &str,
        words: &Words,
    ) -> Result<ScriptReply, Unanswered> {
        let asked = async |mut connection: MultiplexedConnection, run: &str| {
            let (command, mark) = self.command(environment, run, operation, words);
            let answer = match command.query_async(&mut connection).await {
                Err(error) if error.kind() == NO_SCRIPT => {
                    self.script.load_async(&mut connection).await?;
                    command.query_async(&mut connection).await
                }
                answer => answer,
            };
            own(answer?, mark)
        };
        let mends = self.mends(environment);
        self.heeded((environment, mends), self.shards.of(environment).ask(asked).await)
    }

    /// Returns how often this node had the store mended.
    fn mends(&self, environment: Environment) -> u64 {
        self.beliefs.as_ref().map_or(0, |beliefs| beliefs.at(environment).mends)
    }

    /// Notes what an answer says of the store, if it was asked since it was mended for the last time.
    fn heeded<T>(&self, asked: (Environment, u64), answer: Result<T, Unanswered>) -> Result<T, Unanswered> {
        match answer {
            Err(Unanswered::Refused(code, told)) if code == DAMAGED => {
                let (behind, why) = told.split_once(' ').unwrap_or(("-", &told));
                let (environment, mends) = asked;
                let belief = self.beliefs.as_ref().map(|beliefs| beliefs.at(environment));
                if let Some(mut belief) = belief.filter(|belief| belief.mends == mends) {
                    let found = FoundDamage { behind: behind.to_owned(), why: why.to_owned() };
                    // One that is known waits for its turn.
                    if belief.damage.replace(found).is_none() {
                        self.doubted.notify_one();
                    }
                }
                Err(Unanswered::Refused(code, why.to_owned()))
            }
            Err(Unanswered::Refused(code, why)) => {
                if code == OTHER {
                    self.doubted.notify_one();
                }
                Err(Unanswered::Refused(code, why))
            }
            answer => answer,
        }
    }

    /// Sends a commit, and waits for the demanded durability.
    pub(super) async fn ask_surely(&self, environment: Environment, words: &Words) -> Result<ScriptReply, Unanswered> {
        let Some(sure) = self.sure(environment) else { return self.ask(environment, "commit", words).await };
        let asked = async |connection, run: &str| {
            let (command, mark) = self.command(environment, run, "commit", words);
            let (told, counted) = sure.ask(connection, &self.script, &command).await?;
            Ok((own(told, mark)?, counted))
        };
        let mends = self.mends(environment);
        let (answer, counted) =
            self.heeded((environment, mends), self.shards.of(environment).ask_alone(asked).await)?;
        let is_done = answer.first().is_some_and(|word| word == b"done");
        match counted {
            Err(why) if is_done => Err(Unanswered::Lost(format!("the commit is made, but {why}"))),
            Ok(()) | Err(_) => Ok(answer),
        }
    }

    /// Reads what must be as durable as a commit. Returns why it is not, if so: a failover could undo it. The operation
    /// takes the seconds of the mark as its last word.
    pub(super) async fn look_surely(
        &self,
        environment: Environment,
        operation: &str,
        words: Words,
    ) -> Result<(ScriptReply, Result<(), StoreFault>), StoreFault> {
        let Some(sure) = self.sure(environment) else {
            return Ok((self.look(environment, operation, &words).await?, Ok(())));
        };
        let words = words.number(MARK_SECONDS);
        let asked = async |connection, run: &str| {
            let (command, mark) = self.command(environment, run, operation, &words);
            let (told, counted) = sure.ask(connection, &self.script, &command).await?;
            Ok((own(told, mark)?, counted))
        };
        let mends = self.mends(environment);
        let read = self.heeded((environment, mends), self.shards.of(environment).ask_alone(asked).await);
        let (answer, counted) = read.map_err(|unanswered| fault(unanswered, StoreFault::Away))?;
        let is_durable = counted.map_err(|why| StoreFault::Away(format!("what was read may be undone: it is {why}")));
        Ok((answer, is_durable))
    }

    /// Returns the wait that the demanded durability needs, if it needs one.
    fn sure(&self, environment: Environment) -> Option<durability::Sure> {
        let redis = self.shards.of(environment);
        let durability = redis.demands().map_or(Durability::Acknowledged, |demands| demands.durability);
        durability::wait(durability, redis.deadline())
    }

    pub(super) async fn look(
        &self,
        environment: Environment,
        operation: &str,
        words: &Words,
    ) -> Result<ScriptReply, StoreFault> {
        self.ask(environment, operation, words).await.map_err(|unanswered| fault(unanswered, StoreFault::Away))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_changed_on_the_way_is_believed_by_none() {
        let mark = *b"one call";
        let words: ScriptReply = [&b"done"[..], b"17", b"1800000000000000"].map(<[u8]>::to_vec).to_vec();
        let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        digest.update(&words.concat());
        digest.update(&mark);
        let answer: ScriptReply = words.iter().cloned().chain([hex(digest.finish().as_ref()).into_bytes()]).collect();
        assert_eq!(own(answer.clone(), mark).unwrap(), words);
        assert!(
            own(answer.clone(), *b"two call").is_err() && own(words, mark).is_err() && own(Vec::new(), mark).is_err()
        );
        for (word, byte) in
            answer.iter().enumerate().flat_map(|(word, bytes)| (0..bytes.len()).map(move |at| (word, at)))
        {
            for bit in 0..8 {
                let mut changed = answer.clone();
                changed[word][byte] ^= 1 << bit;
                assert!(own(changed, mark).is_err(), "bit {bit} of byte {byte} of word {word}");
            }
        }
    }
}
