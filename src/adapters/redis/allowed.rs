//! Whether the user may do all that will be asked of the Redis: found out before anything is.

use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisError, RedisResult, Script};

use super::fitness::Unfit;
use crate::config::{Demands, Durability};

const SCRIPT: &str = include_str!("allowed.lua");

pub(super) async fn check(connection: &mut MultiplexedConnection, demands: Demands) -> RedisResult<Result<(), Unfit>> {
    let script = Script::new(SCRIPT);
    let mut asked = script.prepare_invoke();
    match demands.durability {
        Durability::Acknowledged => {}
        Durability::Replicated { .. } => drop(asked.arg("WAIT")),
        Durability::Fsynced => drop(asked.arg("WAITAOF")),
    }
    let missing: Vec<String> = match asked.invoke_async(connection).await {
        Ok(missing) => missing,
        Err(error) => return denied(error),
    };
    Ok(if missing.is_empty() { Ok(()) } else { Err(Unfit::Denied { what: missing.join(", ") }) })
}

/// What the Redis itself refused to the user.
pub(super) fn denied(error: RedisError) -> RedisResult<Result<(), Unfit>> {
    if error.code() != Some("NOPERM") {
        return Err(error);
    }
    Ok(Err(Unfit::Denied { what: error.detail().unwrap_or_default().to_owned() }))
}
