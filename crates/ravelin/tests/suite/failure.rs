//! A failure with `--json` is one document; exit statuses tell its kinds apart.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::kit::{Folder, RAVELIN, daemon, err, out, run};

/// The error of an output that is one document and nothing else.
fn error(output: &Output) -> Value {
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|bad| panic!("{bad}: {output:?}"));
    assert_eq!(document["api"], 1, "{document}");
    assert_eq!(document["error"]["exit"], output.status.code().unwrap(), "{document}");
    document["error"].clone()
}

#[test]
fn a_failure_is_a_document_with_its_kind_and_its_remedy() {
    let folder = Folder::new("failure");
    let nowhere = folder.0.join("nowhere.sock").display().to_string();
    let done = run(&["status", "--json", "--control", &nowhere]);
    let found = error(&done);
    assert_eq!((&found["code"], &found["exit"]), (&"unreachable".into(), &3.into()), "{found}");
    assert!(found["message"].as_str().unwrap().contains(&nowhere), "{found}");
    assert!(found["remedy"].as_str().unwrap().contains("ravelin run"), "{found}");
    // People read the same on standard error, with `--json` or without.
    let text = err(&run(&["status", "--control", &nowhere]));
    assert_eq!((text.as_str(), err(&done)), (&*err(&done), text.clone()));
    assert!(out(&run(&["status", "--control", &nowhere])).is_empty());

    let found = error(&run(&["policy", "check", "--json", "/nowhere/policy"]));
    assert_eq!((&found["code"], &found["exit"]), (&"bad_request".into(), &2.into()), "{found}");
    // Arguments that clap refuses, also of a command without documents.
    let found = error(&run(&["status", "--json", "--untis"]));
    assert_eq!(found["message"], "unexpected argument '--untis' found");
    assert!(found["remedy"].as_str().unwrap().contains("--units"), "{found}");
    assert_eq!(error(&run(&["no-such-command", "--json"]))["exit"], 2);
    assert_eq!(error(&run(&["sa", "add", "--json", "--key", "00"]))["exit"], 2);
    // Behind `--` it is no option.
    assert!(out(&run(&["status", "--control", &nowhere, "--", "--json"])).is_empty());
}

#[test]
fn a_document_that_says_what_is_wrong_stays_the_only_one() {
    let folder = Folder::new("failure-document");
    let file = folder.file("policy", "application curl {\n    network 300.1.1.1 trusted;\n}\n");
    let done = run(&["policy", "check", "--json", &file]);
    assert_eq!(done.status.code(), Some(2));
    let document: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&document["ok"], &document["error"]), (&false.into(), &Value::Null));
}

#[test]
fn what_the_daemon_refuses_keeps_its_word() {
    let folder = Folder::new("failure-refused");
    let socket = folder.0.join("c.sock");
    let refusal = r#"{"api":1,"error":{"code":"conflict","message":"it is there","remedy":"take another"}}"#;
    daemon(&socket, move |stream| crate::kit::answer(stream, refusal));
    let done = run(&["status", "--json", "--control", &socket.display().to_string()]);
    let found = error(&done);
    assert_eq!(
        found,
        serde_json::json!({"code": "conflict", "message": "it is there", "remedy": "take another", "exit": 1})
    );
    assert_eq!(err(&done), "ravelin: it is there; take another\n");
}

#[test]
fn who_may_not_use_the_socket_gets_status_5() {
    let folder = Folder::new("failure-nobody");
    std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Where the program was built may be closed to others.
    let program = folder.0.join("ravelin");
    std::fs::hard_link(RAVELIN, &program).or_else(|_| std::fs::copy(RAVELIN, &program).map(drop)).unwrap();
    let socket = folder.0.join("c.sock");
    daemon(&socket, drop);
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600)).unwrap();
    let closed = folder.0.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    for control in [socket, closed.join("c.sock")] {
        let mut command = Command::new(&program);
        command.args(["status", "--json", "--control"]).arg(&control).stdin(Stdio::null());
        // Needs root, as whoever changes the user does.
        let done = command.uid(65534).gid(65534).current_dir("/").output().unwrap();
        assert_eq!(done.status.code(), Some(5), "{}", err(&done));
        let found = error(&done);
        assert_eq!(found["code"], "not_allowed", "{found}");
        assert!(found["message"].as_str().unwrap().ends_with("permission denied"), "{found}");
        assert_eq!(found["remedy"], "only root may ask the daemon");
    }
}

#[test]
fn who_is_not_root_may_not_detach_and_hears_so() {
    let folder = Folder::new("failure-detach");
    std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.0.join("ravelin");
    std::fs::hard_link(RAVELIN, &program).or_else(|_| std::fs::copy(RAVELIN, &program).map(drop)).unwrap();
    let detach = || {
        let mut command = Command::new(&program);
        command.args(["detach", "--yes", "--instance", "no-such-instance"]).stdin(Stdio::null());
        command
    };
    // Needs root, as whoever changes the user does.
    let done = detach().uid(65534).gid(65534).current_dir("/").output().unwrap();
    assert_eq!(done.status.code(), Some(5), "{}", err(&done));
    assert!(err(&done).contains("not allowed") && err(&done).contains("only root may"), "{}", err(&done));
    assert_eq!(crate::kit::out(&done), "");
    let root = detach().output().unwrap();
    assert_eq!(root.status.code(), Some(0), "{}", err(&root));
}
