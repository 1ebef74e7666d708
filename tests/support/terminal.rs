//! A terminal of a given size, in which a program runs.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::shared::Shared;

#[derive(Debug)]
pub struct Terminal {
    /// The end of the program that runs in it; given away when it starts.
    inside: OwnedFd,
    written: Shared<Vec<u8>>,
}

impl Terminal {
    pub fn of(columns: u16, rows: u16) -> Terminal {
        let outside = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&outside).unwrap();
        unlockpt(&outside).unwrap();
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&outside, size).unwrap();
        let name = ptsname(&outside, Vec::new()).unwrap();
        let inside = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let written = Shared::new();
        let (mut outside, into) = (File::from(outside), written.clone());
        std::thread::spawn(move || {
            let mut piece = [0; 4_096];
            // Nobody has it open any more: this is an error for its other end.
            while let Ok(count @ 1..) = outside.read(&mut piece) {
                into.push(piece[..count].to_vec());
            }
        });
        Terminal { inside, written }
    }

    fn inside(&self) -> Stdio {
        Stdio::from(self.inside.try_clone().unwrap())
    }

    /// Starts a program that writes to it, and reads nothing.
    pub fn spawn(&self, mut command: Command) -> Child {
        command.stdin(Stdio::null()).stdout(self.inside()).stderr(self.inside()).spawn().unwrap()
    }

    /// Runs a program to its end; returns all that it wrote, and how it ended.
    pub fn run(self, command: Command) -> (ExitStatus, String) {
        let ended = self.spawn(command).wait().unwrap();
        self.end(ended)
    }

    /// Runs a program whose output goes elsewhere; returns what it wrote to standard error, and how it ended.
    pub fn run_errors(self, mut command: Command) -> (ExitStatus, String) {
        let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.inside()).status().unwrap();
        self.end(ended)
    }

    fn end(self, status: ExitStatus) -> (ExitStatus, String) {
        // All that it wrote stands before this.
        const END: &str = "\u{4}the end";
        rustix::io::write(&self.inside, END.as_bytes()).unwrap();
        let text = self.wait("the end", |text| text.strip_suffix(END).map(str::to_owned));
        (status, text)
    }

    /// The text so far, with the ends of lines as programs write them.
    pub fn text(&self) -> String {
        text_of(&self.written.all())
    }

    /// The first thing that `find` makes of the text, as soon as there is one.
    pub fn wait<R>(&self, what: &str, mut find: impl FnMut(&str) -> Option<R>) -> R {
        self.written.wait(what, |pieces| find(&text_of(pieces)))
    }
}

fn text_of(pieces: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&pieces.concat()).replace("\r\n", "\n")
}
