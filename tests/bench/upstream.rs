//! The upstream of the bench: the same bytes for every GET, and for every other request.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};

use crate::child;
use crate::exchange::Exchange;
use crate::wire::Wire;

#[derive(Debug)]
struct Answers {
    get: Vec<u8>,
    other: Vec<u8>,
}

pub(crate) fn serve() -> anyhow::Result<()> {
    let answers = Arc::new(Answers {
        get: answer(&Exchange::list_offramps()?.answer),
        other: answer(&Exchange::create_swap()?.answer),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        child::announce(listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            let answers = answers.clone();
            tokio::spawn(async move {
                if let Err(error) = one(stream, &answers).await {
                    eprintln!("upstream: {error:#}");
                }
            });
        }
    })
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
        "HTTP/1.1 200 OK\r\nDate: Thu, 01 Aug 2024 09:30:00 GMT\r\nContent-Type: application/json; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: keep-alive\r\nServer: upstream\r\nX-Request-Id: 4f1c9d0e7b\r\n\
         Cache-Control: no-store\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
