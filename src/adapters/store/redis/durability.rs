//! Confirms that a write is durable: directly after it, the Redis reports how many replicas or disks have it.

use std::time::Duration;

use ::redis::aio::{ConnectionLike as _, MultiplexedConnection};
use ::redis::{Cmd, FromRedisValue as _, RedisError, RedisResult, Script, Value};

use super::{NO_SCRIPT, ScriptReply};
use crate::config::Durability;

/// The `WAIT` or `WAITAOF` that follows a write on the same connection.
#[derive(Debug)]
pub(super) struct Sure {
    wait: Cmd,
    durability: Durability,
}

/// Returns the wait that a durability demands; `None` if the primary's confirmation is enough.
pub(super) fn wait(durability: Durability, deadline: Duration) -> Option<Sure> {
    // The count must arrive before the caller's deadline.
    let millis = u64::try_from((deadline * 3 / 4).as_millis()).unwrap_or(u64::MAX).max(1);
    let wait = match durability {
        Durability::Acknowledged => return None,
        Durability::Replicated { replicas } => ::redis::cmd("WAIT").arg(replicas).arg(millis).to_owned(),
        Durability::Fsynced => ::redis::cmd("WAITAOF").arg(1).arg(0).arg(millis).to_owned(),
    };
    Some(Sure { wait, durability })
}

impl Sure {
    /// Sends both in one round trip; returns the script's answer, and why the write is not durable, if so.
    pub async fn ask(
        &self,
        mut connection: MultiplexedConnection,
        script: &Script,
        command: &Cmd,
    ) -> RedisResult<(ScriptReply, Result<(), String>)> {
        self.ask_all(&mut connection, script, &[command]).await
    }

    /// Reads, and waits until what was read is as durable as a commit; returns the script's answer, and why it is not, if so.
    /// The wait counts from the last write of its connection: `mark` is one behind what is read.
    pub async fn read(
        &self,
        mut connection: MultiplexedConnection,
        script: &Script,
        command: &Cmd,
        mark: &Cmd,
    ) -> RedisResult<(ScriptReply, Result<(), String>)> {
        self.ask_all(&mut connection, script, &[command, mark]).await
    }

    async fn ask_all(
        &self,
        connection: &mut MultiplexedConnection,
        script: &Script,
        commands: &[&Cmd],
    ) -> RedisResult<(ScriptReply, Result<(), String>)> {
        match self.once(connection, commands).await {
            Err(error) if error.kind() == NO_SCRIPT => {
                script.load_async(connection).await?;
                self.once(connection, commands).await
            }
            answer => answer,
        }
    }

    /// Returns the answer to the first command.
    async fn once(
        &self,
        connection: &mut MultiplexedConnection,
        commands: &[&Cmd],
    ) -> RedisResult<(ScriptReply, Result<(), String>)> {
        let mut all = ::redis::pipe();
        for command in commands.iter().copied().chain([&self.wait]) {
            all.add_command(command.clone());
        }
        let mut answers = connection.req_packed_commands(&all, 0, commands.len().saturating_add(1)).await?.into_iter();
        let mut next = || answers.next().unwrap_or(Value::Nil).extract_error();
        let told = ScriptReply::from_redis_value(next()?)?;
        let rest = commands.iter().skip(1).try_for_each(|_| next().map(drop));
        let counted = rest.and_then(|()| next()).and_then(|counted| self.compare(counted));
        Ok((told, counted.unwrap_or_else(|error| Err(why(&error)))))
    }

    /// Compares the count with the demanded one.
    fn compare(&self, counted: Value) -> RedisResult<Result<(), String>> {
        Ok(match self.durability {
            Durability::Acknowledged => Ok(()),
            Durability::Replicated { replicas } => {
                let count = u64::from_redis_value(counted)?;
                let lacks = || format!("the commit is made, but on {count} replicas instead of {replicas}");
                if count >= replicas { Ok(()) } else { Err(lacks()) }
            }
            Durability::Fsynced => {
                let (local, _): (u64, u64) = <(u64, u64)>::from_redis_value(counted)?;
                if local >= 1 { Ok(()) } else { Err("the commit is made, but not on the disk of the Redis".to_owned()) }
            }
        })
    }
}

fn why(error: &RedisError) -> String {
    format!("the commit is made, but the Redis did not report its replicas: {:?}", error.kind())
}
