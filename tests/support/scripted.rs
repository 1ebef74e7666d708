//! A server that speaks as a Redis does, and says what it is told to say.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Stands in an answer for the digest of its words and of the mark of its call.
pub const DIGEST: &str = "the-digest-of-the-answer-and-of-the-mark";
/// The bytes of a mark.
const MARK_BYTES: usize = 8;

/// Returns what ends an answer of the store's script: the digest of its words and of the mark of its call.
pub fn digest(words: &str, mark: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{words}{mark}").as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Debug)]
pub struct Scripted {
    address: SocketAddr,
    script: Arc<Script>,
}

#[derive(Debug, Default)]
struct Script {
    answers: Mutex<BTreeMap<String, String>>,
    asked: Mutex<Vec<Vec<String>>>,
}

impl Scripted {
    pub fn start() -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, script) = (listener.local_addr().unwrap(), Arc::<Script>::default());
        let of_listener = Arc::clone(&script);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let script = Arc::clone(&of_listener);
                std::thread::spawn(move || script.serve(stream));
            }
        });
        Scripted { address, script }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// This command is answered with this text.
    pub fn says(&self, command: &str, text: &str) {
        self.answers(command, &format!("${}\r\n{text}\r\n", text.len()));
    }

    /// This command, or the first two words of one, is answered with these bytes; others with `OK`.
    pub fn answers(&self, command: &str, answer: &str) {
        self.script.answers.lock().unwrap().insert(command.to_owned(), answer.to_owned());
    }

    pub fn asked(&self) -> Vec<Vec<String>> {
        self.script.asked.lock().unwrap().clone()
    }
}

impl Script {
    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(words) = words_of(&mut reader) {
            let answers = self.answers.lock().unwrap();
            let first_two = words.get(..2).and_then(|two| answers.get(&two.join(" ")));
            let answer = first_two.or_else(|| answers.get(&words[0])).cloned();
            drop(answers);
            let mut answer = answer.unwrap_or_else(|| default_answer(&words));
            if answer.contains(DIGEST) {
                let mut told = words_of(&mut answer.as_bytes()).unwrap();
                told.pop();
                answer = answer.replace(DIGEST, &digest(&told.concat(), &mark(&words)));
            }
            self.asked.lock().unwrap().push(words);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn default_answer(words: &[String]) -> String {
    match words {
        [ping, word] if ping == "PING" => format!("${}\r\n{word}\r\n", word.len()),
        _ => "+OK\r\n".to_owned(),
    }
}

/// Returns the mark with which a call of the store's script begins.
fn mark(words: &[String]) -> String {
    words.get(5).map(|head| head.chars().take(MARK_BYTES).collect()).unwrap_or_default()
}

fn words_of(reader: &mut impl BufRead) -> Option<Vec<String>> {
    (0..length(reader)?).map(|_| word(reader)).collect()
}

fn word(reader: &mut impl BufRead) -> Option<String> {
    let mut bytes = vec![0; length(reader)? + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(bytes.len() - 2);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn length(reader: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    line.trim_end().get(1..)?.parse().ok()
}
