//! A real Redis of a test's own, killed at its end: without persistence, unless it is asked for.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::clock::{PATIENCE, Watch};
use super::false_clock::FalseClock;
use super::files::copy_folder;
use super::shared::Shared;
use super::tls::Certified;

#[derive(Debug)]
pub struct Redis {
    folder: TempDir,
    port: u16,
    is_tls: bool,
    arguments: Vec<String>,
    clock: Option<FalseClock>,
    child: Option<Child>,
}

impl Redis {
    /// One that is not there yet, on a port that is free.
    pub fn away() -> Redis {
        let (folder, arguments) = (tempfile::tempdir().unwrap(), vec!["--appendonly".to_owned(), "no".to_owned()]);
        Redis { folder, port: free_port(), is_tls: false, arguments, clock: None, child: None }
    }

    /// With these arguments besides.
    pub fn start_with(arguments: &[&str]) -> Redis {
        let mut redis = Redis::away();
        redis.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        redis.come_somewhere();
        redis
    }

    /// With these arguments besides, from the next start on.
    pub fn arguments(&mut self, more: &[&str]) {
        self.arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
    }

    /// One that knows after a kill what it knew before.
    pub fn start_kept() -> Redis {
        Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// One whose clock can be set.
    pub fn start_with_clock(clock: FalseClock) -> Redis {
        let mut redis = Redis::away();
        redis.arguments = ["--appendonly", "yes", "--appendfsync", "always"].map(str::to_owned).to_vec();
        redis.clock = Some(clock);
        redis.come_somewhere();
        redis
    }

    pub fn start() -> Redis {
        let mut redis = Redis::away();
        redis.come_somewhere();
        redis
    }

    /// Behind TLS; no questions can be asked of it here.
    pub fn start_tls(certified: &Certified) -> Redis {
        let mut redis = Redis::away();
        redis.is_tls = true;
        std::fs::write(redis.folder.path().join("certificate.pem"), &certified.certificate).unwrap();
        std::fs::write(redis.folder.path().join("key.pem"), &certified.key).unwrap();
        redis.come_somewhere();
        redis
    }

    /// Starts it, and returns when it answers.
    pub fn come(&mut self) {
        assert!(self.try_come(), "the port of the Redis is taken");
    }

    /// A port that was free may be taken by now.
    fn come_somewhere(&mut self) {
        while !self.try_come() {
            self.port = free_port();
        }
    }

    /// Whether it could start.
    fn try_come(&mut self) -> bool {
        let mut command = Command::new("redis-server");
        let port = self.port.to_string();
        let (plain, tls) = if self.is_tls { ("0", port.as_str()) } else { (port.as_str(), "0") };
        command.args(["--port", plain, "--bind", "127.0.0.1", "--save", ""]).args(&self.arguments);
        command.arg("--dir").arg(self.folder.path()).current_dir(self.folder.path());
        if self.is_tls {
            command.args(["--tls-port", tls, "--tls-cert-file", "certificate.pem", "--tls-key-file", "key.pem"]);
            command.args(["--tls-ca-cert-file", "certificate.pem", "--tls-auth-clients", "no"]);
        }
        command.envs(self.clock.iter().flat_map(FalseClock::variables));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("redis-server is missing");
        let watch = Watch::start();
        // Somebody else's may have come to the same port first.
        let mine = format!("process_id:{}\r", child.id());
        let is_mine = || self.try_ask(&["INFO", "server"]).is_some_and(|told| told.concat().contains(&mine));
        let is_there = || match self.is_tls {
            true => TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
            false => is_mine(),
        };
        while !is_there() {
            assert!(watch.elapsed() < PATIENCE, "waited in vain for the Redis");
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        self.child = Some(child);
        true
    }

    /// Kills it; what it knew is gone.
    pub fn go(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// A copy of what it has on disk, to be put back.
    pub fn copy(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(self.folder.path(), copy.path());
        copy
    }

    /// While it is away.
    pub fn put_back(&self, copy: &TempDir) {
        std::fs::remove_dir_all(self.folder.path()).unwrap();
        copy_folder(copy.path(), self.folder.path());
    }

    /// It stands still, its connections open.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    pub fn thaw(&self) {
        self.signal("CONT");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// A command and its answer, as a list of texts.
    pub fn ask(&self, words: &[&str]) -> Vec<String> {
        self.try_ask(words).expect("an answer of the Redis")
    }

    /// A number of the head of a store, whose keys begin with this root.
    pub fn head(&self, root: &str, field: &str) -> i64 {
        let script = "return string.format('%d', struct.unpack('<d', redis.call('GET', KEYS[1]) or '', ARGV[1] + 1))";
        let told = self.ask(&["EVAL", script, "1", &format!("{root}:a"), &place_in_head(field)]).concat();
        told.trim().parse().unwrap_or_default()
    }

    /// Writes a number of the head, as somebody who can write the store.
    pub fn set_head(&self, root: &str, field: &str, number: i64) {
        self.set_head_and(root, field, number, "", &[]);
    }

    /// The same, and what a script does with other keys, from the second on, in one step.
    pub fn set_head_and(&self, root: &str, field: &str, number: i64, script: &str, keys: &[String]) {
        let script = format!("redis.call('SETRANGE', KEYS[1], ARGV[1], struct.pack('<d', ARGV[2])) {script}");
        let (head, count) = (format!("{root}:a"), (keys.len() + 1).to_string());
        let (place, number) = (place_in_head(field), number.to_string());
        let keys = [head.as_str()].into_iter().chain(keys.iter().map(String::as_str));
        let words = ["EVAL", &script, &count].into_iter().chain(keys).chain([place.as_str(), &number]);
        self.ask(&words.collect::<Vec<_>>());
    }

    /// The id of a store, which stands behind the numbers of its head and its own length.
    pub fn generation(&self, root: &str) -> String {
        let script = "return struct.unpack('<Hc0', redis.call('GET', KEYS[1]), 57)";
        self.ask(&["EVAL", script, "1", &format!("{root}:a")]).concat().trim().to_owned()
    }

    /// Writes an id that is as long as the one before.
    pub fn set_generation(&self, root: &str, id: &str) {
        self.ask(&["SETRANGE", &format!("{root}:a"), "58", id]);
    }

    fn try_ask(&self, words: &[&str]) -> Option<Vec<String>> {
        answer(self.port, words)
    }

    /// All commands that it is asked from now on, a line each, as it tells them itself.
    pub fn monitor(&self) -> Shared<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(b"*1\r\n$7\r\nMONITOR\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        assert_eq!(line(&mut reader).unwrap(), "+OK");
        let lines = Shared::new();
        let told = lines.clone();
        std::thread::spawn(move || {
            while let Some(line) = line(&mut reader) {
                told.push(line);
            }
        });
        lines
    }

    fn signal(&self, name: &str) {
        let process = self.child.as_ref().expect("the Redis runs").id();
        Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status().unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.go();
    }
}

/// What one that listens there answers to a command; nothing if nobody answers.
pub(super) fn answer(port: u16, words: &[&str]) -> Option<Vec<String>> {
    answer_in(&connect(port)?, words)
}

/// What it answers to a user with this password.
pub(super) fn answer_to([user, password]: [&str; 2], port: u16, words: &[&str]) -> Option<Vec<String>> {
    let stream = connect(port)?;
    answer_in(&stream, &["AUTH", user, password])?;
    answer_in(&stream, words)
}

pub(super) fn connect(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

pub(super) fn answer_in(mut stream: &TcpStream, words: &[&str]) -> Option<Vec<String>> {
    let bulk: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    stream.write_all(format!("*{}\r\n{bulk}", words.len()).as_bytes()).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let first = line(&mut reader)?;
    match first.split_at(1) {
        ("*", count) => (0..count.parse::<usize>().ok()?).map(|_| element(&mut reader)).collect(),
        ("$", _) => Some(vec![bulk_of(&first, &mut reader)?]),
        (_, rest) => Some(vec![rest.to_owned()]),
    }
}

/// Where a number of the head begins, in bytes.
fn place_in_head(field: &str) -> String {
    let fields = ["format", "time", "last", "put", "skew", "above", "lost"];
    let nth = fields.iter().position(|one| *one == field).unwrap_or_else(|| panic!("the head has no {field}"));
    (8 * nth).to_string()
}

pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    Some(line.trim_end().to_owned())
}

fn element(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let first = line(reader)?;
    if first.starts_with('$') { bulk_of(&first, reader) } else { Some(first.split_at(1).1.to_owned()) }
}

fn bulk_of(first: &str, reader: &mut BufReader<TcpStream>) -> Option<String> {
    let Ok(length) = first.split_at(1).1.parse::<usize>() else { return Some(String::new()) };
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}
