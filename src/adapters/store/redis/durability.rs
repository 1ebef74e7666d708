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
        match self.once(&mut connection, command).await {
            Err(error) if error.kind() == NO_SCRIPT => {
                script.load_async(&mut connection).await?;
                self.once(&mut connection, command).await
            }
            answer => answer,
        }
    }

    async fn once(
        &self,
        connection: &mut MultiplexedConnection,
        command: &Cmd,
    ) -> RedisResult<(ScriptReply, Result<(), String>)> {
        let mut both = ::redis::pipe();
        both.add_command(command.clone()).add_command(self.wait.clone());
        let mut answers = connection.req_packed_commands(&both, 0, 2).await?.into_iter();
        let mut next = || answers.next().unwrap_or(Value::Nil).extract_error();
        let told = ScriptReply::from_redis_value(next()?)?;
        let counted = next().and_then(|counted| self.compare(counted)).unwrap_or_else(|error| Err(why(&error)));
        Ok((told, counted))
    }

    /// Compares the count with the demanded one.
    fn compare(&self, counted: Value) -> RedisResult<Result<(), String>> {
        Ok(match self.durability {
            Durability::Acknowledged => Ok(()),
            Durability::Replicated { replicas } => {
                let count = u64::from_redis_value(counted)?;
                let lacks = || format!("on {count} replicas instead of {replicas}");
                if count >= replicas { Ok(()) } else { Err(lacks()) }
            }
            Durability::Fsynced => {
                let (local, _): (u64, u64) = <(u64, u64)>::from_redis_value(counted)?;
                if local >= 1 { Ok(()) } else { Err("not on the disk of the Redis".to_owned()) }
            }
        })
    }
}

fn why(error: &RedisError) -> String {
    format!("on replicas that the Redis did not report ({:?})", error.kind())
}
