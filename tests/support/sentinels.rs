//! Real Sentinels of a test's own, which watch a Redis and its replicas.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use super::clock::wait_until;
use super::redis::{Redis, answer, answer_in, answer_to, connect, free_port};

/// What they call the Redis.
pub const MASTER: &str = "sluice";

const WATCHER: &str = "watcher";
/// A user of the Redis, and its password.
pub const GATE: [&str; 2] = ["gate", "of-the-gates"];

#[derive(Debug)]
pub struct Sentinels {
    /// The first is the primary at the beginning.
    pub all: Vec<Redis>,
    sentinels: Vec<Sentinel>,
}

#[derive(Debug)]
pub struct Sentinel {
    port: u16,
    child: Child,
    /// A connection that stays, whatever the password is.
    admin: OnceLock<TcpStream>,
    _folder: TempDir,
}

impl Sentinels {
    /// Three of them; a Redis with so many replicas, all kept on disk; returns when all know of each other.
    pub fn start(replicas: usize) -> Sentinels {
        let primary = Redis::start_kept();
        let of = format!("127.0.0.1 {}", primary.port());
        let kept = ["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"];
        let replica = |_| Redis::start_with(&[&kept[..], &["--replicaof", &of]].concat());
        let mut all: Vec<Redis> = (0..replicas).map(replica).collect();
        all.insert(0, primary);
        let linked = || all[0].ask(&["INFO", "replication"]).concat().matches("state=online").count();
        wait_until("the replicas", || linked() == replicas);
        // They log in, so that a test can cut them off from one Redis, and nobody else.
        for redis in &all {
            redis.ask(&["ACL", "SETUSER", GATE[0], "on", &format!(">{}", GATE[1]), "~*", "&*", "+@all"]);
            redis.ask(&["ACL", "SETUSER", WATCHER, "on", ">of-the-sentinels", "~*", "&*", "+@all"]);
        }
        let login =
            [format!("sentinel auth-user {MASTER} {WATCHER}"), format!("sentinel auth-pass {MASTER} of-the-sentinels")];
        let login: Vec<&str> = login.iter().map(String::as_str).collect();
        let sentinels = (0..3).map(|_| Sentinel::start(all[0].port(), &login)).collect();
        let sentinels = Sentinels { all, sentinels };
        for sentinel in &sentinels.sentinels {
            let knows =
                || sentinel.says("num-slaves") == replicas.to_string() && sentinel.says("num-other-sentinels") == "2";
            wait_until("the Sentinels to know of each other", knows);
        }
        sentinels
    }

    /// As the setting has them.
    pub fn addresses(&self) -> String {
        let addresses: Vec<_> = self.sentinels.iter().map(|one| format!("\"127.0.0.1:{}\"", one.port)).collect();
        format!("[{}]", addresses.join(", "))
    }

    /// The port of one of them.
    pub fn port(&self, at: usize) -> u16 {
        self.sentinels[at].port
    }

    /// None of them reaches the first Redis from now on; whoever logs in as [`GATE`] does.
    pub fn split(&self) {
        self.all[0].ask(&["ACL", "SETUSER", WATCHER, "off"]);
        self.all[0].ask(&["CLIENT", "KILL", "USER", WATCHER]);
        // Without a login they would be served, too; gates log in.
        self.all[0].ask(&["ACL", "SETUSER", "default", "off"]);
    }

    /// Takes the split back.
    pub fn heal(&self) {
        answer_to(GATE, self.all[0].port(), &["ACL", "SETUSER", "default", "on"]).unwrap();
        self.all[0].ask(&["ACL", "SETUSER", WATCHER, "on"]);
    }

    /// One of them accepts this password from now on, and asks everybody for it anew.
    pub fn accept(&self, at: usize, password: &str) {
        let stream = self.sentinels[at].admin.get_or_init(|| connect(self.sentinels[at].port).unwrap());
        let rules = ["ACL", "SETUSER", "default", "resetpass", &format!(">{password}")];
        for words in [rules.as_slice(), &["CLIENT", "KILL", "TYPE", "normal"]] {
            answer_in(stream, words).unwrap();
        }
    }

    /// The port of the Redis that this one of them names now.
    pub fn named(&self, at: usize) -> u16 {
        let told = answer(self.sentinels[at].port, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]);
        told.unwrap()[1].parse().unwrap()
    }
}

impl Sentinel {
    /// With these lines in its file besides.
    pub fn start(watched: u16, lines: &[&str]) -> Sentinel {
        Sentinel::listen(watched, lines, false)
    }

    /// Behind TLS, as what it watches is; no questions can be asked of it here.
    pub fn start_tls(watched: u16, certificate: &str, key: &str) -> Sentinel {
        let files = [("cert", certificate), ("key", key), ("ca-cert", certificate)];
        let files = files.map(|(what, file)| format!("tls-{what}-file {file}"));
        let lines: Vec<&str> =
            files.iter().map(String::as_str).chain(["tls-auth-clients no", "tls-replication yes"]).collect();
        Sentinel::listen(watched, &lines, true)
    }

    fn listen(watched: u16, lines: &[&str], is_tls: bool) -> Sentinel {
        loop {
            let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
            let file = folder.path().join("sentinel.conf");
            let listen = if is_tls { format!("port 0\ntls-port {port}") } else { format!("port {port}") };
            let own = format!(
                "{listen}\nbind 127.0.0.1\nsentinel monitor {MASTER} 127.0.0.1 {watched} 2\n\
                 sentinel down-after-milliseconds {MASTER} 500\nsentinel failover-timeout {MASTER} 3000\n"
            );
            std::fs::write(&file, format!("{own}{}\n", lines.join("\n"))).unwrap();
            let mut command = Command::new("redis-sentinel");
            let command = command.arg(&file).current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
            let mut child = command.spawn().expect("redis-sentinel is missing");
            // A port that was free may be taken by now.
            let mut is_taken = false;
            wait_until("a Sentinel", || {
                is_taken = child.try_wait().unwrap().is_some();
                is_taken
                    || if is_tls {
                        TcpStream::connect(("127.0.0.1", port)).is_ok()
                    } else {
                        answer(port, &["PING"]).is_some()
                    }
            });
            if !is_taken {
                return Sentinel { port, child, admin: OnceLock::new(), _folder: folder };
            }
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// A field of what it knows of the Redis.
    fn says(&self, field: &str) -> String {
        let said = answer(self.port, &["SENTINEL", "MASTER", MASTER]).unwrap_or_default();
        let at = said.iter().position(|word| word == field);
        at.and_then(|at| said.get(at + 1)).cloned().unwrap_or_default()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
