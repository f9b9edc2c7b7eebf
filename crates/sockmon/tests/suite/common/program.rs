//! A program under test, spoken to through its standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

pub struct Program {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Start it in the caller's network namespace and in the cgroup of `procs`.
    pub fn start(path: &Path, procs: &Path) -> Program {
        let procs = procs.to_owned();
        let mut command = Command::new(path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: between fork and exec only a file is written; the allocation is safe since the parent's allocator is
        // fork-aware (glibc).
        unsafe { command.pre_exec(move || std::fs::write(&procs, "0")) };
        // A child that another test forked at the wrong moment may hold the fresh copy open for writing until it execs.
        let mut child = loop {
            match command.spawn() {
                Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => std::thread::yield_now(),
                spawned => break spawned.unwrap_or_else(|e| panic!("{}: {e}", path.display())),
            }
        };
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, answers };
        assert_eq!(program.answer(), "ready");
        program
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Send a command, return the answer.
    pub fn ask(&mut self, command: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").expect("the program lives");
        self.answer()
    }

    /// Send a command whose answer nobody waits for.
    pub fn begin(&mut self, command: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").expect("the program lives");
    }

    /// End it in whatever it does.
    pub fn kill(mut self) {
        self.child.kill().expect("our own child");
    }

    /// Several commands that must succeed.
    pub fn run(&mut self, commands: &[&str]) {
        for command in commands {
            assert_eq!(self.ask(command), "ok", "{command}");
        }
    }

    /// The answer to a command that was begun.
    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the program answers");
        assert!(!line.is_empty(), "the program ended");
        line.trim_end().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
