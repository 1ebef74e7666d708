//! Checks that the Redis user may call every command that will be needed, before any is.

use ::redis::aio::MultiplexedConnection;
use ::redis::{ErrorKind, RedisError, RedisResult, Script};

use super::fitness::UnfitRedis;
use crate::config::{Demands, Durability};

const SCRIPT: &str = include_str!("permissions.lua");

pub(super) async fn check(
    connection: &mut MultiplexedConnection,
    demands: Demands,
) -> RedisResult<Result<(), UnfitRedis>> {
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
    let is_command =
        |one: &String| one.split(' ').count() <= 2 && one.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    if !missing.iter().all(|one| is_command(one) && one.starts_with(|c: char| c.is_ascii_uppercase())) {
        return Err(RedisError::from((ErrorKind::Parse, "the answer does not name commands")));
    }
    Ok(if missing.is_empty() { Ok(()) } else { Err(UnfitRedis::Denied { what: missing.join(", ") }) })
}

/// Returns what the Redis refused to the user.
pub(super) fn denied(error: RedisError) -> RedisResult<Result<(), UnfitRedis>> {
    if error.code() != Some("NOPERM") {
        return Err(error);
    }
    Ok(Err(UnfitRedis::Denied { what: error.detail().unwrap_or_default().to_owned() }))
}
