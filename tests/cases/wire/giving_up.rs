//! A request that is given up never arrives whole, however long its bytes were on their way.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use super::{ANSWER_MS, told};
use crate::support::clock::PATIENCE;
use crate::support::shape::ID;
use crate::support::{Call, Setup, post};

/// A listener whose connections take a few hundred bytes before they are read.
fn narrow() -> (Socket, String) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(1).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(16).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap().as_socket().unwrap());
    (socket, url)
}

/// A call that the kernel takes whole, and that such a listener's does not.
fn longer_than_the_window() -> Call {
    post(format!("/v2/users/{ID}")).json(format!(r#"{{"a":"{}"}}"#, "x".repeat(12_000)))
}

/// Reads all that ever comes; whether it ended with a reset.
fn rest(mut stream: TcpStream) -> (Vec<u8>, bool) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return (all, false),
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(error) => return (all, error.kind() == std::io::ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn bytes_that_stay_queued_are_dropped_when_the_answer_is_given_up() {
    let (listener, url) = narrow();
    let gate = Setup::new().environment("production", &url).timeout_ms("answer_ms", ANSWER_MS).start();
    let calling = std::thread::scope(|scope| {
        let calling = scope.spawn(|| longer_than_the_window().send(gate.production()));
        let (first, _) = listener.accept().unwrap();
        let answer = calling.join().unwrap();
        (answer, TcpStream::from(first))
    });
    let (answer, stream) = calling;
    assert_eq!(told(&answer), (504, "OUTCOME_UNKNOWN".into(), "unknown".into()), "{answer}");
    let (arrived, was_reset) = rest(stream);
    assert!(arrived.len() < 12_000, "{} bytes arrived after the request was given up", arrived.len());
    assert!(was_reset, "upstream saw no reset");
}

#[test]
fn a_killed_gate_leaves_nothing_queued() {
    let (listener, url) = narrow();
    let gate = Setup::new().environment("production", &url).start();
    let mut caller = crate::support::Caller::connect(gate.production());
    caller.send(longer_than_the_window().bytes());
    let mut stream = TcpStream::from(listener.accept().unwrap().0);
    let mut first = [0; 1];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut first).unwrap();
    drop(gate.kill());
    let (arrived, _) = rest(stream);
    assert!(arrived.len() < 12_000, "{} bytes arrived after the gate died", arrived.len());
}
