//! Many at once: slow ones hurt nobody else, large and malformed bodies take no more memory than is theirs.
//!
//! The long version, with figures, is `tests/tools/hostile.py`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{OPEN, descriptors_at_rest, wait_for_rest, wait_until};
use crate::support::shape::ID;
use crate::support::{Act, Call, Caller, Gate, Setup, Upstream, get, post};

const KIB: u64 = 1024;

fn update() -> Call {
    post(format!("/v2/users/{ID}"))
}

/// One who dawdles.
struct Slow {
    socket: TcpStream,
    /// Sends, or reads, one byte at a time.
    sends: bool,
}

impl Slow {
    fn start(gate: &Gate, kind: usize) -> Slow {
        let mut socket = TcpStream::connect(gate.production()).unwrap();
        let first = match kind % 3 {
            0 => b"GET /v2/users HTTP/1.1\r\nHost: g\r\nX-A: ".to_vec(),
            1 => update().json(vec![b' '; 100_000]).head_bytes(),
            _ => get("/v2/offramps").bytes(),
        };
        socket.write_all(&first).unwrap();
        socket.set_nonblocking(true).unwrap();
        Slow { socket, sends: kind % 3 != 2 }
    }

    fn move_on(&mut self) {
        // What comes of it is for the gate to say: its own count of connections is what is waited for.
        let moved = if self.sends { self.socket.write(b"a") } else { self.socket.read(&mut [0]) };
        drop(moved);
    }
}

fn heads_cut(gate: &Gate) -> u64 {
    gate.metric(r#"sluice_unreadable_requests_total{listener="production",reason="head_slow"}"#)
}

fn bodies_cut(gate: &Gate) -> u64 {
    let labels = r#"code="REQUEST_TIMEOUT",environment="production",operation="updateUser",origin="gateway""#;
    gate.metric(&format!(r#"sluice_requests_total{{{labels},outcome="not-executed",status="408"}}"#))
}

#[test]
fn slow_ones_are_cut_while_good_ones_go_on() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream)
        .timeout_ms("head_ms", 4000)
        .timeout_ms("body_ms", 4000)
        .timeout_ms("client_write_ms", 4000)
        .timeout_ms("drain_ms", 200)
        .start();
    let base = descriptors_at_rest(&gate, &upstream);
    let large = Act::json(200, vec![b' '; 2 << 20]);
    for _ in 0..66 {
        upstream.next(large.clone());
    }
    let mut slow: Vec<Slow> = (0..66).map(|_| Slow::start(&gate, 2)).collect();
    upstream.wait_for(65);
    slow.extend((0..134).map(|at| Slow::start(&gate, at % 2)));
    let over = AtomicBool::new(false);
    let good = std::thread::scope(|scope| {
        let (over, gate) = (&over, &gate);
        let callers: Vec<_> = [get("/v2/users"), update().json("{}")]
            .into_iter()
            .map(|call| {
                scope.spawn(move || {
                    let mut caller = Caller::connect(gate.production());
                    let mut answered = 0;
                    while !over.load(Ordering::SeqCst) {
                        let answer = call.over(&mut caller);
                        assert_eq!(answer.status, 200);
                        answered += 1;
                        if answer.header("connection").as_deref() == Some("close") {
                            caller = Caller::connect(gate.production());
                        }
                    }
                    answered
                })
            })
            .collect();
        wait_until("all slow ones to be cut", || {
            slow.iter_mut().for_each(Slow::move_on);
            std::thread::park_timeout(Duration::from_millis(40));
            heads_cut(gate) == 67 && bodies_cut(gate) == 67 && gate.metric(OPEN) == 2
        });
        over.store(true, Ordering::SeqCst);
        callers.into_iter().map(|caller| caller.join().unwrap()).sum::<usize>()
    });
    assert!(good > 10, "{good}");
    drop(slow);
    wait_for_rest(&gate, &upstream, base);
}

/// A figure of the process in KiB.
pub(super) fn memory(gate: &Gate, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.process())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// Forgets the peak so far, and says what is held now.
pub(super) fn rest(gate: &Gate) -> u64 {
    std::fs::write(format!("/proc/{}/clear_refs", gate.process()), "5").unwrap();
    memory(gate, "VmRSS")
}

#[test]
fn sixty_four_bodies_of_16_mib_take_the_room_of_64_limits() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    assert_eq!(update().json("{}").send(gate.production()).status, 200);
    let base = rest(&gate);
    let body = vec![b' '; 16 << 20];
    for call in [update().json(&body), update().chunked(&body, 64 << 10)] {
        let bytes = call.bytes();
        std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    let mut caller = Caller::connect(gate.production());
                    drop(caller.try_send(&bytes));
                    if let Ok(answer) = caller.try_answer() {
                        assert!(matches!(answer.status, 413 | 503), "{answer}");
                    }
                });
            }
        });
    }
    // The allocator rounds up what it gives.
    let (peak, most) = (memory(&gate, "VmHWM"), base + 64 * (1024 + 512));
    assert!(peak <= most, "{peak} KiB, at most {most}; at rest {base}");
    assert!(upstream.seen().len() == 1);
}

#[test]
fn malformed_bodies_leave_nothing_behind() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let rows: Vec<Call> = vec![
        update().json("{"),
        update().json(r#"{"a":1,"a":2}"#),
        update().json(b"{\"a\":\"\xff\"}"),
        update().json("[".repeat(5000)),
        update().json("1".repeat(5000)),
        update().json("{} {}"),
        update().chunked("nonsense", 3),
        update().json(format!("{{\"{}\":", "a".repeat(50_000))),
    ];
    let round = || {
        let mut caller = Caller::connect(gate.production());
        for call in &rows {
            let answer = call.over(&mut caller);
            assert_eq!(answer.status, 400, "{answer}");
            if answer.header("connection").as_deref() == Some("close") {
                caller = Caller::connect(gate.production());
            }
        }
    };
    (0..20).for_each(|_| round());
    let base = rest(&gate);
    (0..200).for_each(|_| round());
    let grown = memory(&gate, "VmHWM").saturating_sub(base);
    assert!(grown <= 32 * KIB, "{grown} KiB");
    assert!(upstream.seen().is_empty());
}
