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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::TrustedTraits;

    const DEMANDS: Demands = Demands {
        durability: Durability::Acknowledged,
        allow_unsafe: false,
        trusted: TrustedTraits { persistence: false, eviction: false, run: false },
    };

    /// Returns what is found of a Redis whose script answers so.
    async fn found(answer: &[&str]) -> RedisResult<Result<(), UnfitRedis>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = format!("redis://{}", listener.local_addr().unwrap());
        let bulk = answer.iter().map(|one| format!("${}\r\n{one}\r\n", one.len()));
        let answer = format!("*{}\r\n{}", answer.len(), bulk.collect::<String>());
        let redis = tokio::spawn(async move {
            let mut line = BufReader::new(listener.accept().await.unwrap().0);
            while let Some(words) = command(&mut line).await {
                let said = if words[0] == "EVALSHA" { answer.as_str() } else { "+OK\r\n" };
                line.write_all(said.as_bytes()).await.unwrap();
            }
        });
        let client = ::redis::Client::open(place).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let found = check(&mut connection, DEMANDS).await;
        redis.abort();
        found
    }

    /// Reads a command: its count of words, and each with its length.
    async fn command(line: &mut BufReader<tokio::net::TcpStream>) -> Option<Vec<String>> {
        let mut words = Vec::new();
        for _ in 0..number(line).await? {
            let mut word = vec![0; number(line).await?];
            line.read_exact(&mut word).await.ok()?;
            line.read_exact(&mut [0; 2]).await.ok()?;
            words.push(String::from_utf8(word).unwrap());
        }
        Some(words)
    }

    async fn number(line: &mut BufReader<tokio::net::TcpStream>) -> Option<usize> {
        let mut text = String::new();
        line.read_line(&mut text).await.ok()?;
        text.trim_end().get(1..)?.parse().ok()
    }

    #[tokio::test]
    async fn missing_permissions_are_named_and_nothing_else_is_taken_for_them() {
        assert_eq!(found(&[]).await.unwrap(), Ok(()));
        let what = "TIME, HGET sluice:{production}:n".to_owned();
        let denied = found(&["TIME", "HGET sluice:{production}:n"]).await.unwrap();
        assert_eq!(denied, Err(UnfitRedis::Denied { what }));
        // The answer to another call, or one that was changed on its way: the next connection asks anew.
        for other in ["", "time", "TIME and more", "TIME\u{7}", "1", "TI\u{cd}ME"] {
            let error = found(&["TIME", other]).await.unwrap_err();
            assert_eq!((error.kind(), error.code()), (ErrorKind::Parse, None), "{other:?}");
        }
    }
}
