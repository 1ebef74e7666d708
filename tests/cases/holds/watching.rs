//! `sluice approvals watch`: what happens is told as it happens, and a lost connection is.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use super::{RULES, approver, gate, held, say, text};
use crate::support::gate::sluice;
use crate::support::shared::Shared;
use crate::support::{Gate, Setup, Upstream};

struct Watch {
    child: Child,
    out: Shared<String>,
    err: Shared<String>,
}

impl Watch {
    fn of(gate: &Gate) -> Watch {
        let url = format!("http://{}", gate.console().unwrap());
        let mut command = sluice(&["approvals", "watch", "--console", &url]);
        let command = command.env("SLUICE_TOKEN", approver("ops-1")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (Shared::new(), Shared::new());
        follow(child.stdout.take().unwrap(), out.clone());
        follow(child.stderr.take().unwrap(), err.clone());
        Watch { child, out, err }
    }

    fn told(lines: &Shared<String>, what: &str) {
        lines.wait(what, |lines| lines.iter().any(|line| line.contains(what)).then_some(()));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn follow(pipe: impl std::io::Read + Send + 'static, lines: Shared<String>) {
    std::thread::spawn(move || BufReader::new(pipe).lines().map_while(Result::ok).for_each(|line| lines.push(line)));
}

#[test]
fn it_tells_what_waits_what_becomes_of_it_and_that_the_connection_is_lost() {
    let upstream = Upstream::start();
    // The console comes back where it was.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup: Setup = gate(&upstream, RULES).set("console", "listen", &free.to_string());
    let gate = setup.start();
    let hold = held(&gate, "w-1");
    let watch = Watch::of(&gate);
    let id = text(&hold, "id").to_owned();
    Watch::told(&watch.out, &format!("{id} production pending createSwap"));
    let second = held(&gate, "w-2");
    Watch::told(&watch.out, text(&second, "id"));
    assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 200);
    Watch::told(&watch.out, "dual: 1 of 3");
    assert_eq!(say(&gate, "reject", &second, "ops-1").status, 200);
    Watch::told(&watch.out, &format!("{} Rejected.", text(&second, "id")));
    let setup = gate.kill();
    Watch::told(&watch.err, "the connection is lost");
    let gate = setup.start();
    Watch::told(&watch.err, "connected again");
    assert_eq!(say(&gate, "reject", &hold, "ops-1").status, 200);
    Watch::told(&watch.out, &format!("{id} Rejected."));
}

#[test]
fn who_may_not_look_is_told_so() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let url = format!("http://{}", gate.console().unwrap());
    let mut command = sluice(&["approvals", "watch", "--console", &url]);
    let output = command.env("SLUICE_TOKEN", super::person("x", &[])).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(4) && told.contains("403 FORBIDDEN"), "{:?} {told}", output.status);
}
