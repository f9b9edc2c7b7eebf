//! A small client of the language server: the real binary over its standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    next: i64,
    /// Notifications not asked for yet.
    told: Vec<Value>,
}

impl Editor {
    /// A server that has not been initialized.
    pub fn raw(args: &[&str]) -> Editor {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ravelin"))
            .args(["policy", "lsp"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, output) = channel();
        std::thread::spawn(move || {
            while let Some(message) = read(&mut stdout) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Editor { input: child.stdin.take(), child, output, next: 0, told: Vec::new() }
    }

    /// A server for a client that counts as `encodings` say.
    pub fn start(encodings: &[&str], args: &[&str]) -> Editor {
        let mut editor = Editor::raw(args);
        let general = json!({ "positionEncodings": encodings });
        let answer = editor.ask("initialize", json!({ "capabilities": { "general": general } })).unwrap();
        let want = if encodings.contains(&"utf-8") { "utf-8" } else { "utf-16" };
        assert_eq!(answer["capabilities"]["positionEncoding"], want);
        editor.tell("initialized", json!({}));
        editor
    }

    /// Octets as they are.
    pub fn write(&mut self, octets: &[u8]) {
        // The server may have gone.
        let _ = self.input.as_mut().unwrap().write_all(octets);
    }

    pub fn send(&mut self, body: &str) {
        self.write(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    pub fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        self.answer(&id.into())
    }

    /// The answer to the request of this number.
    pub fn answer(&mut self, id: &Value) -> Result<Value, Value> {
        loop {
            let message = self.message();
            if message.get("method").is_some() {
                self.told.push(message);
            } else if message["id"] == *id {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            } else {
                panic!("an answer to nothing: {message}");
            }
        }
    }

    fn message(&mut self) -> Value {
        self.output.recv_timeout(PATIENCE).expect("the server says something")
    }

    /// The next notification of this method that `wanted` takes.
    pub fn told(&mut self, method: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let is = |message: &Value| message["method"] == method && wanted(&message["params"]);
            if let Some(at) = self.told.iter().position(is) {
                return self.told.remove(at)["params"].take();
            }
            let message = self.message();
            self.told.push(message);
        }
    }

    pub fn open(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "ravelin", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
    }

    pub fn change(&mut self, uri: &str, version: i64, changes: Value) {
        let document = json!({ "uri": uri, "version": version });
        self.tell("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// What is wrong with this version of a document.
    pub fn diagnostics(&mut self, uri: &str, version: i64) -> Vec<Value> {
        let is = |params: &Value| params["uri"] == uri && params["version"] == version;
        self.told("textDocument/publishDiagnostics", is)["diagnostics"].as_array().unwrap().clone()
    }

    pub fn about(&mut self, method: &str, uri: &str, line: u32, character: u32) -> Value {
        let params = json!({
            "textDocument": { "uri": uri }, "position": { "line": line, "character": character },
            "context": { "includeDeclaration": true, "triggerKind": 1 }, "options": { "tabSize": 2, "insertSpaces": true },
        });
        self.ask(method, params).unwrap()
    }

    /// The server's end, after its input was closed.
    pub fn ends(&mut self) -> ExitStatus {
        self.input = None;
        self.child.wait().unwrap()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(input: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => length = line.strip_prefix("Content-Length: ").map_or(length, |n| n.parse().unwrap()),
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}
