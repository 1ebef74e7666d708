//! The sockets: hyper for what is HTTP, the bare stream for what a fault makes of it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Simulator;
use super::call::Head;
use super::control;
use super::faults::{Delivery, Then, plain};
use super::refusal::Refusal;

/// The longest body that the simulator reads.
const BODY_LIMIT: usize = 8 << 20;
/// A pause before a reset, so that the other side can read what was written before it.
const BEFORE_RESET: Duration = Duration::from_millis(20);

/// Accepts until it is dropped; its connections end with it.
pub(super) async fn serve(simulator: Arc<Simulator>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(Arc::clone(&simulator), stream));
                }
                // Too many open files, most likely: others will close.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// What a fault wants of the connection instead of an answer.
#[derive(Debug)]
struct Ending {
    bytes: Vec<u8>,
    then: Then,
}

async fn connection(simulator: Arc<Simulator>, stream: TcpStream) {
    // A connection that breaks is the other side's affair, or a fault's.
    drop(stream.set_nodelay(true));
    let Ok((stream, twin)) = twins(stream) else { return };
    let (endings, mut wanted) = mpsc::channel::<Ending>(1);
    let service = service_fn(move |request| {
        let (simulator, endings) = (Arc::clone(&simulator), endings.clone());
        async move { Ok::<_, Infallible>(exchange(&simulator, request, &endings).await) }
    });
    let http = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let ending = tokio::select! {
        _served = http => None,
        ending = wanted.recv() => ending,
    };
    // hyper and its half of the socket are gone here; the twin still holds it open.
    if let Some(ending) = ending {
        drop(end(twin, ending).await);
    }
}

/// Two handles of one socket.
fn twins(stream: TcpStream) -> io::Result<(TcpStream, TcpStream)> {
    let stream = stream.into_std()?;
    let twin = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, TcpStream::from_std(twin)?))
}

async fn end(mut stream: TcpStream, ending: Ending) -> io::Result<()> {
    stream.write_all(&ending.bytes).await?;
    match ending.then {
        Then::Reset => {
            if !ending.bytes.is_empty() {
                tokio::time::sleep(BEFORE_RESET).await;
            }
            SockRef::from(&stream).set_linger(Some(Duration::ZERO))
        }
        Then::Close => stream.shutdown().await,
        Then::Silence => until_left(&mut stream).await,
    }
}

/// Holds the connection until the other side leaves.
async fn until_left(stream: &mut TcpStream) -> io::Result<()> {
    let mut ignored = [0_u8; 1024];
    while stream.read(&mut ignored).await? > 0 {}
    Ok(())
}

async fn exchange(
    simulator: &Simulator,
    request: Request<Incoming>,
    endings: &mpsc::Sender<Ending>,
) -> Response<Full<Bytes>> {
    match delivery(simulator, request).await {
        Delivery::Http { status, headers, body } => response(status, &headers, body),
        Delivery::Wire { bytes, then } => {
            // The connection takes over and drops this exchange.
            drop(endings.send(Ending { bytes, then }).await);
            std::future::pending().await
        }
    }
}

async fn delivery(simulator: &Simulator, request: Request<Incoming>) -> Delivery {
    let (parts, incoming) = request.into_parts();
    let head = head_of(&parts);
    if control::is_control(&head) {
        return match read(incoming).await {
            Ok(body) => plain(&control::answer(simulator, &head, &body)),
            Err(refusal) => plain(&refusal.answer(None)),
        };
    }
    let (operation, strike) = simulator.strike(&head);
    let body = match strike.reads_body() {
        true => match read(incoming).await {
            Ok(body) => Some(body),
            Err(refusal) => return plain(&refusal.answer(operation.as_deref())),
        },
        false => None,
    };
    let wait = simulator.latency().saturating_add(strike.delay());
    let delivery = simulator.deliver(&head, operation, body.as_deref(), strike);
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    delivery
}

fn head_of(parts: &http::request::Parts) -> Head {
    let headers = parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    let target = parts.uri.path_and_query().map_or_else(|| parts.uri.to_string(), ToString::to_string);
    Head { method: parts.method.clone(), target, headers: headers.collect() }
}

/// A body that ends too early has nobody left to be told; it is refused like one that is no JSON.
async fn read(incoming: Incoming) -> Result<Bytes, Refusal> {
    match Limited::new(incoming, BODY_LIMIT).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::TooLarge),
        Err(_) => Err(Refusal::violation("", "body", "a body that arrives whole")),
    }
}

/// A status or header that HTTP does not know (a fault may ask for one) becomes a bare 500.
fn response(status: u16, headers: &[(&'static str, String)], body: Vec<u8>) -> Response<Full<Bytes>> {
    let builder = Response::builder().status(status);
    let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, value));
    builder.body(Full::new(Bytes::from(body))).unwrap_or_else(|_| {
        let mut bare = Response::new(Full::new(Bytes::new()));
        *bare.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        bare
    })
}

#[cfg(test)]
mod tests;
