//! An upstream that does byte for byte what it is told, and writes down what reached it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::{Domain, Socket, Type};

use super::clock::http_date;
use super::shape::{CATALOG, answering, least_answer};
use super::shared::{Shared, Signal};
use super::wire::{Head, Wire};

/// A request that arrived: whole, unless it broke off in its body.
#[derive(Clone, Debug)]
pub struct Seen {
    pub connection: usize,
    pub head: Head,
    pub body: Vec<u8>,
    pub whole: bool,
}

impl Seen {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Method and target.
    pub fn line(&self) -> &str {
        self.head.first.strip_suffix(" HTTP/1.1").unwrap_or(&self.head.first)
    }
}

/// What is done with one request.
#[derive(Clone, Debug)]
pub struct Act {
    /// Without reading anything of it.
    blind: bool,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Drip(Vec<u8>, Duration),
    /// The least answer that the contract documents for the call, with this status.
    Least(u16),
    /// Until the test gives the signal.
    Await(Signal),
    /// Until the gate goes away.
    Hang,
    /// Until the test ends, without reading what still comes.
    Deaf,
    Reset,
    Close,
}

impl Act {
    /// These bytes, then the next request on the same connection.
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Act {
        Act { blind: false, steps: vec![Step::Send(bytes.as_ref().to_vec())] }
    }

    /// An answer with a length.
    pub fn answer(status: u16, content_type: &str, body: impl AsRef<[u8]>) -> Act {
        Act::bytes(answer(status, &[("Content-Type", content_type)], body.as_ref()))
    }

    pub fn json(status: u16, body: impl AsRef<[u8]>) -> Act {
        Act::answer(status, "application/json", body)
    }

    /// What the call asks for is done: the least record of its operation; `{}` to a read.
    pub fn done(status: u16) -> Act {
        Act { blind: false, steps: vec![Step::Least(status)] }
    }

    /// Says nothing.
    pub fn silence() -> Act {
        Act { blind: false, steps: Vec::new() }
    }

    /// Does not even read the request.
    pub fn blind(self) -> Act {
        Act { blind: true, ..self }
    }

    pub fn is_blind(&self) -> bool {
        self.blind
    }

    pub fn send(self, bytes: impl AsRef<[u8]>) -> Act {
        self.then(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Byte by byte, with a pause before each.
    pub fn drip(self, bytes: impl AsRef<[u8]>, pause: Duration) -> Act {
        self.then(Step::Drip(bytes.as_ref().to_vec(), pause))
    }

    pub fn hang(self) -> Act {
        self.then(Step::Hang)
    }

    pub fn hang_unread(self) -> Act {
        self.then(Step::Deaf)
    }

    pub fn reset(self) -> Act {
        self.then(Step::Reset)
    }

    pub fn close(self) -> Act {
        self.then(Step::Close)
    }

    /// Waits for the signal before all else, the request being read.
    pub fn after(mut self, signal: &Signal) -> Act {
        self.steps.insert(0, Step::Await(signal.clone()));
        self
    }

    /// Goes on when the signal is given.
    pub fn wait(self, signal: &Signal) -> Act {
        self.then(Step::Await(signal.clone()))
    }

    /// The same to a call with this head.
    fn answering(mut self, head: &Head) -> Act {
        for step in &mut self.steps {
            if let Step::Least(status) = step {
                *step = Step::Send(answer(*status, &[("Content-Type", "application/json")], &least(head)));
            }
        }
        self
    }

    fn then(mut self, step: Step) -> Act {
        self.steps.push(step);
        self
    }
}

/// An answer as bytes; the length is added.
pub fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 {status} Status\r\n{lines}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[derive(Debug)]
struct Plan {
    next: Mutex<VecDeque<Act>>,
    otherwise: Mutex<Act>,
    seen: Shared<Seen>,
    connections: AtomicUsize,
    streams: Mutex<Vec<(usize, Weak<TcpStream>)>>,
    /// The connections that are over.
    gone: Shared<usize>,
    ended: AtomicBool,
    over: Signal,
    watcher: Mutex<Option<Watcher>>,
    /// By how many seconds the date is wrong that a `HEAD` is told; `None` where it is told none.
    date: Mutex<Option<i64>>,
    dates_asked: AtomicUsize,
}

/// Told of each head, before anything else of its request is read or answered.
struct Watcher(Box<dyn Fn(&Head) + Send>);

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watcher")
    }
}

/// An address at which nobody listens, and which nobody else can take.
#[derive(Debug)]
pub struct Reserved(Socket);

impl Reserved {
    pub fn new() -> Reserved {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Reserved(socket)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap().as_socket().unwrap())
    }

    /// From now on somebody listens.
    pub fn start(self) -> Upstream {
        self.0.listen(128).unwrap();
        Upstream::on(self.0.into(), None)
    }
}

/// The listening upstream; it ends when it is dropped.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    scheme: &'static str,
    plan: Arc<Plan>,
    accepting: Option<JoinHandle<()>>,
}

impl Upstream {
    /// Answers reads with `{}`, and writes with the least record of theirs, until it is told otherwise.
    pub fn start() -> Upstream {
        Upstream::listen(None)
    }

    /// Behind TLS.
    pub fn start_tls(config: ServerConfig) -> Upstream {
        Upstream::listen(Some(Arc::new(config)))
    }

    fn listen(tls: Option<Arc<ServerConfig>>) -> Upstream {
        Upstream::on(TcpListener::bind("127.0.0.1:0").unwrap(), tls)
    }

    fn on(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> Upstream {
        let plan = Arc::new(Plan {
            next: Mutex::default(),
            otherwise: Mutex::new(Act::done(200)),
            seen: Shared::new(),
            connections: AtomicUsize::new(0),
            streams: Mutex::default(),
            gone: Shared::new(),
            ended: AtomicBool::new(false),
            over: Signal::new(),
            watcher: Mutex::default(),
            date: Mutex::new(Some(0)),
            dates_asked: AtomicUsize::new(0),
        });
        let (address, shared) = (listener.local_addr().unwrap(), plan.clone());
        let scheme = if tls.is_some() { "https" } else { "http" };
        let accepting = std::thread::spawn(move || accept(&listener, &shared, tls.as_ref()));
        Upstream { address, scheme, plan, accepting: Some(accepting) }
    }

    /// What the next request meets, after those that were told before.
    pub fn next(&self, act: Act) -> &Upstream {
        self.plan.next.lock().unwrap().push_back(act);
        self
    }

    /// What every request meets for which nothing else was told.
    pub fn always(&self, act: Act) -> &Upstream {
        *self.plan.otherwise.lock().unwrap() = act;
        self
    }

    /// Runs at each head that arrives, before anything else is done with its request.
    pub fn watch(&self, watcher: impl Fn(&Head) + Send + 'static) -> &Upstream {
        *self.plan.watcher.lock().unwrap() = Some(Watcher(Box::new(watcher)));
        self
    }

    /// By how many seconds the date is wrong that is told to whoever asks for the head of an answer.
    pub fn tells_date(&self, seconds: Option<i64>) -> &Upstream {
        *self.plan.date.lock().unwrap() = seconds;
        self
    }

    /// How often its date was asked for; nothing else is known of these requests.
    pub fn dates_asked(&self) -> usize {
        self.plan.dates_asked.load(Ordering::SeqCst)
    }

    /// Closes every idle connection, and returns when the gate has closed its side.
    pub fn close_idle(&self) -> &Upstream {
        let open: Vec<(usize, Weak<TcpStream>)> = self.plan.streams.lock().unwrap().drain(..).collect();
        for stream in open.iter().filter_map(|(_, stream)| stream.upgrade()) {
            // One that is closed already refuses.
            drop(stream.shutdown(Shutdown::Write));
        }
        let all_gone = |gone: &[usize]| open.iter().all(|(connection, _)| gone.contains(connection)).then_some(());
        self.plan.gone.wait("the gate to close its side", all_gone);
        self
    }

    /// Forgets what was told and has not happened.
    pub fn forget(&self) {
        self.plan.next.lock().unwrap().clear();
    }

    /// Everything that arrived so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.plan.seen.all()
    }

    /// How many calls that move money, or change something else, arrived so far.
    pub fn posts(&self) -> usize {
        self.seen().iter().filter(|seen| seen.line().starts_with("POST ")).count()
    }

    /// The request number `at`, as soon as it is there.
    pub fn wait_for(&self, at: usize) -> Seen {
        self.plan.seen.wait("a request at upstream", |seen| seen.get(at).cloned())
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.plan.connections.load(Ordering::SeqCst)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.plan.ended.store(true, Ordering::SeqCst);
        self.plan.over.give();
        if TcpStream::connect(self.address).is_ok() {
            self.accepting.take().map(JoinHandle::join);
        }
    }
}

fn accept(listener: &TcpListener, plan: &Arc<Plan>, tls: Option<&Arc<ServerConfig>>) {
    for stream in listener.incoming() {
        if plan.ended.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let connection = plan.connections.fetch_add(1, Ordering::SeqCst);
        let (plan, tls) = (plan.clone(), tls.cloned());
        std::thread::spawn(move || {
            // Whatever breaks here is for the gate to notice.
            drop(serve(stream, &plan, tls, connection));
            plan.gone.push(connection);
        });
    }
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

fn serve(tcp: TcpStream, plan: &Plan, tls: Option<Arc<ServerConfig>>, connection: usize) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let control = Arc::new(tcp.try_clone()?);
    plan.streams.lock().unwrap().push((connection, Arc::downgrade(&control)));
    let stream: Box<dyn Stream> = match tls {
        None => Box::new(tcp),
        Some(config) => Box::new(StreamOwned::new(ServerConnection::new(config).map_err(io::Error::other)?, tcp)),
    };
    let mut wire = Wire::new(stream);
    while let Some(act) = turn(&mut wire, &control, plan, connection)? {
        for step in act.steps {
            match step {
                Step::Send(bytes) => {
                    wire.stream().write_all(&bytes)?;
                    wire.stream().flush()?;
                }
                Step::Drip(bytes, pause) => {
                    for byte in bytes {
                        std::thread::park_timeout(pause);
                        wire.stream().write_all(&[byte])?;
                        wire.stream().flush()?;
                    }
                }
                Step::Await(signal) => signal.wait(),
                // A request that was not read names no operation.
                Step::Least(_) => return Ok(()),
                Step::Hang => return wire.read_to_end().map(drop),
                Step::Deaf => {
                    plan.over.wait();
                    return Ok(());
                }
                Step::Close => return Ok(()),
                Step::Reset => return socket2::SockRef::from(&*control).set_linger(Some(Duration::ZERO)),
            }
        }
    }
    Ok(())
}

/// Reads a request and takes what it shall meet; `None` at the end of the connection.
fn turn(
    wire: &mut Wire<Box<dyn Stream>>,
    control: &TcpStream,
    plan: &Plan,
    connection: usize,
) -> io::Result<Option<Act>> {
    // A connection that was opened ahead meets nothing until a request comes; some are not even read.
    if !wire.is_ahead() && control.peek(&mut [0])? > 0 {
        let mut next = plan.next.lock().unwrap();
        if next.front().is_some_and(|act| act.blind) {
            return Ok(next.pop_front());
        }
    }
    let Some(head) = wire.head()? else { return Ok(None) };
    if head.first.starts_with("HEAD ") {
        assert!(head.header("authorization").is_none(), "a question for the date needs no token");
        plan.dates_asked.fetch_add(1, Ordering::SeqCst);
        let date = plan.date.lock().unwrap().map(http_date);
        let headers: Vec<(&str, &str)> = date.iter().map(|date| ("Date", date.as_str())).collect();
        return Ok(Some(Act::bytes(answer(404, &headers, b"")).close()));
    }
    if let Some(Watcher(watch)) = &*plan.watcher.lock().unwrap() {
        watch(&head);
    }
    let body = wire.body(&head, false);
    let act = plan.next.lock().unwrap().pop_front();
    let act = act.unwrap_or_else(|| plan.otherwise.lock().unwrap().clone()).answering(&head);
    let whole = body.is_ok();
    plan.seen.push(Seen { connection, head, body: body.unwrap_or_default(), whole });
    Ok(whole.then_some(act))
}

fn least(head: &Head) -> Vec<u8> {
    let (method, target) = head.first.split_once(' ').unwrap_or_default();
    let target = target.split([' ', '?']).next().unwrap_or_default();
    // Some upstreams have a path before those of the contract.
    let path = target.find("/v2/").map_or(target, |at| &target[at..]);
    let operation =
        method.parse().ok().and_then(|method| CATALOG.find(&method, path).ok()).map(|route| route.operation);
    let operation = operation.filter(|operation| operation.is_write());
    operation.map_or(b"{}".to_vec(), |operation| answering(&operation, path, least_answer(&operation)))
}
