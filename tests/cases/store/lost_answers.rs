//! A connection on which an answer was lost: what comes next stands for another call.

use std::time::Duration;

use sluice::adapters::redis::NotReady;
use sluice::adapters::store::redis::RedisStore;

use super::redis::{LONG, begin, config, connected, in_doubt, tries};
use crate::support::clock::PATIENCE;
use crate::support::scripted::{DIGEST, Scripted};

/// Something between the Redis and the gate loses an answer, and goes on: the next answer would stand for the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_to_another_call_is_believed_by_none() {
    let server = Scripted::start();
    server.says("INFO", "redis_version:7.2.4\r\nrole:master\r\nrun_id:a\r\nmaster_replid:b");
    let done = |digest: &str| format!("*4\r\n$4\r\ndone\r\n$1\r\n1\r\n$16\r\n1800000000000000\r\n$40\r\n{digest}\r\n");
    server.answers("EVALSHA", &done(DIGEST));
    let connection = connected(&server.url()).await;
    let mut connections = connection.connections();
    let store = RedisStore::new(connection.clone());
    assert_eq!(tries(&store, "a").await.unwrap().number().as_u64(), 1);
    let another = "0".repeat(DIGEST.len());
    for another in [done(&another), done(&another).replace("*4", "*3")] {
        connections.borrow_and_update();
        server.answers("EVALSHA", &another);
        in_doubt(tries(&store, "a").await);
        // Nothing else on that connection is believed.
        connections.changed().await.unwrap();
        connection.ready_within(PATIENCE).await.unwrap();
    }
    server.says("PING", "another");
    let deaf = begin(&config(&server.url(), LONG)).ready_within(Duration::from_secs(2)).await;
    assert!(matches!(deaf, Err(NotReady::Away)), "{deaf:?}");
}
