//! A command that waits for a signature, the page that gives it, and a console that lies.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sluice::base::digest::hex;

use super::signed::Enrolled;
use crate::support::gate::sluice;
use crate::support::soft_key::{SigningPage, SoftKey, encoded, sha256};
use crate::support::{Answer, Call};

/// The second host, under the domain of the passkeys.
pub(super) const PAGE: &str = "https://sign.example.com";

pub(super) fn page() -> SigningPage {
    SigningPage::of("example.com", PAGE)
}

/// Only signatures of the second host count.
pub(super) fn rules(people: &Enrolled) -> String {
    let rules = people.rules();
    let of_console = "origins = [\"https://sluice.example.com\"]";
    assert!(rules.contains(of_console));
    rules.replace(of_console, &format!("origins = [\"{PAGE}\"]"))
}

/// The command, while it waits for a signature.
pub(super) struct Signing {
    child: Child,
    /// The lines before the link.
    pub shown: String,
    listener: SocketAddr,
    secret: String,
}

impl Signing {
    /// Starts a command as a person at a console; fails where it ends before it shows a link.
    pub(super) fn begin(console: SocketAddr, token: &str, words: &[&str]) -> Result<Signing, (i32, String)> {
        let url = format!("http://{console}");
        let mut command = sluice(&[words, &["--page", PAGE, "--console", &url]].concat());
        command.env("SLUICE_TOKEN", token).stdout(Stdio::piped()).stderr(Stdio::piped());
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let child = command.spawn().unwrap();
        let mut signing = Signing { child, shown: String::new(), listener: nowhere, secret: String::new() };
        let mut lines = BufReader::new(signing.child.stdout.as_mut().unwrap());
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).unwrap() == 0 {
                return Err(signing.end());
            }
            if let Some((port, secret)) = line.trim().strip_prefix("http://localhost:").and_then(|l| l.split_once("/#"))
            {
                signing.listener.set_port(port.parse().unwrap());
                signing.secret = secret.to_owned();
                return Ok(signing);
            }
            signing.shown.push_str(&line);
        }
    }

    pub(super) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let host = format!("localhost:{}", self.listener.port());
        let mut call = Call::new(method, path).without("Authorization").without("Host").header("Host", host);
        for (name, value) in headers {
            call = call.without(name).header(name, *value);
        }
        let call = if method == "POST" { call.json(body) } else { call };
        call.send(self.listener)
    }

    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.secret)
    }

    pub(super) fn origin(&self) -> String {
        format!("http://localhost:{}", self.listener.port())
    }

    /// What the page is told.
    pub(super) fn task(&self) -> Value {
        let answer = self.ask("GET", "/task", &[("Authorization", &self.bearer())], "");
        assert_eq!(answer.status, 200, "{answer}");
        answer.json()
    }

    /// What the page signs for this task.
    pub(super) fn challenge(&self) -> Vec<u8> {
        let task = self.task();
        let statements: Vec<&str> =
            task["statements"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
        if let [only] = statements[..] {
            return sha256(only.as_bytes());
        }
        let digests: Vec<String> = statements.iter().map(|statement| hex(&sha256(statement.as_bytes()))).collect();
        sha256(json!({ "digests": digests, "statement": "sluice-votes-1" }).to_string().as_bytes())
    }

    pub(super) fn answer(&self, key: &SoftKey, challenge: &[u8], page: &SigningPage) -> Answer {
        let made = key.sign(challenge, page);
        let body = json!({ "credential": key.credential, "assertion": {
            "authenticatorData": encoded(made.authenticator_data),
            "clientData": encoded(made.client_data),
            "signature": encoded(made.signature),
        }});
        let headers = [("Authorization", self.bearer()), ("Origin", self.origin())];
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.ask("POST", "/answer", &headers, &body.to_string())
    }

    pub(super) fn end(self) -> (i32, String) {
        let (mut child, mut said) = (self.child, String::new());
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (child.wait().unwrap().code().unwrap(), said)
    }
}

/// The true digests of the holds that a lying console showed, by their paths.
type Truth = Mutex<BTreeMap<String, Value>>;
type Alter = dyn Fn(&str, &mut Value) + Send + Sync;

/// A console that changes the JSON that another one answers: `alter` gets the path and the answer. Whatever it showed, it asks
/// the other one for a challenge of what is true.
pub(super) fn lying(console: SocketAddr, alter: impl Fn(&str, &mut Value) + Send + Sync + 'static) -> SocketAddr {
    let (listener, lies) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new((Truth::default(), alter)));
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let lies = Arc::clone(&lies);
            std::thread::spawn(move || pass(stream, console, &lies.0, &lies.1));
        }
    });
    address
}

fn pass(mut stream: TcpStream, console: SocketAddr, truth: &Truth, alter: &Alter) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap() == 0 {
            return;
        }
    }
    let field = |name: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let mut body = vec![0; field("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let call = Call::new(method, path).without("Authorization");
    let call = call.header("Authorization", field("authorization").unwrap());
    let known = path.strip_suffix("/challenge").and_then(|hold| truth.lock().unwrap().get(hold).cloned());
    let body = known.map_or(body, |digests| digests.to_string().into_bytes());
    let answer = if body.is_empty() { call } else { call.json(&body) }.send(console);
    let mut value = answer.json();
    if value.get("fingerprint").is_some() {
        let digests = json!({ "fingerprint": value["fingerprint"], "causes": value["causes"] });
        truth.lock().unwrap().insert(path.to_owned(), digests);
    }
    alter(path, &mut value);
    let (status, text) = (answer.status, value.to_string());
    let head = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    stream.write_all([head.as_bytes(), text.as_bytes()].concat().as_slice()).unwrap();
}

/// Changes a statement, and the challenge to match.
pub(super) fn restate(answer: &mut Value, change: impl FnOnce(&mut Value)) {
    let mut statement: Value = serde_json::from_str(answer["statement"].as_str().unwrap()).unwrap();
    change(&mut statement);
    let statement = statement.to_string();
    answer["challenge"] = json!(encoded(sha256(statement.as_bytes())));
    answer["statement"] = json!(statement);
}
