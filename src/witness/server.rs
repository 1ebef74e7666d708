//! The HTTP server of a witness.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::keeper::Witness;
use crate::adapters::rate::SharedRoom;
use crate::audit::{KeptCheckpoint, SIZE_TYPE};

/// The longest request.
const MOST_BYTES: usize = 64 * 1024;
/// Connections at the same time. One address alone gets half of them, and however many take all they can, a further one
/// finds a place.
const CONNECTIONS: usize = 512;
/// The deadline of a connection: a gate makes a new one when it needs one.
const CONNECTION_LASTS: Duration = Duration::from_secs(60);
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// Serves until it is dropped.
pub async fn serve(witness: Arc<Witness>, listener: TcpListener) {
    let places = SharedRoom::new(CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (witness, mut place) = (Arc::clone(&witness), places.share_of(peer.ip()));
                if !place.grow(1) {
                    continue;
                }
                tokio::spawn(async move {
                    // A connection that breaks or takes too long is the other side's fault.
                    drop(timeout(CONNECTION_LASTS, connection(witness, stream)).await);
                    drop(place);
                });
            }
            // Probably too many open files: others will close.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(witness: Arc<Witness>, stream: TcpStream) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| {
        let witness = Arc::clone(&witness);
        async move { Ok::<_, Infallible>(answer(witness, request).await) }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(BODY_WITHIN)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer(witness: Arc<Witness>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/add-checkpoint") => added(witness, request.into_body()).await,
        (&Method::GET, "/") => text(200, format!("{}\n", witness.key())),
        (&Method::GET, "/checkpoints") => blocking(move || listed(&witness)).await,
        (_, "/" | "/checkpoints" | "/add-checkpoint") => text(405, "the method is not allowed here\n".to_owned()),
        (&Method::GET, path) if path.ends_with("/checkpoint") => {
            let digest = path.trim_start_matches('/').trim_end_matches("/checkpoint").to_owned();
            blocking(move || match witness.signed_by_digest(&digest) {
                Some(signed) => (200, signed.note.to_string()),
                None => (404, "this witness has signed nothing of that log\n".to_owned()),
            })
            .await
        }
        _ => text(404, "a witness serves `/`, `/checkpoints`, `/DIGEST/checkpoint` and `/add-checkpoint`\n".to_owned()),
    }
}

async fn added(witness: Arc<Witness>, body: Incoming) -> Response<Full<Bytes>> {
    let read = timeout(BODY_WITHIN, Limited::new(body, MOST_BYTES).collect()).await;
    let Ok(Ok(body)) = read else {
        return text(400, format!("the body is longer than {MOST_BYTES} bytes, or did not come in time\n"));
    };
    let Ok(request) = String::from_utf8(body.to_bytes().to_vec()) else {
        return text(400, "the body is not UTF-8\n".to_owned());
    };
    blocking(move || witness.add(&request).to_http()).await
}

/// The last checkpoint of each log, a line each.
fn listed(witness: &Witness) -> (u16, String) {
    let lines = witness.signed().into_iter().map(|checkpoint| KeptCheckpoint { checkpoint, place: None }.to_line());
    match lines.collect::<Result<Vec<_>, _>>() {
        Ok(lines) => (200, lines.iter().map(|line| format!("{line}\n")).collect()),
        Err(_) => (500, "the witness failed\n".to_owned()),
    }
}

/// Answers with status and text; the disk may hang meanwhile.
async fn blocking(work: impl FnOnce() -> (u16, String) + Send + 'static) -> Response<Full<Bytes>> {
    match spawn_blocking(work).await {
        Ok((status, body)) => text(status, body),
        Err(_) => text(500, "the witness failed\n".to_owned()),
    }
}

fn text(status: u16, body: String) -> Response<Full<Bytes>> {
    let kind = if status == 409 { SIZE_TYPE } else { "text/plain; charset=utf-8" };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
