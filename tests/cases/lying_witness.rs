//! Witnesses that lie, repeat what they signed, or do not answer: nothing of it counts as a signature, and no payment waits.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::spawn;

use sluice::adapters::audit::SigningKey;
use sluice::audit::{NoteKey, NoteKeyKind, NoteSignature};

use super::audit::run;
use super::claims::{swap, told};
use super::witness::Witness;
use crate::support::between::Between;
use crate::support::clock::wait_until;
use crate::support::files::copy_folder;
use crate::support::gate::sluice;
use crate::support::{Gate, Setup, Upstream};

const NOW: u64 = 1_900_000_000;

/// A key of a witness, and its private one.
#[derive(Clone, Debug)]
struct LiarKey {
    key: NoteKey,
    signing: SigningKey,
}

impl LiarKey {
    fn new(home: &Path, name: &str) -> LiarKey {
        let file = home.join(format!("{name}.pem"));
        assert!(sluice(&["audit", "key", file.to_str().unwrap()]).output().unwrap().status.success());
        let signing = SigningKey::of_pem(&fs::read(file).unwrap()).unwrap();
        LiarKey { key: signing.named(name, NoteKeyKind::Witness).unwrap(), signing }
    }

    fn sign(&self, text: &str) -> NoteSignature {
        self.signing.sign(&self.key, text, NOW)
    }
}

/// The answer of a liar to a checkpoint, by its text: a status and a body, or nothing for good.
type Lie = Arc<dyn Fn(&str) -> Option<(u16, String)> + Send + Sync>;

/// Serves a witness that lies.
fn serve(lie: Lie) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let lie = Arc::clone(&lie);
            // A gate that goes away ends its connection.
            spawn(move || drop(answer(&stream, &lie)));
        }
    });
    address
}

fn answer(mut stream: &TcpStream, lie: &Lie) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line)? > 0 && line != "\r\n" {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = String::from_utf8(body).unwrap();
        let text = body.split("\n\n").nth(1).unwrap_or_default();
        let Some((status, said)) = lie(&format!("{text}\n")) else {
            // Until the gate gives up.
            reader.read_line(&mut line)?;
            return Ok(());
        };
        let head = format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\nLocation: /elsewhere\r\n\r\n", said.len());
        stream.write_all(format!("{head}{said}").as_bytes())?;
    }
}

fn answers(gate: &Gate, witness: &str, answer: &str) -> u64 {
    gate.metric(&format!("sluice_witness_answers_total{{answer=\"{answer}\",witness=\"{witness}\"}}"))
}

#[test]
fn no_lie_of_a_witness_is_a_signature() {
    let (upstream, home) = (Upstream::start(), tempfile::tempdir().unwrap());
    let setup = Setup::of(&upstream).set_raw("audit", "checkpoint_key", r#"{ file = "log.pem" }"#);
    assert!(sluice(&["audit", "key", setup.path("log.pem").to_str().unwrap()]).output().unwrap().status.success());
    let log_key = setup.path("log.pem.pub");
    let honest = Witness::start(home.path(), "honest.example", &log_key);
    let way = Between::to(honest.port);
    way.lead(1);
    let mut setup = setup.set_raw("audit", "checkpoint_seconds", "1").set_raw("audit", "witnesses_needed", "1");
    let section = |setup: Setup, name: &str, url: String, key: String| {
        let section = format!("witness.{name}");
        setup.set(&section, "url", &url).set(&section, "key", &key)
    };
    setup = section(setup, "honest", format!("http://{}", way.address()), honest.key.clone());
    let stranger = LiarKey::new(home.path(), "stranger.example");
    let say = |status: u16, body: &str| {
        let body = body.to_owned();
        move |_: &str| Some((status, body.clone()))
    };
    let mut expected = Vec::new();
    let mut liar = |name: &str, answer: &'static str, lie: &dyn Fn(LiarKey) -> Lie| {
        let own = LiarKey::new(home.path(), &format!("{name}.example"));
        let key = own.key.to_string();
        expected.push((name.to_owned(), answer));
        (name.to_owned(), format!("http://{}", serve(lie(own))), key)
    };
    let liars = [
        // The signature is of another checkpoint, as an earlier one of the same witness is.
        liar("repeats", "wrong_signature", &|own| {
            Arc::new(move |text: &str| Some((200, own.sign(&text.replacen('\n', "\n1", 1)).to_string())))
        }),
        liar("poses", "wrong_signature", &|own| {
            let stranger = stranger.clone();
            Arc::new(move |text: &str| {
                let NoteSignature { name, key_id, .. } = own.sign(text);
                let bytes = stranger.sign(text).bytes;
                Some((200, NoteSignature { name, key_id, bytes }.to_string()))
            })
        }),
        liar("lends", "wrong_signature", &|_| {
            let stranger = stranger.clone();
            Arc::new(move |text: &str| Some((200, stranger.sign(text).to_string())))
        }),
        // The signature is one of a log: without a time.
        liar("logs", "wrong_signature", &|own| {
            let key = own.signing.named("logs.example", NoteKeyKind::Log).unwrap();
            Arc::new(move |text: &str| Some((200, own.signing.sign(&key, text, 0).to_string())))
        }),
        liar("babbles", "strange", &|_| Arc::new(say(200, "signed!\n"))),
        liar("floods", "strange", &|_| Arc::new(say(200, &"\u{2014} a b\n".repeat(100_000)))),
        liar("moves", "strange", &|_| Arc::new(say(302, ""))),
        liar("ahead", "set_back", &|_| Arc::new(say(409, "77777777\n"))),
        liar("forgets", "other_size", &|_| Arc::new(say(409, "0\n"))),
        liar("refuses", "inconsistent", &|_| Arc::new(say(422, "no\n"))),
        liar("sleeps", "unreachable", &|_| Arc::new(|_: &str| -> Option<(u16, String)> { None })),
    ];
    for (name, url, key) in liars {
        setup = section(setup, &name, url, key);
    }
    let gate = setup.start().ready();
    let pays = || assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    pays();
    for (name, answer) in &expected {
        wait_until("each lie to be counted", || answers(&gate, name, answer) > 0);
        assert_eq!(answers(&gate, name, "signed"), 0, "{name}");
        pays();
    }
    let published = gate.path("sluice-audit/audit-gate.tree/checkpoint");
    assert!(!published.exists(), "{}", fs::read_to_string(&published).unwrap());
    assert!(gate.metric("sluice_unwitnessed_since_seconds") > 0);
    way.lead(honest.port);
    wait_until("the honest one to sign", || published.exists());
    let note = fs::read_to_string(&published).unwrap();
    let signers: Vec<&str> = note.lines().filter_map(|line| line.strip_prefix("\u{2014} ")).collect();
    assert!(signers.len() == 2 && signers[0].starts_with("sluice/gate/"), "{note}");
    assert!(signers[1].starts_with("honest.example "), "{note}");
    let list = home.path().join("honest.jsonl");
    fs::write(&list, honest.list()).unwrap();
    let setup = gate.end();
    let (folder, key) = (setup.path("sluice-audit"), setup.path("log.pem.pub"));
    let words = ["audit", "verify", folder.to_str().unwrap(), "--public-key", key.to_str().unwrap()];
    let by = ["--checkpoints", list.to_str().unwrap(), "--witness-key", &honest.key];
    let (code, text) = run(&[&words[..], &by].concat());
    assert!(code == 0 && text.contains("up to the newest checkpoint that enough witnesses signed"), "{text}");
}

/// Somebody puts the folder of a witness back, to have it sign another history: it would sign on, as if nothing had been.
#[test]
fn a_witness_that_was_set_back_is_noticed_also_after_a_restart_of_the_gate() {
    let (upstream, home) = (Upstream::start(), tempfile::tempdir().unwrap());
    let setup = Setup::of(&upstream).set_raw("audit", "checkpoint_key", r#"{ file = "log.pem" }"#);
    assert!(sluice(&["audit", "key", setup.path("log.pem").to_str().unwrap()]).output().unwrap().status.success());
    let log_key = setup.path("log.pem.pub");
    let start = || Witness::start(home.path(), "w.example", &log_key);
    let witness = start();
    let way = Between::to(witness.port);
    let setup = setup.set_raw("audit", "checkpoint_seconds", "1");
    let setup =
        setup.set("witness.w", "url", &format!("http://{}", way.address())).set("witness.w", "key", &witness.key);
    let gate = setup.start().ready();
    let (folder, former) = (home.path().join("w.example"), home.path().join("former"));
    let published = gate.path("sluice-audit/audit-gate.tree/checkpoint");
    let size = || {
        let note = fs::read_to_string(&published).unwrap_or_default();
        note.lines().nth(1).and_then(|size| size.parse::<u64>().ok()).unwrap_or_default()
    };
    let is_signed = |gate: &Gate| {
        let before = size();
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
        wait_until("the witness to sign", || size() > before);
    };
    is_signed(&gate);
    copy_folder(&folder, &former);
    is_signed(&gate);
    drop(witness);
    for (what, is_empty) in [("an older folder", false), ("an empty folder", true)] {
        fs::remove_dir_all(&folder).unwrap();
        if !is_empty {
            copy_folder(&former, &folder);
        }
        let witness = start();
        way.lead(witness.port);
        let before = (size(), answers(&gate, "w", "forgot"));
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
        wait_until(what, || answers(&gate, "w", "forgot") > before.1);
        assert_eq!(size(), before.0, "{what}");
    }
    fs::remove_dir_all(&folder).unwrap();
    let (witness, before) = (start(), size());
    way.lead(witness.port);
    let gate = gate.end().start();
    wait_until("it to be noticed after a restart", || answers(&gate, "w", "forgot") > 0);
    assert_eq!((size(), answers(&gate, "w", "signed")), (before, 0));
    wait_until("it to be told", || gate.log.all().iter().any(|line| line.to_string().contains("it was set back")));
}
