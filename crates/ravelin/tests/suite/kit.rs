//! What the tests of help, colours, completion and failures share.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program under test.
pub const RAVELIN: &str = env!("CARGO_BIN_EXE_ravelin");

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ravelin-suite-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Write a file; its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A command whose environment says nothing of colours.
pub fn ravelin() -> Command {
    let mut command = Command::new(RAVELIN);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "TERM", "RAVELIN_COMPLETE"] {
        command.env_remove(name);
    }
    command.stdin(std::process::Stdio::null());
    command
}

pub fn run(args: &[&str]) -> Output {
    let output = ravelin().args(args).output().unwrap();
    conform::command(args, &String::from_utf8_lossy(&output.stdout));
    output
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Listen where a daemon would, and give each connection to `serve` until the test ends.
pub fn daemon(socket: &Path, serve: impl Fn(UnixStream) + Send + 'static) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(&serve));
}

/// Read a request's head and answer with a document.
pub fn answer(mut stream: UnixStream, document: &str) {
    let mut head = Vec::new();
    let mut octet = [0; 1];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut octet).unwrap_or(0) == 1 {
        head.push(octet[0]);
    }
    let length = document.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    // Who asked may be gone.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(document.as_bytes()));
}
