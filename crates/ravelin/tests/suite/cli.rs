//! The command as a script sees it: exit statuses, standard output, standard error. Nothing here needs root or a daemon.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const POLICY: &str = "# who talks to whom\napplication curl {\n    network 192.0.2.0/24 protected P;\n    network 0.0.0.0/0 \
                      trusted;\n    network ::/0 trusted;\n    protection P {\n        localport=any remoteport=443 encryption mandatory;\n    \
                      }\n}\n";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ravelin-cli-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
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

fn ravelin(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ravelin"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may end without reading it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn check_accepts_a_sound_policy_and_lists_its_applications() {
    let folder = Folder::new("check");
    let file = folder.file("policy", POLICY);
    let answer = ravelin(&["policy", "check", &file], "");
    assert_eq!(code(&answer), 0, "{}", err(&answer));
    assert!(out(&answer).contains("1 application (curl), 0 errors"), "{}", out(&answer));
    let answer = ravelin(&["policy", "check", "-", "--json"], POLICY);
    let document: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!((&document["api"], &document["ok"]), (&1.into(), &true.into()));
    assert_eq!(document["applications"][0], "curl");
}

#[test]
fn a_program_that_this_host_does_not_have_or_has_as_a_script_is_named_with_the_one_that_is_meant() {
    let folder = Folder::new("missing");
    let path = |name: &str| folder.0.join(name).display().to_string();
    let (tool, script) = (path("some-tool"), path("wrapper"));
    std::fs::copy("/bin/true", &tool).unwrap();
    folder.file("wrapper", &format!("#!/bin/sh\nexec {}\n", path("wrapper.real")));
    std::fs::copy("/bin/true", path("wrapper.real")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let policy = |name: &str| format!("application {name} {{ network 0.0.0.0/0, ::/0 untrusted; }}\n");
    let check = |name: &str| {
        let answer = ravelin(&["policy", "check", "-", "--json"], &policy(name));
        assert_eq!(code(&answer), 0, "{}", err(&answer));
        serde_json::from_slice::<Value>(&answer.stdout).unwrap()["findings"].clone()
    };
    assert_eq!(check(&tool), serde_json::json!([]));
    // Two neighbours change places; a letter too many.
    for (typo, code, near) in [
        (path("some-toll"), "RVL-P414", format!("did you mean `{tool}`?")),
        (path("soem-tool"), "RVL-P414", format!("did you mean `{tool}`?")),
        ("trueq".to_owned(), "RVL-P414", "did you mean `true`?".to_owned()),
        (script.clone(), "RVL-P415", format!("name the program that it starts: `{script}.real`")),
    ] {
        let findings = check(&typo);
        assert_eq!((&findings[0]["code"], &findings[0]["severity"]), (&code.into(), &"warning".into()));
        assert_eq!(findings[0]["remedy"], near);
        let answer = ravelin(&["policy", "check", "-"], &policy(&typo));
        assert!(err(&answer).contains(code) && out(&answer).contains("1 warning"), "{}", err(&answer));
    }
    let file = folder.file("policy", &policy(&script));
    let explain = ["policy", "explain", &file, "--app", &script, "--to", "192.0.2.1:1/tcp"];
    let answer = ravelin(&explain, "");
    let text = out(&answer);
    assert!(text.contains("its processes execute /bin/sh") && text.contains("wrapper.real"), "{text}");
}

#[test]
fn check_names_a_few_of_many_applications_and_all_of_them_to_a_tool() {
    let folder = Folder::new("check-many");
    let block = |at| format!("application a{at} {{ network 0.0.0.0/0, ::/0 untrusted; }}\n");
    let file = folder.file("policy", &(0..10).map(block).collect::<String>());
    let answer = ravelin(&["policy", "check", &file], "");
    assert!(out(&answer).contains("10 applications (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9), 0 errors"));
    let file = folder.file("policy", &(0..500).map(block).collect::<String>());
    let answer = ravelin(&["policy", "check", &file], "");
    assert!(out(&answer).contains("500 applications (a0, a1, a2,"), "{}", out(&answer));
    assert!(out(&answer).contains(" a9 and 490 more; --json has all), 0 errors"), "{}", out(&answer));
    let answer = ravelin(&["policy", "check", &file, "--json"], "");
    let document: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(document["applications"].as_array().map(Vec::len), Some(500));
}

#[test]
fn check_names_every_error_by_file_line_and_column_with_status_2() {
    let folder = Folder::new("check-errors");
    let file = folder.file(
        "policy",
        "application curl {\n    network 300.1.1.1 trusted;\n}\napplication w {\n  nework;\n}\n",
    );
    let answer = ravelin(&["policy", "check", &file], "");
    assert_eq!(code(&answer), 2);
    let text = err(&answer);
    assert!(text.contains("policy:2:13") && text.contains("policy:5:3"), "{text}");
    let answer = ravelin(&["policy", "check", &file, "--json"], "");
    assert_eq!(code(&answer), 2);
    let document: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(document["findings"][0]["at"]["line"], 2);
    assert_eq!(document["findings"][0]["severity"], "error");
    assert_eq!(code(&ravelin(&["policy", "check", "/nowhere/policy"], "")), 2);
}

#[test]
fn check_runs_the_tests_of_the_file_and_explain_knows_its_subjects() {
    let folder = Folder::new("check-tests");
    let policy = "application curl { network 0.0.0.0/0, ::/0 trusted; }
application curl from cron uid root { network 0.0.0.0/0, ::/0 untrusted; }
test \"cron\" {
  curl to 192.0.2.1:1/tcp trusted;
  curl from-program /usr/sbin/cron uid root to 192.0.2.1:1/tcp untrusted;
}
";
    let file = folder.file("policy", policy);
    let answer = ravelin(&["policy", "check", &file], "");
    assert_eq!(code(&answer), 0, "{}", err(&answer));
    assert!(out(&answer).contains("2 of 2 expectations came true"), "{}", out(&answer));
    let failing = policy.replace("1/tcp untrusted", "1/tcp trusted");
    let answer = ravelin(&["policy", "check", "-"], &failing);
    assert_eq!(code(&answer), 2);
    assert!(out(&answer).contains("1 of 2 expectations") && err(&answer).contains("RVL-P601"));
    let answer = ravelin(&["policy", "check", "-", "--json"], &failing);
    let document: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!((&document["tests"]["passed"], &document["tests"]["failed"]), (&1.into(), &1.into()));
    let ask = |more: &[&str]| {
        let mut args = vec!["policy", "explain", &file, "--app", "curl", "--to", "192.0.2.1:1/tcp", "--json"];
        args.extend(more);
        let answer = ravelin(&args, "");
        let document: Value = serde_json::from_slice(&answer.stdout).unwrap();
        document["decision"]["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask(&[]), "bypass");
    assert_eq!(ask(&["--parent", "/usr/sbin/cron", "--uid", "root"]), "discard");
    assert_eq!(ask(&["--parent", "/usr/sbin/cron", "--uid", "7"]), "bypass");
    assert_eq!(
        code(&ravelin(
            &["policy", "explain", &file, "--app", "curl", "--to", "192.0.2.1:1", "--uid", "no-one-here"],
            ""
        )),
        2
    );
}

#[test]
fn explain_says_verdict_block_and_line() {
    let folder = Folder::new("explain");
    let file = folder.file("policy", POLICY);
    let table = [
        ("curl", "192.0.2.7:443/tcp", "protect", Some(7)),
        ("/usr/bin/curl", "192.0.2.7:443/tcp", "protect", Some(7)),
        ("curl", "192.0.2.7:80/tcp", "discard", Some(3)),
        ("curl", "198.51.100.1:80/tcp", "bypass", Some(4)),
        ("curl", "[2001:db8::1]:443/udp", "bypass", Some(5)),
        ("wget", "192.0.2.7:443/tcp", "bypass", None),
    ];
    for (app, to, verdict, line) in table {
        let answer = ravelin(&["policy", "explain", &file, "--app", app, "--to", to, "--json"], "");
        assert_eq!(code(&answer), 0, "{}", err(&answer));
        let document: Value = serde_json::from_slice(&answer.stdout).unwrap();
        let decision = &document["decision"];
        assert_eq!(decision["verdict"], verdict, "{app} {to}: {document}");
        assert_eq!(decision["line"]["line"].as_u64(), line, "{app} {to}: {document}");
        assert_eq!(decision["block"]["line"].as_u64(), line.map(|_| 2), "{app} {to}: {document}");
        let answer = ravelin(&["policy", "explain", &file, "--app", app, "--to", to], "");
        assert!(out(&answer).contains(verdict), "{}", out(&answer));
    }
    for to in ["192.0.2.7", "x:1/tcp", "192.0.2.7:1/xyz"] {
        assert_eq!(code(&ravelin(&["policy", "explain", &file, "--app", "curl", "--to", to], "")), 2, "{to}");
    }
}

#[test]
fn fmt_is_stable_and_leaves_what_is_broken_alone() {
    let folder = Folder::new("fmt");
    let untidy = "application curl{network 0.0.0.0/0 trusted;}# end\n";
    let file = folder.file("policy", untidy);
    assert_eq!(code(&ravelin(&["policy", "fmt", "--check", &file], "")), 1);
    assert_eq!(code(&ravelin(&["policy", "fmt", &file], "")), 0);
    let once = std::fs::read_to_string(&file).unwrap();
    assert_ne!(once, untidy);
    assert!(once.contains("# end"), "{once}");
    assert_eq!(code(&ravelin(&["policy", "fmt", "--check", &file], "")), 0);
    assert_eq!(out(&ravelin(&["policy", "fmt", "-"], &once)), once);
    // What is broken stays as it is; what is not is set.
    let broken = folder.file("broken", "application {\napplication a{network ::/0   trustd;}\n");
    let answer = ravelin(&["policy", "fmt", &broken], "");
    assert_eq!(code(&answer), 2);
    assert!(err(&answer).contains("broken statements stay as they are"), "{}", err(&answer));
    let want = "application {\napplication a\n{\n  network ::/0   trustd;\n}\n";
    assert_eq!(std::fs::read_to_string(&broken).unwrap(), want);
    let octets = folder.file("octets", "");
    std::fs::write(&octets, b"application a { network ::/0 trusted; }\n\xff").unwrap();
    assert_eq!(code(&ravelin(&["policy", "fmt", &octets], "")), 2);
    assert_eq!(std::fs::read(&octets).unwrap().last(), Some(&0xff));
}

#[test]
fn a_configuration_with_faults_is_refused_with_every_place() {
    let folder = Folder::new("config");
    let file =
        folder.file("ravelin.toml", "polcy = \"p\"\n\n[[sa]]\nsuite = \"aes256gcm\"\nkey = \"0001\"\n");
    let answer = ravelin(&["run", "--config", &file], "");
    assert_eq!(code(&answer), 2);
    let text = err(&answer);
    for part in
        ["ravelin.toml:1:1", "did you mean `policy`", "ravelin.toml:5:1", "RFC 4106", "ravelin sa add"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(code(&ravelin(&["run", "--config", "/nowhere"], "")), 2);
    assert_eq!(code(&ravelin(&["run"], "")), 2);
}

#[test]
fn a_key_on_the_command_line_is_refused_and_not_repeated() {
    let key = "000102030405060708090a0b0c0d0e0f10111213";
    let rest = ["--direction", "out", "--spi", "1000", "--local", "192.0.2.1", "--remote", "192.0.2.2"];
    for extra in [vec![key], vec!["--key", key], vec!["--keymat", key]] {
        let mut args = vec!["sa", "add"];
        args.extend(rest);
        args.extend(extra);
        let answer = ravelin(&args, "");
        assert_eq!(code(&answer), 2);
        assert!(!err(&answer).contains("0102") && err(&answer).contains("--key-fd"), "{}", err(&answer));
    }
}

#[test]
fn bad_keys_are_refused_before_the_daemon_hears_of_them() {
    let args = [
        "sa",
        "add",
        "--direction",
        "out",
        "--spi",
        "0x1000",
        "--local",
        "192.0.2.1",
        "--remote",
        "192.0.2.2",
        "--mode",
        "transport",
        "--suite",
        "aes128gcm",
    ];
    for (key, part) in [("", "no keying material"), ("xyz", "character 1"), ("012", "odd number")] {
        let answer = ravelin(&args, key);
        assert_eq!(code(&answer), 2, "{}", err(&answer));
        assert!(err(&answer).contains(part), "{}", err(&answer));
    }
    let answer = ravelin(&args, &"0".repeat(5000));
    assert!(err(&answer).contains("that is no key"), "{}", err(&answer));
    let mut other = args.to_vec();
    other.extend(["--key-fd", "77"]);
    assert!(err(&ravelin(&other, "")).contains("descriptor 77"));
}

#[test]
fn what_no_daemon_could_take_is_refused_without_one() {
    let key = "000102030405060708090a0b0c0d0e0f10111213";
    let add = |direction: &str, spi: &str, suite: &str, more: &[&str], key: &str| {
        let args = ["sa", "add", "--control", "/nowhere/control.sock", "--mode", "transport"];
        let ends = ["--local", "192.0.2.1", "--remote", "192.0.2.2", "--suite", suite];
        let mut args = [&args[..], &ends, &["--direction", direction, "--spi", spi]].concat();
        args.extend(more);
        let answer = ravelin(&args, key);
        (code(&answer), err(&answer))
    };
    for (direction, spi, suite, more, key, words) in [
        (
            "out",
            "0x1000",
            "aes256gcm",
            &[][..],
            key,
            &["aes256gcm is 36 octets", "72 hexadecimal digits"][..],
        ),
        ("out", "0x1000", "aes512gcm", &[], key, &["aes512gcm", "aes128gcm"]),
        ("out", "0x1000", "null", &[], key, &["neither encrypts nor authenticates"]),
        ("out", "255", "aes128gcm", &[], key, &["reserved", "256 or more"]),
        ("out", "auto", "aes128gcm", &[], key, &["peer's choice"]),
        ("in", "0x1000", "aes128gcm", &["--replay-window", "100"], key, &["window of 100", "power of two"]),
        ("out", "0x1000", "aes128gcm", &["--replay-window", "64"], key, &["inbound associations"]),
        ("in", "0x1000", "aes128gcm", &["--next", "0x1001"], key, &["outbound associations"]),
        ("in", "0x1000", "aes128gcm", &["--class", "spi+dst"], key, &["write --match spi+dst"]),
    ] {
        let (code, error) = add(direction, spi, suite, more, key);
        assert_eq!(code, 2, "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert!(!error.contains("0a0b0c"), "{error}");
    }
    // One that is as it must be goes on to the daemon, which is not there.
    assert_eq!(add("out", "0x1000", "aes128gcm", &[], key).0, 3);
    // Only the daemon knows the classes of its graph.
    assert_eq!(add("out", "0x1000", "aes128gcm", &["--class", "voice"], key).0, 3);
}

#[test]
fn without_a_daemon_the_status_is_3() {
    let folder = Folder::new("nobody");
    let control = folder.0.join("control.sock").display().to_string();
    for command in [vec!["status"], vec!["sa", "list"], vec!["counters"], vec!["explain", "--pid", "1"]] {
        let mut args = command.clone();
        args.extend(["--control", &control]);
        let answer = ravelin(&args, "");
        assert_eq!(code(&answer), 3, "{command:?}: {}", err(&answer));
        assert!(err(&answer).contains("ravelin run"), "{}", err(&answer));
    }
    // A socket that nobody serves any more.
    drop(std::os::unix::net::UnixListener::bind(Path::new(&control)).unwrap());
    let answer = ravelin(&["status", "--control", &control], "");
    assert_eq!(code(&answer), 3);
    assert!(err(&answer).contains("has ended"), "{}", err(&answer));
}

#[test]
fn usage_errors_have_status_2() {
    for args in [vec!["explain"], vec!["explain", "--pid", "1", "--socket", "x"], vec!["nonsense"], vec![]] {
        assert_eq!(code(&ravelin(&args, "")), 2, "{args:?}");
    }
    assert_eq!(code(&ravelin(&["status", "--instance", "a/b"], "")), 2);
    assert_eq!(code(&ravelin(&["--version"], "")), 0);
}

#[test]
fn init_writes_what_the_other_commands_read_and_changes_nothing() {
    let folder = Folder::new("init");
    let (dir, units) = (folder.0.join("etc"), folder.0.join("units"));
    let args = ["init", "--dir", dir.to_str().unwrap(), "--systemd", units.to_str().unwrap()];
    let first = ravelin(&args, "");
    assert_eq!(code(&first), 0, "{}", err(&first));
    assert_eq!(out(&first).matches("wrote ").count(), 4, "{}", out(&first));
    let policy = dir.join("main.policy");
    let check = ravelin(&["policy", "check", policy.to_str().unwrap()], "");
    assert_eq!(code(&check), 0, "{}", err(&check));
    let config = config::Config::load(&dir.join("ravelin.toml")).unwrap();
    assert_eq!(config.policy, policy);
    // The example is a policy too.
    let text = std::fs::read_to_string(&policy).unwrap();
    let example: Vec<&str> =
        text.lines().skip(3).map(|line| line.trim_start_matches('#').trim_start_matches(' ')).collect();
    let check = ravelin(&["policy", "check", "-"], &example.join("\n"));
    assert_eq!(code(&check), 0, "{}", err(&check));
    assert!(out(&check).contains('1'), "{}", out(&check));
    for (name, word) in [("ravelin-boot.service", " boot --config "), ("ravelin.service", " run --config ")] {
        let unit = std::fs::read_to_string(units.join(name)).unwrap();
        assert!(unit.contains(word) && unit.contains("ravelin.toml"), "{unit}");
        assert!(!["@PROGRAM@", "@CONFIG@", "@FOLDER@"].iter().any(|left| unit.contains(left)), "{unit}");
    }
    std::fs::write(&policy, "mine").unwrap();
    let again = ravelin(&args, "");
    assert_eq!((code(&again), out(&again).matches("left as it is").count()), (0, 4));
    assert_eq!(std::fs::read_to_string(&policy).unwrap(), "mine");
    let nowhere = ravelin(&["init", "--dir", "/proc/nowhere"], "");
    assert_eq!(code(&nowhere), 1);
    assert!(err(&nowhere).contains("another folder"), "{}", err(&nowhere));
}

#[test]
fn names_are_what_the_command_line_says_they_are() {
    let folder = Folder::new("names");
    let text = "application curl {\n  network host.example protected P;\n  network 0.0.0.0/0, ::/0 untrusted;\n  \
                protection P { encryption mandatory; }\n}\n";
    let file = folder.file("policy", text);
    let ask = |more: &[&str]| {
        let args = ["policy", "explain", &file, "--app", "curl", "--to", "192.0.2.7:443/tcp"];
        ravelin(&[&args[..], more].concat(), "")
    };
    let unknown = ask(&[]);
    assert!(
        out(&unknown).contains("discard")
            && out(&unknown).contains("no address is known here of host.example")
    );
    let known = ask(&["--name", "Host.example=192.0.2.7"]);
    assert!(
        out(&known).contains("protect") && out(&known).contains("by name `host.example`"),
        "{}",
        out(&known)
    );
    assert_eq!(code(&ask(&["--name", "host.example"])), 2);
    let checked = ravelin(&["policy", "check", &file], "");
    assert!(code(&checked) == 0 && err(&checked).contains("RVL-P510"), "{}", err(&checked));
}

#[test]
fn a_line_is_checked_and_asked_for_without_a_process() {
    let folder = Folder::new("inline");
    let good = folder
        .file("line.toml", "outside = \"eth0\"\ninside = \"eth1\"\nprofile = \"strict\"\nworkers = 2\n");
    let checked = ravelin(&["inline", "check", "--config", &good, "--json"], "");
    assert_eq!(code(&checked), 0, "{}", err(&checked));
    let document: serde_json::Value = serde_json::from_str(&out(&checked)).unwrap();
    assert_eq!((&document["api"], &document["settings"]["profile"]), (&1.into(), &"strict".into()));
    let bad = folder.file("bad.toml", "outside = \"eth0\"\ninside = \"eth1\"\n[rules]\n\"T.1\" = \"off\"\n");
    for args in [&["inline", "check", "--config", &bad][..], &["inline", "run", "--config", &bad]] {
        let refused = ravelin(args, "");
        assert_eq!(code(&refused), 2, "{args:?}");
        assert!(err(&refused).contains("bad.toml:4:1: error: rule T.1"), "{}", err(&refused));
    }
    for args in [
        &["inline", "run"][..],
        &["inline", "run", "--outside", "eth0"],
        &["inline", "run", "--outside", "eth0", "--inside", "eth0"],
        &["inline", "run", "--outside", "eth0", "--inside", "eth1", "--rule", "Q.8=maybe"],
        &["inline", "run", "--outside", "eth0", "--inside", "eth1", "--profile", "none"],
        &["inline", "explain", "nobody"],
    ] {
        assert_eq!(code(&ravelin(args, "")), 2, "{args:?}");
    }
    for word in ["status", "rules", "flows", "explain", "watch"] {
        let nobody = ravelin(&["inline", word, "--instance", "no-such-line"], "");
        assert_eq!(code(&nobody), 3, "{word}: {}", err(&nobody));
        assert!(err(&nobody).contains("ravelin inline detach"), "{}", err(&nobody));
    }
}

#[test]
fn the_key_manager_of_the_examples_says_in_a_line_that_no_daemon_runs() {
    let folder = Folder::new("keymanager");
    let secret = folder.file("secret", "of both");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/keymanager.py");
    let run = |extra: &[&str]| {
        let output = Command::new("python3").arg(program).args(extra).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let absent = folder.0.join("c.sock").display().to_string();
    let (status, text) = run(&["--psk-file", &secret, "--control", &absent]);
    assert_eq!((status, text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains(&absent) && text.contains("--control"), "{text}");
    // The default is the socket of the default instance.
    let (_, help) = run(&["--help"]);
    assert!(help.contains("/run/ravelin/main/control.sock"), "{help}");
}
