//! `ravelin import`: checked as a whole, private files only, and everything or nothing.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

const KEY: &str = "0x000102030405060708090a0b0c0d0e0f10111213";

struct Scene(PathBuf);

impl Scene {
    fn new(name: &str) -> Scene {
        let path = std::env::temp_dir().join(format!("ravelin-import-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scene(path)
    }

    fn write(&self, text: &str, mode: u32) {
        let path = self.0.join("file");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn import(&self, extra: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ravelin"));
        let control = self.0.join("c.sock");
        command.arg("import").arg(self.0.join("file")).arg("--control").arg(control).args(extra);
        command.output().unwrap()
    }

    /// A daemon that answers with these in turn; what it was asked.
    fn daemon(&self, answers: Vec<(u16, String)>) -> Arc<Mutex<Vec<String>>> {
        let listener = UnixListener::bind(self.0.join("c.sock")).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (status, body) in answers {
                let (stream, _) = listener.accept().unwrap();
                log.lock().unwrap().push(answer(stream, status, &body));
            }
        });
        asked
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Read one request and answer it; its first line.
fn answer(mut stream: UnixStream, status: u16, body: &str) -> String {
    let mut request = Vec::new();
    let mut octet = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut octet).unwrap();
        request.push(octet[0]);
    }
    let head = String::from_utf8(request).unwrap();
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    stream.read_exact(&mut vec![0; length.unwrap_or(0)]).unwrap();
    let length = body.len();
    write!(stream, "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .unwrap();
    head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned()
}

fn sa(spi: &str) -> String {
    format!(
        "{{\"spi\":\"{spi}\",\"direction\":\"out\",\"mode\":\"transport\",\"suite\":\"aes128gcm\",\"local\":\"192.0.2.1\",\
         \"remote\":\"192.0.2.2\",\"local_port\":4500,\"remote_port\":4500,\"selectors\":{{\"local\":\"192.0.2.1\",\
         \"remote\":\"192.0.2.2\"}},\"path_mtu\":1500,\"inner_mtu\":1400,\"sequence\":0,\"counters\":{{\"packets\":0,\"bytes\":0}}}}"
    )
}

fn added(spi: &str) -> (u16, String) {
    (200, format!("{{\"api\":1,\"sa\":{}}}", sa(spi)))
}

fn deleted(spi: &str) -> (u16, String) {
    added(spi)
}

fn rule(name: &str) -> String {
    format!(
        "{{\"position\":0,\"name\":\"{name}\",\"direction\":\"out\",\"selectors\":[\"any\"],\"action\":\"bypass\",\
         \"outbound\":{{\"packets\":0,\"bytes\":0}},\"inbound\":{{\"packets\":0,\"bytes\":0}}}}"
    )
}

fn error(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!text.contains("0a0b0c"), "{text}");
    text
}

fn file() -> String {
    let add = |spi: &str| format!("add 192.0.2.1 192.0.2.2 esp {spi} -E aes-gcm-16 {KEY};\n");
    format!("{}spdadd 192.0.2.1 192.0.2.2 tcp -P out none;\n{}", add("0x1001"), add("0x1002"))
}

const LOCAL: [&str; 2] = ["--local", "192.0.2.1"];

#[test]
fn a_file_that_others_can_read_is_refused() {
    let scene = Scene::new("mode");
    for mode in [0o640, 0o604, 0o620, 0o644] {
        scene.write(&file(), mode);
        let output = scene.import(&[&LOCAL[..], &["--check"]].concat());
        assert_eq!(output.status.code(), Some(2), "{mode:o}");
        assert!(error(&output).contains("chmod 600"), "{output:?}");
    }
    let output = scene.import(&[&LOCAL[..], &["--check", "--insecure-file"]].concat());
    assert!(output.status.success(), "{output:?}");
    scene.write(&file(), 0o600);
    assert!(scene.import(&[&LOCAL[..], &["--check"]].concat()).status.success());
}

#[test]
fn faults_are_found_before_anything_is_asked() {
    let scene = Scene::new("faults");
    // No daemon listens: an attempt to ask one would have status 3.
    for (text, part) in [
        (format!("{}bogus;\n", file()), ":4: \"bogus\" is no command"),
        (file().replace("0x1002", "16"), ":3: SPI 0x00000010 is reserved"),
        (file().replace("192.0.2.1", "192.0.2.7"), ":1: neither 192.0.2.7"),
        (file().replace("0x1002", "0x1001"), ":3: line 1 has an association with this SPI"),
        (
            "{\"direction\":\"out\",\"spi\":4097,\"local\":\"192.0.2.1\",\"remote\":\"192.0.2.2\",\"mode\":\"transport\",\
             \"suite\":\"aes128gcm\",\"sequence\":7,\"keymat\":\"000102030405060708090a0b0c0d0e0f10111213\"}"
                .to_owned(),
            ":1: a daemon counts from 1",
        ),
    ] {
        scene.write(&text, 0o600);
        let output = scene.import(&LOCAL);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(error(&output).contains(part), "{output:?}");
    }
    scene.write(&file(), 0o600);
    assert_eq!(scene.import(&LOCAL).status.code(), Some(3));
}

#[test]
fn everything_is_added_in_the_order_of_the_file() {
    let scene = Scene::new("all");
    scene.write(&file(), 0o600);
    let asked = scene.daemon(vec![
        added("0x00001001"),
        (200, format!("{{\"api\":1,\"rule\":{}}}", rule("setkey-2"))),
        added("0x00001002"),
    ]);
    let output = scene.import(&LOCAL);
    assert!(output.status.success(), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("2 associations and 1 rules added"),
        "{output:?}"
    );
    assert_eq!(*asked.lock().unwrap(), ["POST /v1/sa", "POST /v1/spd", "POST /v1/sa"]);
}

#[test]
fn what_was_added_before_a_refusal_is_deleted_again() {
    let scene = Scene::new("back");
    scene.write(&file(), 0o600);
    let refusal = "{\"api\":1,\"error\":{\"code\":\"conflict\",\"message\":\"SPI 0x00001002 is in use\"}}";
    let asked = scene.daemon(vec![
        added("0x00001001"),
        (200, format!("{{\"api\":1,\"rule\":{}}}", rule("setkey-2"))),
        (409, refusal.to_owned()),
        (200, format!("{{\"api\":1,\"rules\":[{}]}}", rule("setkey-2"))),
        deleted("0x00001001"),
    ]);
    let output = scene.import(&LOCAL);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = error(&output);
    assert!(text.contains(":3: SPI 0x00001002 is in use") && text.contains("nothing of the file"), "{text}");
    let one = "DELETE /v1/sa/0x00001001?direction=out&remote=192.0.2.2";
    assert_eq!(asked.lock().unwrap()[3..], ["DELETE /v1/spd/setkey-2", one]);
}

#[test]
fn one_spi_at_two_peers_is_two_associations() {
    let scene = Scene::new("peers");
    let file = file().replace("192.0.2.2 esp 0x1002", "192.0.2.3 esp 0x1001");
    scene.write(&file, 0o600);
    assert!(scene.import(&[&LOCAL[..], &["--check"]].concat()).status.success());
    // Inbound ones are found by the SPI alone.
    let output = scene.import(&["--local", "192.0.2.2", "--local", "192.0.2.3", "--check"]);
    assert!(error(&output).contains(":3: line 1 has"), "{output:?}");
}

#[test]
fn a_check_answers_as_json_too() {
    let scene = Scene::new("json");
    scene.write(&file(), 0o600);
    let output = scene.import(&[&LOCAL[..], &["--check", "--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = [&document["api"], &document["statements"], &document["sas"], &document["rules"]];
    assert_eq!(counts.map(|count| count.as_u64()), [Some(1), Some(3), Some(2), Some(1)], "{document}");
}

#[test]
fn a_name_that_another_file_has_taken_gets_a_number() {
    let scene = Scene::new("names");
    scene.write("spdadd 192.0.2.1 192.0.2.2 tcp -P out none;", 0o600);
    let refusal = "{\"api\":1,\"error\":{\"code\":\"conflict\",\"message\":\"there is a rule \\\"setkey-1\\\" already\"}}";
    let there = format!("{{\"api\":1,\"rules\":[{},{}]}}", rule("setkey-1"), rule("setkey-1-2"));
    let asked = scene.daemon(vec![
        (409, refusal.to_owned()),
        (200, there),
        (200, format!("{{\"api\":1,\"rule\":{}}}", rule("setkey-1-3"))),
        // Another refusal is one.
        (409, refusal.to_owned()),
        (200, "{\"api\":1,\"rules\":[]}".to_owned()),
    ]);
    let output = scene.import(&LOCAL);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("rule setkey-1-3 added"), "{output:?}");
    assert_eq!(*asked.lock().unwrap(), ["POST /v1/spd", "GET /v1/spd", "POST /v1/spd"]);
    assert_eq!(scene.import(&LOCAL).status.code(), Some(1));
}

#[test]
fn a_flush_is_done_only_if_that_is_said() {
    let scene = Scene::new("flush");
    scene.write("flush;", 0o600);
    let list = || (200, format!("{{\"api\":1,\"sas\":[{}]}}", sa("0x00002000")));
    let asked = scene.daemon(vec![list(), list(), deleted("0x00002000")]);
    let output = scene.import(&LOCAL);
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("give --flush"), "{output:?}");
    let output = scene.import(&[&LOCAL[..], &["--flush"]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(asked.lock().unwrap().len(), 3);
}
