//! A gate that takes the place of another: no call is cut off, and none is refused that somebody could take.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use super::claims::{named, pay};
use super::nodes;
use crate::support::clock::wait_until;
use crate::support::{Act, Answer, Caller, Gate, Redis, Setup, Upstream};

/// So many swaps; `SLUICE_SWAPS` asks for more.
fn count() -> usize {
    std::env::var_os("SLUICE_SWAPS").map_or(300, |text| text.to_str().unwrap().parse().unwrap())
}

const CALLERS: usize = 4;

/// Callers who keep their connections, and come again where they are told that these end.
struct Crowd {
    paid: Arc<AtomicUsize>,
    callers: Vec<JoinHandle<BTreeMap<String, usize>>>,
    all: usize,
}

impl Crowd {
    fn start(address: SocketAddr, all: usize) -> Crowd {
        let paid = Arc::new(AtomicUsize::new(0));
        let callers = (0..CALLERS).map(|caller| {
            let paid = paid.clone();
            std::thread::spawn(move || {
                let mut heard = BTreeMap::new();
                let mut connection = Caller::connect(address);
                for at in (caller..all).step_by(CALLERS) {
                    let call = pay(named(&format!("upgrade-{at}")));
                    loop {
                        let answer = call.over(&mut connection);
                        if ends(&answer) {
                            connection = Caller::connect(address);
                        }
                        let what = match answer.status {
                            200 => answer.outcome(),
                            503 if answer.header("retry-after").is_some() => answer.code(),
                            _ => panic!("{answer}"),
                        };
                        *heard.entry(what).or_default() += 1;
                        if answer.status == 200 {
                            break;
                        }
                    }
                    paid.fetch_add(1, Ordering::Relaxed);
                }
                heard
            })
        });
        Crowd { callers: callers.collect(), paid, all }
    }

    /// Until so many hundredths are paid, however slowly, as long as it goes on.
    fn paid(&self, hundredths: usize) {
        let wanted = self.all * hundredths / 100;
        let is_over = || self.callers.iter().any(JoinHandle::is_finished);
        let mut now = self.paid.load(Ordering::Relaxed);
        while now < wanted && !is_over() {
            let before = now;
            wait_until("the crowd to go on", || {
                now = self.paid.load(Ordering::Relaxed);
                now > before || is_over()
            });
        }
    }

    /// All that was heard.
    fn end(self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for caller in self.callers {
            for (what, times) in caller.join().unwrap() {
                *all.entry(what).or_default() += times;
            }
        }
        all
    }
}

fn ends(answer: &Answer) -> bool {
    answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

#[test]
fn gates_on_a_redis_follow_each_other_unnoticed() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    upstream.always(Act::done(200));
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    // A call that a busy machine keeps from the Redis for a second is not what this is about.
    let patient = |setup: Setup| setup.set_raw("redis", "timeout_ms", "10_000");
    let setup = |node: &str| patient(nodes::setup(&upstream, &redis.url(), node)).lend(&socket);
    let first = setup("first").start().ready();
    let crowd = Crowd::start(socket.local_addr().unwrap(), count());
    crowd.paid(20);
    let second = setup("second").start().ready();
    crowd.paid(40);
    first.terminate();
    assert_eq!(first.wait_end().code(), Some(0));
    crowd.paid(60);
    let third = setup("third").start().ready();
    second.terminate();
    assert_eq!(second.wait_end().code(), Some(0));
    assert_eq!(crowd.end(), BTreeMap::from([("executed".to_owned(), count())]));
    assert_eq!(upstream.seen().len(), count());
    third.terminate();
    assert_eq!(third.wait_end().code(), Some(0));
}

/// Both have the same configuration, as the next version of a gate does.
#[test]
fn a_gate_with_a_store_of_its_own_waits_for_the_one_before_it() {
    let upstream = Upstream::start();
    upstream.always(Act::done(200));
    let (socket, folder) = (TcpListener::bind("127.0.0.1:0").unwrap(), tempfile::tempdir().unwrap());
    let kept = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let setup = || Setup::of(&upstream).set("store", "folder", &kept("store")).set("audit", "folder", &kept("audit"));
    let mut gate = setup().lend(&socket).start();
    let crowd = Crowd::start(socket.local_addr().unwrap(), count());
    for hundredths in [30, 60] {
        crowd.paid(hundredths);
        let next = Gate::spawn(setup().lend(&socket));
        next.log.wait("the next gate to wait", |lines| {
            let told = |line: &&serde_json::Value| {
                line["message"].as_str().is_some_and(|message| message.starts_with("another process has the store"))
            };
            lines.iter().find(told).map(|_| ())
        });
        gate.terminate();
        assert_eq!(gate.wait_end().code(), Some(0));
        gate = next.listening();
    }
    let heard = crowd.end();
    assert_eq!(heard["executed"], count(), "{heard:?}");
    assert!(heard.keys().all(|what| ["executed", "DRAINING"].contains(&what.as_str())), "{heard:?}");
    assert_eq!(upstream.seen().len(), count());
}

#[test]
fn a_store_that_stays_taken_is_told() {
    let (upstream, folder) = (Upstream::start(), tempfile::tempdir().unwrap());
    let kept = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let setup = || {
        let setup = Setup::of(&upstream).set("store", "folder", &kept("store")).set("audit", "folder", &kept("audit"));
        setup.set_raw("store", "wait_secs", "0")
    };
    let _gate = setup().start();
    let other = Gate::spawn(setup());
    assert_eq!(other.wait_end().code(), Some(1));
    assert!(other.stderr().contains("in use by another process"), "{}", other.stderr());
}

#[test]
fn a_socket_that_no_setting_names_is_refused() {
    let upstream = Upstream::start();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let gate = Gate::spawn(Setup::of(&upstream).lend(&socket).set("production", "listen", "127.0.0.1:0"));
    assert_eq!(gate.wait_end().code(), Some(1));
    assert!(gate.stderr().contains(&socket.local_addr().unwrap().to_string()), "{}", gate.stderr());
}
