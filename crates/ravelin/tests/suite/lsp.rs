//! The language server as an editor sees it. Nothing here needs root; the daemon of the last test is a stand-in.

use crate::editor;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use editor::Editor;
use serde_json::{Value, json};

const URI: &str = "file:///etc/ravelin/p.policy";
/// Locks are two units of UTF-16, four octets and one character.
const POLICY: &str = "# \u{1f512}\u{1f512} who talks to whom\nprotection Strong { encryption require scrub standard; }\n\
                      application curl, \"\u{1f512}\" {\n  network 192.0.2.0/24 protected P;\n  network 192.0.2.9 untrusted;\n  \
                      /* \u{1f512} */ network 198.51.100.0/24 protected Strong;\n  network 203.0.113.0/24 protected P;\n  \
                      protection P { remoteport=443 encryption mandatory; protocol=icmp never; }\n}\n";

/// The findings of `ravelin policy check --json`.
fn check(text: &str) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ravelin"))
        .args(["policy", "check", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let document: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    document["findings"].as_array().unwrap().clone()
}

/// A place of the protocol in UTF-16 as `check` counts it.
fn place(text: &str, at: &Value) -> Value {
    let line = at["line"].as_u64().unwrap() as usize;
    let units: Vec<u16> = text.split('\n').nth(line).unwrap().encode_utf16().collect();
    let before = &units[..at["character"].as_u64().unwrap() as usize];
    json!([line + 1, String::from_utf16(before).unwrap().chars().count() + 1])
}

/// A finding of either side: code, severity, start, end, what is said, related places.
fn from_check(finding: &Value) -> Value {
    let place = |at: &Value| json!([at["line"], at["column"]]);
    let message = match finding.get("remedy") {
        Some(remedy) => {
            format!("{}\nhelp: {}", finding["message"].as_str().unwrap(), remedy.as_str().unwrap())
        }
        None => finding["message"].as_str().unwrap().into(),
    };
    let related = finding.get("related").and_then(Value::as_array).cloned().unwrap_or_default();
    let related: Vec<Value> = related.iter().map(|r| json!([r["message"], place(&r["at"])])).collect();
    json!([
        finding["code"],
        finding["severity"],
        place(&finding["at"]),
        place(&finding["end"]),
        message,
        related
    ])
}

fn from_server(text: &str, found: &Value) -> Value {
    let severity = match found["severity"].as_u64().unwrap() {
        1 => "error",
        2 => "warning",
        _ => "note",
    };
    let range = &found["range"];
    let related = found.get("relatedInformation").and_then(Value::as_array).cloned().unwrap_or_default();
    let related: Vec<Value> = related
        .iter()
        .map(|r| json!([r["message"], place(text, &r["location"]["range"]["start"])]))
        .collect();
    let (start, end) = (place(text, &range["start"]), place(text, &range["end"]));
    json!([found["code"], severity, start, end, found["message"], related])
}

fn same(text: &str, found: &[Value], case: &str) {
    let found: Vec<Value> = found.iter().map(|one| from_server(text, one)).collect();
    let said: Vec<Value> = check(text).iter().map(from_check).collect();
    assert_eq!(found, said, "{case}\n{text}");
}

#[test]
fn diagnostics_are_those_of_check_for_every_broken_file() {
    let mut editor = Editor::start(&["utf-16"], &[]);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../policy/tests/data/broken");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 270, "{}", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let uri = format!("file://{}", file.display());
        editor.open(&uri, &text);
        let found = editor.diagnostics(&uri, 1);
        assert!(found.iter().any(|one| one["severity"] == 1), "{uri}");
        same(&text, &found, &uri);
        editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    }
}

/// A place of the text for the client; no lone `\r` in these tests.
fn position(text: &str, at: usize) -> Value {
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    json!({ "line": before.matches('\n').count(), "character": before[start..].encode_utf16().count() })
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

#[test]
fn edits_through_broken_states_come_to_what_check_says() {
    const PIECES: [&str; 14] = [
        "",
        "}",
        "{",
        ";",
        "\n",
        "\u{1f512}",
        " network ",
        "\"",
        "/*",
        "# \u{e9}\u{1f512}\n",
        "encryption ",
        ",",
        "\r\n",
        " ",
    ];
    let mut editor = Editor::start(&["utf-16", "utf-32"], &[]);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut text = POLICY.to_string();
    editor.open(URI, &text);
    same(&text, &editor.diagnostics(URI, 1), "before");
    let mut version = 1;
    for round in 0..60 {
        // Several edits in one message, several messages before anyone looks.
        for _ in 0..=random.below(3) {
            let mut changes = Vec::new();
            for _ in 0..=random.below(3) {
                let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
                let start = random.below(places.len());
                let end = (start + random.below(6)).min(places.len() - 1);
                // Between the two halves of a line's end is no place that a client can name.
                let halves = |at: usize| at > 0 && text.as_bytes()[at - 1] == b'\r';
                let (start, end) = (places[start], places[end]);
                if halves(start) || halves(end) {
                    continue;
                }
                let piece = PIECES[random.below(PIECES.len())];
                let range = json!({ "start": position(&text, start), "end": position(&text, end) });
                changes.push(json!({ "range": range, "text": piece }));
                text.replace_range(start..end, piece);
                if text.replace("\r\n", "").contains('\r') {
                    // What was left of one: begin anew, with a whole text behind edits.
                    text = POLICY.to_string();
                    changes.push(json!({ "text": text }));
                }
            }
            if changes.is_empty() {
                continue;
            }
            version += 1;
            editor.change(URI, version, changes.into());
        }
        if version > 1 && round % 3 == 0 {
            // What it comes to rest with, by way of an answer that needs every edit before it.
            version += 1;
            editor.change(
                URI,
                version,
                json!([{ "range": { "start": position(&text, 0), "end": position(&text, 0) }, "text": "" }]),
            );
            same(&text, &editor.diagnostics(URI, version), &format!("round {round}"));
            let edits = editor.about("textDocument/formatting", URI, 0, 0);
            let formatted = edits[0]["newText"].as_str().map_or_else(|| text.clone(), String::from);
            assert_eq!(formatted, policy::format(&text));
        }
        if round % 20 == 19 {
            text = POLICY.to_string();
            version += 1;
            editor.change(URI, version, json!([{ "text": text }]));
        }
    }
}

#[test]
fn an_editor_gets_its_answers() {
    for encoding in ["utf-16", "utf-8"] {
        let mut editor = Editor::start(&[encoding], &["--control", "/nowhere/control.sock"]);
        let length = |s: &str| if encoding == "utf-8" { s.len() } else { s.encode_utf16().count() } as u32;
        editor.open(URI, POLICY);
        let line = |n: usize| POLICY.lines().nth(n).unwrap();
        let column = |n: usize, needle: &str| length(&line(n)[..line(n).find(needle).unwrap()]);
        let hover = |editor: &mut Editor, n: usize, needle: &str| {
            let answer = editor.about("textDocument/hover", URI, n as u32, column(n, needle));
            answer["contents"]["value"].as_str().unwrap_or("").to_string()
        };
        let said = hover(&mut editor, 3, "192");
        assert!(said.contains("network 192.0.2.0/24 protected P;"), "{said}");
        assert!(said.contains("remoteport=443 encryption mandatory;"), "{said}");
        assert!(said.contains("what no item matches is refused"), "{said}");
        assert!(said.contains("not for 192.0.2.9: the longer prefix decides, untrusted"), "{said}");
        // No daemon answers: nothing is said of flows.
        assert!(!said.contains("live"), "{said}");
        assert!(hover(&mut editor, 4, "untrusted").contains("its traffic is refused"));
        assert!(hover(&mut editor, 5, "198").contains("network 198.51.100.0/24 protected Strong;"));
        let said = hover(&mut editor, 7, "encryption");
        assert!(said.contains("mandatory: nothing passes unprotected"), "{said}");
        assert!(hover(&mut editor, 7, "never").contains("never protected"));
        let said = hover(&mut editor, 1, "encryption");
        assert!(said.contains("mandatory: nothing passes unprotected"), "{said}");
        assert!(said.contains("scrubbed: standard: "), "{said}");
        let said = hover(&mut editor, 2, "curl");
        assert!(said.contains("the host's default is bypass"), "{said}");
        assert_eq!(hover(&mut editor, 0, "who"), "");
        let range = |n: usize, needle: &str, of: &str| {
            let start = column(n, needle) + length(&needle[..needle.find(of).unwrap()]);
            json!({ "start": { "line": n, "character": start }, "end": { "line": n, "character": start + length(of) } })
        };
        let found = editor.about("textDocument/definition", URI, 5, column(5, "Strong"));
        assert_eq!(found["range"], range(1, "Strong", "Strong"));
        let found = editor.about("textDocument/definition", URI, 6, column(6, "P;"));
        assert_eq!(found["range"], range(7, "protection P", "P"));
        let found = editor.about("textDocument/references", URI, 7, column(7, "P {"));
        let places: Vec<&Value> = found.as_array().unwrap().iter().map(|one| &one["range"]).collect();
        assert_eq!(
            places,
            [&range(7, "protection P", "P"), &range(3, "protected P", "P"), &range(6, "protected P", "P")]
        );
        let symbols = editor.about("textDocument/documentSymbol", URI, 0, 0);
        let names = |list: &Value| -> Vec<String> {
            list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().into()).collect()
        };
        assert_eq!(names(&symbols), ["protection Strong", "application curl, \"\u{1f512}\""]);
        assert_eq!(names(&symbols[1]["children"])[4], "protection P");
        let edits = editor.about("textDocument/formatting", URI, 0, 0);
        assert_eq!(edits[0]["newText"], policy::format(POLICY));
        assert_eq!(edits[0]["range"]["end"], json!({ "line": POLICY.lines().count(), "character": 0 }));
    }
}

#[test]
fn a_program_with_digests_is_told_with_them() {
    let (one, two) = ("1".repeat(64), "2".repeat(64));
    let text = format!(
        "application /usr/bin/curl sha256 {one} sha256 {two}, wget {{\n  network 192.0.2.0/24 trusted;\n}}\n\
         application /opt/app from /opt/start sha256 {two} {{\n}}\n"
    );
    let mut editor = Editor::start(&["utf-8"], &[]);
    editor.open(URI, &text);
    let hover = |editor: &mut Editor, line: u32, column: usize| {
        let answer = editor.about("textDocument/hover", URI, line, column as u32);
        answer["contents"]["value"].as_str().unwrap_or("").to_string()
    };
    let pinned = format!(
        "/usr/bin/curl: only a file with the SHA-256 {one} or {two}; another one is refused every peer"
    );
    // On the path, on `sha256`, on a digest.
    for at in ["/usr", "sha256", &two] {
        let said = hover(&mut editor, 0, text.find(at).unwrap());
        assert!(said.contains(&pinned) && !said.contains("wget: only"), "{said}");
        assert!(said.contains("network 192.0.2.0/24 trusted;"), "{said}");
    }
    // What stands behind `from` has its own.
    let said = hover(&mut editor, 3, 0);
    assert!(said.contains(&format!("/opt/start: only a file with the SHA-256 {two};")), "{said}");
    assert!(!said.contains("/opt/app: only"), "{said}");
    // A digest that is not one is no block to speak of, and is said to be broken.
    editor.open("untitled:broken", "application /usr/bin/curl sha256 12 {\n}\n");
    let said = editor.about("textDocument/hover", "untitled:broken", 0, 3);
    let said = said["contents"]["value"].as_str().unwrap_or_default();
    assert!(!said.contains("only a file"), "{said}");
}

/// Labels that are offered behind `text` (a `|` marks the place if it is not its end).
fn offered(editor: &mut Editor, text: &str) -> Vec<String> {
    let at = text.find('|').unwrap_or(text.len());
    let text = text.replace('|', "");
    let uri = "untitled:offer";
    editor.open(uri, &text);
    let at = position(&text, at);
    let number = |name: &str| at[name].as_u64().unwrap() as u32;
    let list = editor.about("textDocument/completion", uri, number("line"), number("character"));
    list.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap().to_string()).collect()
}

#[test]
fn words_that_can_follow_are_offered() {
    let mut editor = Editor::start(&[], &[]);
    let open = "protection Top { never; }\napplication a { protection P { never; } network 192.0.2.0/24 protected P;\n";
    for (text, has, lacks) in [
        ("", "application", "network"),
        ("appl", "application", "network"),
        (open, "network", "application"),
        (&format!("{open} network 192.0.2.1 "), "untrusted", "network"),
        (&format!("{open} network 192.0.2.1 protected "), "P", "trusted"),
        (open, "observe", "trusted"),
        (&format!("{open} observe "), "", "network"),
        (&format!("{open} obs|\n}}"), "observe", "application"),
        (&format!("{open} network 192.0.2.1 "), "observe", "P"),
        (&format!("{open} network 192.0.2.1 observe "), "untrusted", "observe"),
        (&format!("{open} network 192.0.2.1 observe protected "), "P", "observe"),
        ("default { ", "observe", "application"),
        ("gu", "guard", "observe"),
        ("guard { ", "network", "observe"),
        ("guard { network 192.0.2.1 ", "untrusted", "protected"),
        (&format!("{open} network 192.0.2.1 protected |\n}}"), "Top", "trusted"),
        (&format!("{open} protection Q {{ "), "remoteport", "imaps"),
        (&format!("{open} protection Q {{ remoteport="), "imaps", "encryption"),
        (&format!("{open} protection Q {{ remoteport=1,im|"), "imaps", "encryption"),
        (&format!("{open} protection Q {{ protocol="), "tcp", "imaps"),
        (&format!("{open} protection Q {{ protocol=tcp encryption "), "mandatory", "tcp"),
        (&format!("{open} protection Q {{ encryption require suite "), "aes256gcm", "tcp"),
        (&format!("{open} protection Q {{ encryption require "), "while-negotiating", "tcp"),
        (&format!("{open} protection Q {{ encryption require "), "scrub", "tcp"),
        (&format!("{open} protection Q {{ encryption prefer "), "suite", "scrub"),
        (&format!("{open} protection Q {{ encryption require scrub "), "standard", "suite"),
        (open, "limit", "burst"),
        (&format!("{open} limit "), "clear", "network"),
        (&format!("{open} limit "), "accept", "network"),
        (&format!("{open} limit accept 10 "), "packets/s", "burst"),
        (&format!("{open} limit clear 10 "), "mbit/s", "burst"),
        (&format!("{open} limit clear 10 mbit/s "), "burst", "clear"),
        ("test t { curl to 192.0.2.1:1/tcp ", "untrusted", "network"),
        ("syntax ", "2005", "network"),
        ("# appl", "", "application"),
    ] {
        let words = offered(&mut editor, text);
        assert!(has.is_empty() || words.iter().any(|word| word == has), "{text}: {words:?}");
        assert!(!words.iter().any(|word| word == lacks), "{text}: {words:?}");
    }
}

#[test]
fn mechanical_remedies_are_offered_and_work() {
    let mut editor = Editor::start(&["utf-8"], &[]);
    for (text, title) in [
        ("application a { network 192.0.2.1 trustd; }\n", "Write `trusted`"),
        ("application a { nework 192.0.2.1 trusted; }\n", "Write `network`"),
        ("aplication a { network 192.0.2.1 trusted; }\n", "Write `application`"),
        ("application a { network 192.0.2.1 trusted }\n", "Write `;` here"),
        ("application a { network 192.0.2.1 trusted;\n", "Write `}` here"),
        (
            "application a { network ::/0 protected X; protection P { remoteport=htpps never; } }\n",
            "Write `https`",
        ),
        ("application a { network ::/0 protected Pro; protection Prot { never; } }\n", "Write `Prot`"),
    ] {
        editor.open(URI, text);
        let whole = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 9, "character": 0 } });
        let asked =
            json!({ "textDocument": { "uri": URI }, "range": whole, "context": { "diagnostics": [] } });
        let fixes = editor.ask("textDocument/codeAction", asked).unwrap();
        let fix = fixes.as_array().unwrap().iter().find(|fix| fix["title"] == title);
        let fix = fix.unwrap_or_else(|| panic!("{title}: {fixes}"));
        let edit = &fix["edit"]["changes"][URI][0];
        let code = fix["diagnostics"][0]["code"].as_str().unwrap().to_string();
        editor.change(URI, 2, json!([{ "range": edit["range"], "text": edit["newText"] }]));
        let left = editor.diagnostics(URI, 2);
        assert!(!left.iter().any(|found| found["code"] == code.as_str()), "{text}: {left:?}");
    }
}

#[test]
fn whatever_a_client_sends_it_gets_an_error_at_worst() {
    let mut editor = Editor::raw(&[]);
    let early = editor.ask("textDocument/hover", json!({})).unwrap_err();
    assert_eq!(early["code"], -32002);
    editor.ask("initialize", json!({ "capabilities": {} })).unwrap();
    for (body, code) in [
        ("{", -32700),
        ("", -32700),
        ("[]", -32600),
        ("7", -32600),
        ("\u{1f512}", -32700),
        ("{\"jsonrpc\":\"2.0\"}", -32600),
        (&"[".repeat(100_000), -32700),
    ] {
        editor.send(body);
        let error = editor.answer(&Value::Null).unwrap_err();
        assert_eq!(error["code"], code, "{body:.40}: {error}");
    }
    editor.send("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":5}");
    for (method, params) in [
        ("no/such", json!({})),
        ("initialize", json!({})),
        ("textDocument/hover", Value::Null),
        ("textDocument/hover", json!([1, 2])),
        (
            "textDocument/hover",
            json!({ "textDocument": { "uri": "file:///x" }, "position": { "line": -1, "character": 0 } }),
        ),
        (
            "textDocument/hover",
            json!({ "textDocument": { "uri": "file:///x" }, "position": { "line": 0, "character": 0 } }),
        ),
        ("textDocument/formatting", json!({ "textDocument": { "uri": 7 } })),
    ] {
        assert!(editor.ask(method, params.clone()).is_err(), "{method} {params}");
    }
    for params in [json!({}), json!(null), json!({ "textDocument": { "uri": "\u{0}", "version": 1 } })] {
        editor.tell("textDocument/didChange", params);
        editor.told("window/logMessage", |_| true);
    }
    // A message that is too long is stepped over; a document that is too long is followed again when it is short.
    let long = " ".repeat((32 << 20) + 1);
    editor.send(&long);
    assert_eq!(editor.answer(&Value::Null).unwrap_err()["code"], -32600);
    editor.open(URI, &long[..9 << 20]);
    editor.told("window/logMessage", |_| true);
    let hover = json!({ "textDocument": { "uri": URI }, "position": { "line": 0, "character": 0 } });
    assert!(editor.ask("textDocument/hover", hover.clone()).is_err());
    editor.change(URI, 2, json!([{ "text": "x" }]));
    assert_eq!(editor.diagnostics(URI, 2).len(), 2);
    for n in 0..63 {
        editor.open(&format!("file:///{n}"), "");
    }
    editor.open("file:///one-too-many", "");
    editor.told("window/logMessage", |_| true);
    random_requests(&mut editor);
    assert!(editor.ask("textDocument/hover", hover.clone()).is_ok());
    editor.ask("shutdown", Value::Null).unwrap();
    assert_eq!(editor.ask("textDocument/hover", hover).unwrap_err()["code"], -32600);
    editor.tell("exit", Value::Null);
    assert_eq!(editor.ends().code(), Some(0));
}

/// Every method with places anywhere, at documents in any state.
fn random_requests(editor: &mut Editor) {
    const METHODS: [&str; 7] =
        ["hover", "definition", "references", "documentSymbol", "formatting", "completion", "codeAction"];
    let mut random = Random(7);
    let texts = [
        POLICY,
        "application",
        "\u{1f512}{{{;}\r\r\n/*",
        "",
        "test t { a to",
        "protection protection {\n\"P",
    ];
    for round in 0..400 {
        if round % 20 == 0 {
            editor.change(URI, 3 + round, json!([{ "text": texts[random.below(texts.len())] }]));
        }
        let mut place = || json!({ "line": random.below(12), "character": random.below(90) });
        let (start, end) = (place(), place());
        let params = json!({
            "textDocument": { "uri": URI }, "position": start, "range": { "start": start, "end": end },
            "context": { "includeDeclaration": true, "diagnostics": [], "triggerKind": 1 },
            "options": { "tabSize": 2, "insertSpaces": true },
        });
        let method = format!("textDocument/{}", METHODS[random.below(METHODS.len())]);
        editor.ask(&method, params.clone()).unwrap_or_else(|error| panic!("{method} {params}: {error}"));
        let (start, end) = (
            json!({ "line": random.below(12), "character": random.below(90) }),
            json!({ "line": random.below(12), "character": 0 }),
        );
        editor.change(
            URI,
            4 + round,
            json!([{ "range": { "start": start, "end": end }, "text": "\u{1f512}x" }]),
        );
    }
}

#[test]
fn headers_that_cannot_be_read_end_it() {
    for octets in [&b"Content-Length: x\r\n\r\n{}"[..], b"nonsense\r\n\r\n", b"\r\n\r\n", &[b'a'; 9000]] {
        let mut editor = Editor::raw(&[]);
        editor.write(octets);
        assert_eq!(editor.answer(&Value::Null).unwrap_err()["code"], -32700);
        assert_eq!(editor.ends().code(), Some(1));
    }
    // The end in the middle of a message is no good order either.
    let mut editor = Editor::raw(&[]);
    editor.write(b"Content-Length: 99999999999\r\n\r\n{");
    assert_eq!(editor.ends().code(), Some(1));
}

#[test]
fn live_flows_are_counted_for_the_policy_in_the_editor() {
    let folder = std::env::temp_dir().join(format!("ravelin-lsp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("control.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let flow = |application: &str, remote: &str, protocol: u8| json!({ "application": application, "protocol": protocol, "local": "192.0.2.200:40000", "remote": remote });
    let body = json!({ "api": 1, "flows": [
        flow("curl", "192.0.2.1:443", 6), flow("curl", "192.0.2.2:443", 6), flow("curl", "192.0.2.2:80", 6),
        flow("curl", "192.0.2.9:443", 6), flow("curl", "198.51.100.1:1", 17), flow("other", "192.0.2.1:443", 6),
    ] })
    .to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            request.read_line(&mut line).unwrap();
            assert!(line.starts_with("GET /v1/flows "), "{line}");
            while line.trim_end() != "" {
                line.clear();
                request.read_line(&mut line).unwrap();
            }
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    let mut editor = Editor::start(&["utf-8"], &["--control", socket.to_str().unwrap()]);
    editor.open(URI, POLICY);
    for (line, needle, want) in [
        (2, "curl", "5 live flows match"),
        (3, "192", "3 live flows match"),
        (4, "192", "1 live flow matches"),
        (5, "198", "1 live flow matches"),
        (6, "203", "0 live flows match"),
        (7, "remoteport", "2 live flows match"),
        (7, "P {", "3 live flows match"),
        (1, "Strong", "1 live flow matches"),
    ] {
        let column = POLICY.lines().nth(line).unwrap().find(needle).unwrap() as u32;
        let answer = editor.about("textDocument/hover", URI, line as u32, column);
        let said = answer["contents"]["value"].as_str().unwrap();
        assert!(said.contains(want), "line {line}, {needle}: {said}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
