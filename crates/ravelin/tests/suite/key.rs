//! Key files for tokens: made, shown, and opened for a daemon by the command, with SoftHSM as the token.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::kit::{Folder, daemon, err, out, ravelin, run};

const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
const PIN: &str = "71-secret-42";
const URI: &str = "pkcs11:token=gateway?module-path=/usr/lib/softhsm/libsofthsm2.so";

fn tool(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", err(&output));
}

/// A folder with the token `gateway`, which has an RSA key, and with that key's public half in `key.pub`.
fn token(name: &str) -> Folder {
    assert!(Path::new(MODULE).exists(), "{MODULE} is missing: apt-get install softhsm2");
    let folder = Folder::new(name);
    let path = |name: &str| folder.0.join(name);
    std::fs::create_dir(path("tokens")).unwrap();
    folder.file("softhsm2.conf", &format!("directories.tokendir = {}\n", path("tokens").display()));
    let key = path("key.pem");
    tool(Command::new("openssl").args(["genpkey", "-algorithm", "RSA", "-out"]).arg(&key));
    tool(Command::new("openssl").args(["pkey", "-pubout", "-in"]).arg(&key).arg("-out").arg(path("key.pub")));
    let softhsm = |more: &[&str]| {
        let mut command = Command::new("softhsm2-util");
        command.args(more).args(["--pin", PIN]).env("SOFTHSM2_CONF", path("softhsm2.conf"));
        tool(&mut command);
    };
    softhsm(&["--init-token", "--free", "--label", "gateway", "--so-pin", "12345678"]);
    softhsm(&["--import", key.to_str().unwrap(), "--token", "gateway", "--label", "ipsec", "--id", "01"]);
    folder
}

fn with_token(folder: &Folder, args: &[&str], input: &str) -> Output {
    let mut child = ravelin()
        .args(args)
        .env("SOFTHSM2_CONF", folder.0.join("softhsm2.conf"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may end without reading it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(!err(&output).contains(PIN) && !out(&output).contains(PIN), "{output:?}");
    output
}

/// Answer each request with a document that fits none but a status; every POST's body is sent on.
fn listener(socket: &Path, refuse: bool) -> Receiver<String> {
    let (sender, receiver) = channel();
    daemon(socket, move |stream| {
        let (head, body) = request(&stream);
        let document = match head.starts_with("POST") {
            false => r#"{"api":1}"#.to_owned(),
            true => {
                sender.send(body).unwrap();
                if refuse {
                    r#"{"api":1,"error":{"code":"conflict","message":"it is there"}}"#.to_owned()
                } else {
                    r#"{"api":1,"sa":{}}"#.to_owned()
                }
            }
        };
        let status = if refuse && head.starts_with("POST") { "409 Conflict" } else { "200 OK" };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            document.len()
        );
        let _ = (&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(document.as_bytes()));
    });
    receiver
}

fn request(mut stream: &UnixStream) -> (String, String) {
    let mut head = Vec::new();
    let mut octet = [0; 1];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut octet).unwrap_or(0) == 1 {
        head.push(octet[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// The words of `sa add` for a key file, with a daemon at this socket.
fn add<'a>(socket: &'a str, book: &'a str, file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["sa", "add", "--control", socket, "--direction", "out", "--spi", "0x1001"];
    args.extend(["--local", "192.0.2.1", "--remote", "192.0.2.2", "--mode", "transport"]);
    args.extend(["--token", URI, "--key-file", file, "--pin-fd", "0", "--key-book", book]);
    args.extend(more);
    args
}

#[test]
fn a_wrapped_key_reaches_the_daemon_once_and_shows_nowhere_else() {
    let folder = token("key-once");
    let path = |name: &str| folder.0.join(name).display().to_string();
    let (socket, book, file) = (path("c.sock"), path("state/used-key-files"), path("one.key"));
    let made = with_token(
        &folder,
        &["key", "wrap", "--suite", "aes128gcm", "--token", URI, "--oaep", "sha1", "-o", &file],
        "",
    );
    assert!(made.status.success(), "{}", err(&made));
    assert!(
        out(&made).contains("suite aes128gcm") && out(&made).contains("RSA-OAEP with SHA-1"),
        "{}",
        out(&made)
    );
    assert_eq!(out(&run(&["key", "show", &file])), out(&made));

    // What costs no file: a PIN, a suite, an option that is wrong; nobody who listens.
    let wrong = with_token(&folder, &add(&socket, &book, &file, &[]), PIN);
    assert_eq!(wrong.status.code(), Some(3), "{}", err(&wrong));
    let posted = listener(Path::new(&socket), false);
    for (more, pin, status, words) in [
        (&[][..], "wrong", 1, "refuses the PIN"),
        (&["--suite", "aes256gcm"], PIN, 2, "is for aes128gcm, and \"aes256gcm\" is asked for"),
        (&["--replay-window", "64"], PIN, 2, "inbound"),
        (&["--type", "ipcomp"], PIN, 2, "has no key"),
        (&["--key-fd", "0"], PIN, 2, "cannot be used with"),
    ] {
        let refused = with_token(&folder, &add(&socket, &book, &file, more), pin);
        assert_eq!(refused.status.code(), Some(status), "{}", err(&refused));
        assert!(err(&refused).contains(words), "{words}: {}", err(&refused));
    }
    assert!(!Path::new(&book).exists());
    assert!(posted.try_recv().is_err(), "nothing was sent");

    with_token(&folder, &add(&socket, &book, &file, &["--suite", "aes128gcm16"]), PIN);
    let body: serde_json::Value = serde_json::from_str(&posted.recv().unwrap()).unwrap();
    assert_eq!(body["suite"], "aes128gcm16");
    let keymat = body["keymat"].as_str().unwrap().to_owned();
    assert_eq!(keymat.len(), 40);
    // It is not what stood for it while the rest was checked.
    assert!(!keymat.starts_with("01080f16"), "the key of no file");

    let again = with_token(&folder, &add(&socket, &book, &file, &[]), PIN);
    assert_eq!(again.status.code(), Some(1));
    let text = err(&again);
    assert!(text.contains("one.key") && text.contains("was used on this host before"), "{text}");
    assert!(text.contains("ravelin key wrap") && !text.contains(&keymat), "{text}");
    assert!(posted.try_recv().is_err(), "nothing was sent");
}

#[test]
fn a_daemon_that_refuses_leaves_the_file_used() {
    let folder = token("key-refused");
    let path = |name: &str| folder.0.join(name).display().to_string();
    let (socket, book, file) = (path("c.sock"), path("state/used-key-files"), path("pair.key"));
    let public = path("key.pub");
    let mut wrap =
        vec!["key", "wrap", "--suite", "sha256", "--public-key", &public, "--oaep", "sha1", "-o", &file];
    wrap.extend(["--count", "2"]);
    assert!(run(&wrap).status.success());
    let first = path("pair.key.1");
    let posted = listener(Path::new(&socket), true);
    let refused = with_token(&folder, &add(&socket, &book, &first, &["--type", "ah"]), PIN);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        err(&refused).contains("it is there") && err(&refused).contains("is used up"),
        "{}",
        err(&refused)
    );
    let body: serde_json::Value = serde_json::from_str(&posted.recv().unwrap()).unwrap();
    assert_eq!(
        (body["suite"].as_str(), body["keymat"].as_str().map(str::len)),
        (Some("null-sha256"), Some(64))
    );
    let again = with_token(&folder, &add(&socket, &book, &first, &["--type", "ah"]), PIN);
    assert!(err(&again).contains("was used on this host before"), "{}", err(&again));
    // The second file is another key.
    with_token(&folder, &add(&socket, &book, &path("pair.key.2"), &["--type", "ah"]), PIN);
    let second: serde_json::Value = serde_json::from_str(&posted.recv().unwrap()).unwrap();
    assert_ne!(second["keymat"], body["keymat"]);
}

#[test]
fn what_cannot_be_wrapped_is_refused_and_nothing_is_overwritten() {
    let folder = Folder::new("key-wrap");
    let file = folder.file("there.key", "mine");
    let key = folder.file("key.pub", "no key");
    let args = |suite: &'static str, more: &[&str]| {
        let mut args: Vec<String> =
            ["key", "wrap", "--suite", suite, "-o", &file].map(str::to_owned).to_vec();
        args.extend(more.iter().map(|word| (*word).to_owned()));
        args
    };
    for (args, status, words) in [
        (args("aes128gcm", &[]), 2, "--token"),
        (args("aes129gcm", &["--public-key", &key]), 2, "no cipher is called"),
        (args("aes128cbc", &["--public-key", &key]), 2, "without integrity"),
        (args("aes128gcm", &["--public-key", &key]), 2, "key.pub"),
        (args("aes128gcm", &["--public-key", "/nowhere"]), 2, "/nowhere"),
        (args("aes128gcm", &["--token", "pkcs11:token=a"]), 2, "module-path"),
        (args("aes128gcm", &["--token", "pkcs11:?module-path=/nowhere.so"]), 1, "/nowhere.so"),
        (args("aes128gcm", &["--public-key", &key, "--count", "0"]), 2, "--count"),
    ] {
        let refused = run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(refused.status.code(), Some(status), "{}", err(&refused));
        assert!(err(&refused).contains(words), "{words}: {}", err(&refused));
    }
    let pem = folder.0.join("p256.pem");
    tool(
        Command::new("openssl")
            .args(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"])
            .arg(&pem),
    );
    let private = pem.display().to_string();
    let refused = run(&["key", "wrap", "--suite", "aes128gcm", "--public-key", &private, "-o", "/nowhere/x"]);
    assert!(err(&refused).contains("is a private key"), "{}", err(&refused));
    tool(
        Command::new("openssl")
            .args(["pkey", "-pubout", "-in"])
            .arg(&pem)
            .arg("-out")
            .arg(folder.0.join("p.pub")),
    );
    let public = folder.0.join("p.pub").display().to_string();
    let refused = run(&["key", "wrap", "--suite", "aes128gcm", "--public-key", &public, "-o", &file]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("there.key") && err(&refused).contains("exists"), "{}", err(&refused));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    // A PIN in the place of a descriptor's number is not repeated.
    let args = add("/nowhere.sock", "/nowhere", &file, &[]);
    let args: Vec<&str> = args.into_iter().map(|word| if word == "0" { "123456" } else { word }).collect();
    let refused = run(&args);
    assert!(err(&refused).contains("never the PIN itself"), "{}", err(&refused));
    assert!(!err(&refused).contains("123456"), "{}", err(&refused));
}
