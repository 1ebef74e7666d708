//! The sockets: hyper serves HTTP; faults use the bare stream.

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
use super::call::CallHead;
use super::control;
use super::delivery::{Delivery, Then, faultless, wire};
use super::refusal::SimulatorRefusal;
use super::triggers;

/// The longest body that the simulator reads.
const BODY_LIMIT: usize = 8 << 20;
/// A pause before a reset, so that the other side can read what was written before it.
const BEFORE_RESET: Duration = Duration::from_millis(20);

/// Accepts connections until it is dropped; they end with it.
pub(super) async fn serve(simulator: Arc<Simulator>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(Arc::clone(&simulator), stream));
                }
                // Probably too many open files: others will close.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The effect of a fault on the connection, in place of an answer.
#[derive(Debug)]
struct SimulatorExit {
    bytes: Vec<u8>,
    /// The pause before each byte.
    pause: Duration,
    then: Then,
}

async fn connection(simulator: Arc<Simulator>, stream: TcpStream) {
    // A connection that breaks is caused by the other side, or by a fault.
    drop(stream.set_nodelay(true));
    let Ok((stream, twin)) = twins(stream) else { return };
    let (endings, mut wanted) = mpsc::channel::<SimulatorExit>(1);
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
    // hyper and its half of the socket are dropped here; the twin still holds the socket open.
    if let Some(ending) = ending {
        drop(end(twin, ending).await);
    }
}

/// Returns two handles of one socket.
fn twins(stream: TcpStream) -> io::Result<(TcpStream, TcpStream)> {
    let stream = stream.into_std()?;
    let twin = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, TcpStream::from_std(twin)?))
}

async fn end(mut stream: TcpStream, ending: SimulatorExit) -> io::Result<()> {
    if ending.pause.is_zero() {
        stream.write_all(&ending.bytes).await?;
    } else {
        for byte in &ending.bytes {
            tokio::time::sleep(ending.pause).await;
            stream.write_all(&[*byte]).await?;
        }
    }
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
    simulator: &Arc<Simulator>,
    request: Request<Incoming>,
    endings: &mpsc::Sender<SimulatorExit>,
) -> Response<Full<Bytes>> {
    match delivery(simulator, request).await {
        Delivery::Http { status, headers, body } => response(status, &headers, body),
        Delivery::Wire { bytes, pause, then } => {
            // The connection takes over and drops this exchange.
            drop(endings.send(SimulatorExit { bytes, pause, then }).await);
            std::future::pending().await
        }
    }
}

async fn delivery(simulator: &Arc<Simulator>, request: Request<Incoming>) -> Delivery {
    let (parts, incoming) = request.into_parts();
    let head = head_of(&parts);
    // It asks for the date alone, which every answer has; no fault meets it.
    if parts.method == http::Method::HEAD {
        return Delivery::Http { status: 404, headers: Vec::new(), body: Vec::new() };
    }
    if control::is_control(&head) {
        return match read_body(incoming).await {
            Ok(body) => faultless(&control::answer(simulator, &head, &body)),
            Err(refusal) => faultless(&refusal.answer(None)),
        };
    }
    let (operation, strike) = simulator.strike(&head);
    let body = match strike.reads_body() {
        true => match read_body(incoming).await {
            Ok(body) => Some(body),
            Err(refusal) => return faultless(&refusal.answer(operation.as_deref())),
        },
        false => None,
    };
    let strike = match &body {
        Some(body) if operation.is_some() => strike.with_trigger(|| triggers::fault_of(body)),
        Some(_) | None => strike,
    };
    if let Some(wait) = strike.late_effect() {
        let simulator = Arc::clone(simulator);
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            simulator.deliver(&head, operation, body.as_deref(), strike);
        });
        return wire(Vec::new(), Then::Close);
    }
    let wait = simulator.latency().saturating_add(strike.delay());
    let delivery = simulator.deliver(&head, operation, body.as_deref(), strike);
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    delivery
}

fn head_of(parts: &http::request::Parts) -> CallHead {
    let headers = parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    let target = parts.uri.path_and_query().map_or_else(|| parts.uri.to_string(), ToString::to_string);
    CallHead { method: parts.method.clone(), target, headers: headers.collect() }
}

/// Reads a body. One that ends early is refused like one that is not JSON; nobody is left to read the refusal.
async fn read_body(incoming: Incoming) -> Result<Bytes, SimulatorRefusal> {
    match Limited::new(incoming, BODY_LIMIT).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(SimulatorRefusal::TooLarge),
        Err(_) => Err(SimulatorRefusal::violation("", "body", "a body that arrives whole")),
    }
}

/// Builds a response. A status or header that is invalid in HTTP (a fault may request one) becomes a bare 500.
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
