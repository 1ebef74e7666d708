//! The upstream of the bench: the same bytes for every GET, and for every other request.

use std::net::SocketAddr;
use std::sync::Arc;

use sluice::adapters::clock::SystemClock;
use sluice::ports::Clock as _;
use tokio::net::{TcpListener, TcpStream};

use crate::exchange::Exchange;
use crate::wire::Wire;

#[derive(Debug)]
struct Answers {
    get: Vec<u8>,
    other: Vec<u8>,
}

/// Answers on this runtime for as long as it runs.
pub(crate) async fn listen() -> anyhow::Result<SocketAddr> {
    let answers = Arc::new(Answers {
        get: answer(&Exchange::list_offramps()?.answer),
        other: answer(&Exchange::create_swap()?.answer),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answers = answers.clone();
            tokio::spawn(async move {
                if let Err(error) = one(stream, &answers).await {
                    eprintln!("upstream: {error:#}");
                }
            });
        }
    });
    Ok(address)
}

async fn one(stream: TcpStream, answers: &Answers) -> anyhow::Result<()> {
    let mut wire = Wire::new(stream)?;
    while let Some(request) = wire.read().await? {
        let answer = if request.head.starts_with(b"GET ") { &answers.get } else { &answers.other };
        wire.write(answer).await?;
    }
    Ok(())
}

/// A head such as the API's own, before the body.
fn answer(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: keep-alive\r\nServer: upstream\r\nX-Request-Id: 4f1c9d0e7b\r\n\
         Cache-Control: no-store\r\nDate: {}\r\n\r\n",
        body.len(),
        SystemClock.now().strftime("%a, %d %b %Y %H:%M:%S GMT"),
    );
    [head.as_bytes(), body].concat()
}
