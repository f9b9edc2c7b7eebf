//! Colour and width: what a terminal gets, what a pipe gets, and who decides.

use std::process::{Command, Output};

use crate::kit::{Folder, RAVELIN, err, out, ravelin};

const ESCAPE: char = '\u{1b}';
const BROKEN: &str = "application curl {\n    network 300.1.1.1 trusted;\n}\n";

/// Run it on a terminal of its own, which `script` makes.
fn on_a_terminal(line: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new("script");
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm").envs(environment.iter().copied());
    command.args(["--quiet", "--return", "--command", line, "/dev/null"]);
    command.stdin(std::process::Stdio::null()).output().expect("script(1) is part of every Debian")
}

#[test]
fn a_pipe_has_no_colour_unless_it_is_forced() {
    let folder = Folder::new("color-pipe");
    let file = folder.file("policy", BROKEN);
    let colored = |args: &[&str], environment: &[(&str, &str)]| {
        let done = ravelin().args(args).envs(environment.iter().copied()).output().unwrap();
        let text = out(&done) + &err(&done);
        assert!(!text.is_empty());
        text.contains(ESCAPE)
    };
    for args in [
        &["policy", "check", &file][..],
        &["no-such-command"],
        &["help"],
        &["help", "--all"],
        &["status", "-h"],
    ] {
        let with = |option: &[&'static str]| {
            let mut all: Vec<&str> = option.to_vec();
            all.extend(args);
            all
        };
        assert!(!colored(args, &[]), "{args:?}");
        assert!(!colored(args, &[("TERM", "xterm-256color"), ("CLICOLOR", "1")]), "{args:?}");
        assert!(colored(args, &[("CLICOLOR_FORCE", "1")]), "{args:?}");
        assert!(colored(args, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")]), "{args:?}");
        assert!(!colored(args, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), "{args:?}");
        assert!(colored(&with(&["--color", "always"]), &[("NO_COLOR", "1")]), "{args:?}");
        assert!(!colored(&with(&["--color=never"]), &[("CLICOLOR_FORCE", "1")]), "{args:?}");
    }
    // The last one holds.
    let twice = |first: &str, last: &str| {
        colored(&["--color", first, "policy", "check", &file, &format!("--color={last}")], &[])
    };
    assert!(twice("never", "always") && !twice("always", "never"));
    assert!(!colored(&["policy", "check", &file, "--color", "always", "--color", "never"], &[]));
    // Behind the command too.
    assert!(colored(&["policy", "check", &file, "--color", "always"], &[]));
    let wrong = ravelin().args(["status", "--color", "blue"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("blue"), "{}", err(&wrong));
}

#[test]
fn a_terminal_has_colour_unless_the_environment_says_no() {
    let folder = Folder::new("color-terminal");
    let file = folder.file("policy", BROKEN);
    let line = format!("{RAVELIN} policy check {file}");
    let text = out(&on_a_terminal(&line, &[]));
    assert!(text.contains(ESCAPE) && text.contains("300.1.1.1"), "{text}");
    for (line, environment) in [
        (line.clone(), [("NO_COLOR", "1")]),
        (line.clone(), [("TERM", "dumb")]),
        (line.clone(), [("CLICOLOR", "0")]),
        (format!("{line} --color never"), [("CLICOLOR_FORCE", "1")]),
    ] {
        let text = out(&on_a_terminal(&line, &environment));
        assert!(!text.contains(ESCAPE) && text.contains("300.1.1.1"), "{environment:?}: {text}");
    }
    assert!(out(&on_a_terminal(&format!("{line} --color always"), &[("TERM", "dumb")])).contains(ESCAPE));
}

#[test]
fn what_doctor_finds_has_the_colour_of_its_state() {
    let done = ravelin().args(["doctor", "--color", "always"]).output().unwrap();
    let text = out(&done);
    // Bold green: some check is good on every host, such as the architecture's.
    assert!(text.contains("\u{1b}[1m\u{1b}[32mok"), "{text}");
    let plain = out(&ravelin().arg("doctor").output().unwrap());
    assert!(plain.contains("ok    ") && !plain.contains(ESCAPE), "{plain}");
}

#[test]
fn a_table_is_as_wide_as_the_terminal_and_whole_in_a_pipe() {
    let wide = out(&ravelin().args(["scrub", "--rules"]).output().unwrap());
    let longest = wide.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest > 100, "{wide}");
    let narrow = out(&on_a_terminal(&format!("stty rows 24 cols 72; {RAVELIN} scrub --rules"), &[]));
    let longest = narrow.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
    assert!(longest <= 72 && longest > 40, "{longest}: {narrow}");
    // Nothing is cut off: the same letters, over more lines. A word longer than its column is broken.
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        letters.sort_unstable();
        letters
    };
    assert_eq!(letters(&narrow), letters(&wide));
}

#[test]
fn the_name_of_a_hostile_program_does_not_steer_a_terminal() {
    let folder = Folder::new("color-hostile");
    // Clears the screen, sets the title and goes back to the start of the line.
    let name = "x\u{1b}[2J\u{1b}]0;owned\u{7}\ry";
    let program = folder.file(name, "#!/bin/sh\n");
    let socket = folder.0.join("c.sock");
    let counts = r#""outbound":{"packets":0,"bytes":0},"inbound":{"packets":0,"bytes":0}"#;
    let rule = serde_json::json!(name);
    let list = format!(
        r#"{{"api":1,"rules":[{{"position":0,"name":{rule},"direction":"both","selectors":["any"],"action":"bypass",{counts}}}]}}"#
    );
    crate::kit::daemon(&socket, move |stream| crate::kit::answer(stream, &list));
    for line in [
        // What a policy may say of a program, and what is said of one that is not there.
        format!("{RAVELIN} policy digest '{program}'"),
        format!("{RAVELIN} policy digest '{program}.gone'"),
        // What a daemon answers.
        format!("{RAVELIN} spd list --control {}", socket.display()),
    ] {
        let shown = out(&on_a_terminal(&line, &[("NO_COLOR", "1")]));
        assert!(shown.contains("owned"), "{shown:?}");
        // The terminal itself makes "\r\n" of a line's end.
        let steering =
            shown.replace("\r\n", "\n").contains(|c: char| c.is_control() && c != '\n' && c != '\t');
        assert!(!steering, "{line:?}: {shown:?}");
    }
}
