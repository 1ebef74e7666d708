//! The program, with none of this process' own settings.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

/// What comes on standard input is handed over as systemd would.
const LEND: &str = r#"exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@""#;

/// `sluice` with these arguments, and none of this process' own settings.
pub fn sluice(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

/// As `sluice`, with these limits of file descriptors.
pub fn limited((soft, hard): (u64, u64), arguments: &[&str]) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={soft}:{hard}")).arg(env!("CARGO_BIN_EXE_sluice")).args(arguments);
    command.env_clear().stdin(Stdio::null());
    command
}

/// As `sluice`, and it is handed this socket.
pub fn lent(listener: &TcpListener, arguments: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", LEND, env!("CARGO_BIN_EXE_sluice")]).args(arguments).env_clear();
    command.stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())));
    command
}
