//! Whether the Redis refuses writes: each check of a connection sends a write that changes nothing.

use ::redis::aio::MultiplexedConnection;
use ::redis::{ErrorKind, RedisError, RedisResult, Value};

use crate::adapters::random::nonce;
use crate::ledger::WriteRefusal;

/// Returns the cause that an error code of the Redis names; for these codes nothing was written.
pub fn refusal(code: &str) -> Option<WriteRefusal> {
    match code {
        "OOM" => Some(WriteRefusal::Memory),
        "NOREPLICAS" => Some(WriteRefusal::Replicas),
        "READONLY" => Some(WriteRefusal::Replica),
        "MISCONF" => Some(WriteRefusal::Disk),
        _ => None,
    }
}

/// Returns why the Redis refuses writes. `XX` sets a key that exists only, so that nothing is ever written; the Redis
/// refuses it like any other write.
pub(super) async fn check(
    connection: &mut MultiplexedConnection,
    unused_key: &str,
) -> RedisResult<Option<WriteRefusal>> {
    let mut write = ::redis::cmd("SET");
    write.arg(unused_key).arg("").arg("XX");
    match write.query_async::<Value>(connection).await {
        Ok(_) => Ok(None),
        Err(error) => match error.code() {
            // A user without this right is reported by the check of permissions, where the right is needed.
            Some(code) => Ok(refusal(code)),
            None => Err(error),
        },
    }
}

/// Returns the fault of a connection that lost an answer: the next one stands for it. It has no code, so the connection ends.
pub fn of_another_call() -> RedisError {
    RedisError::from((
        ErrorKind::UnexpectedReturnType,
        "the answer is not the one to this call: it belongs to another call, or was changed on its way",
    ))
}

/// Asks whether the Redis answers, and whether the answer is to this question.
pub(super) async fn ping(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let word = nonce().0;
    match ::redis::cmd("PING").arg(&word).query_async::<String>(connection).await {
        Ok(answered) if answered == word => Ok(()),
        Ok(_) => Err(of_another_call()),
        // A Redis that cannot save its data answers so; it still answers queries.
        Err(error) if error.code().and_then(refusal) == Some(WriteRefusal::Disk) => Ok(()),
        Err(error) => Err(error),
    }
}
