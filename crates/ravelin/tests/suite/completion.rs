//! Completion: the scripts are sound, and a shell gets words, files and what a daemon knows.

use std::process::Command;

use crate::kit::{Folder, RAVELIN, answer, daemon, err, out, ravelin, run};

/// What bash offers for the last of these words.
fn offered(words: &[&str]) -> Vec<String> {
    let folder = std::path::Path::new(RAVELIN).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let script = "source <(ravelin completions bash)\n\
                  COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)) COMP_TYPE=9\n\
                  _clap_complete_ravelin ravelin \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"\n\
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let done = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", script, "bash"])
        .args(words)
        .env("PATH", path)
        .env_remove("RAVELIN_COMPLETE")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(done.status.success() && err(&done).is_empty(), "{words:?}: {}", err(&done));
    out(&done).lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_scripts_are_sound_to_their_shells() {
    let folder = Folder::new("completions");
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&run(&["completions", shell]));
        assert!(script.contains("RAVELIN_COMPLETE") && !script.contains(RAVELIN), "{script}");
        let file = folder.file(shell, &script);
        match Command::new(shell).args(["-n", &file]).output() {
            Ok(read) => assert!(read.status.success() && err(&read).is_empty(), "{shell}: {}", err(&read)),
            Err(_) => println!("skipped: completion in {shell}, which is not installed"),
        }
    }
    assert!(out(&run(&["completions", "zsh"])).starts_with("#compdef ravelin\n"));
    assert_eq!(run(&["completions", "csh"]).status.code(), Some(2));
}

#[test]
fn bash_completes_commands_options_values_and_files() {
    assert_eq!(offered(&["ravelin", "compl"]), ["completions"]);
    assert_eq!(offered(&["ravelin", "policy", "ch"]), ["check"]);
    assert_eq!(offered(&["ravelin", "status", "--un"]), ["--units"]);
    // Options stand behind the values.
    assert_eq!(offered(&["ravelin", "completions", ""])[..3], ["bash", "zsh", "fish"]);
    assert!(offered(&["ravelin", "sa", "add", "--mode", "t"]).contains(&"tunnel".to_owned()));
    let commands = offered(&["ravelin", ""]);
    assert!(
        commands.contains(&"status".to_owned()) && !commands.contains(&"man-pages".to_owned()),
        "{commands:?}"
    );
    let folder = Folder::new("completion-files");
    let file = folder.file("only.policy", "");
    let start = file.strip_suffix("y.policy").unwrap();
    assert_eq!(offered(&["ravelin", "policy", "check", start]), [file]);
}

#[test]
fn bash_completes_the_value_behind_an_equals_sign() {
    let folder = Folder::new("completion-equals");
    let file = folder.file("only.sock", "");
    let start = file.strip_suffix("y.sock").unwrap();
    // As bash parts them: the equals sign is a word of its own.
    assert_eq!(offered(&["ravelin", "status", "--control", "=", start]), [file.as_str()]);
    assert_eq!(offered(&["ravelin", "status", "--color", "=", "ne"]), ["never"]);
    assert!(offered(&["ravelin", "status", "--color", "="]).iter().any(|one| one == "always"));
    // Words behind such a value stay where they are.
    assert_eq!(offered(&["ravelin", "--color", "=", "never", "compl"]), ["completions"]);
    assert_eq!(offered(&["ravelin", "policy", "check", "a=b", "--js"]), ["--json"]);
}

/// The line that zsh makes of this one, with a tab at its end: typed on a terminal of its own, and written to a file.
fn completed_by_zsh(folder: &Folder, line: &str) -> String {
    let functions = folder.0.join("functions");
    std::fs::create_dir_all(&functions).unwrap();
    std::fs::write(functions.join("_ravelin"), out(&run(&["completions", "zsh"]))).unwrap();
    let (ready, result) = (folder.0.join("ready"), folder.0.join("line"));
    for file in [&ready, &result] {
        let _ = std::fs::remove_file(file);
    }
    let wait = |file: &std::path::Path| {
        format!(
            "for (( i = 0; i < 300; i++ )); do [[ -s {} ]] && break; zpty -r -t shell > /dev/null; sleep 0.1; done\n",
            file.display()
        )
    };
    let script = format!(
        "zmodload zsh/zpty; zpty shell zsh -f -i\n\
         zpty -w shell 'fpath=({functions} $fpath); autoload -Uz compinit; compinit -D -u; print ready > {ready}'\n\
         {initialised}\
         zpty -w -n shell '{line}'$'\\t\\C-aprint -r -- \\C-e > {result}\\n'\n\
         {completed}\
         zpty -d shell\n",
        functions = functions.display(),
        ready = ready.display(),
        initialised = wait(&ready),
        result = result.display(),
        completed = wait(&result),
    );
    let done = shell("zsh").args(["-f", "-c", &script]).output().unwrap();
    std::fs::read_to_string(&result).unwrap_or_else(|_| panic!("{line}: {} {}", out(&done), err(&done)))
}

/// The candidates that fish has for this line.
fn completed_by_fish(line: &str) -> Vec<String> {
    let script = format!("ravelin completions fish | source; complete --do-complete '{line}'");
    let done = shell("fish").args(["--no-config", "-c", &script]).output().unwrap();
    assert!(done.status.success() && err(&done).is_empty(), "{line}: {}", err(&done));
    let words = out(&done);
    words.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect()
}

/// A shell in whose path the program stands.
fn shell(name: &str) -> Command {
    let folder = std::path::Path::new(RAVELIN).parent().unwrap();
    let mut command = Command::new(name);
    command.env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    command.env("TERM", "xterm").env_remove("RAVELIN_COMPLETE").stdin(std::process::Stdio::null());
    command
}

fn is_there(shell: &str) -> bool {
    let found = Command::new(shell).arg("--version").output().is_ok();
    if !found {
        println!("skipped: completion in {shell}, which is not installed");
    }
    found
}

#[test]
fn zsh_completes_a_line_on_a_terminal() {
    if !is_there("zsh") {
        return;
    }
    let folder = Folder::new("completion-zsh");
    assert_eq!(completed_by_zsh(&folder, "ravelin compl").trim(), "ravelin completions");
    assert_eq!(completed_by_zsh(&folder, "ravelin policy ch").trim(), "ravelin policy check");
    assert_eq!(completed_by_zsh(&folder, "ravelin status --un").trim(), "ravelin status --units");
}

#[test]
fn fish_completes_commands_options_and_values() {
    if !is_there("fish") {
        return;
    }
    assert_eq!(completed_by_fish("ravelin compl"), ["completions"]);
    assert_eq!(completed_by_fish("ravelin policy ch"), ["check"]);
    assert_eq!(completed_by_fish("ravelin status --un"), ["--units"]);
    assert_eq!(completed_by_fish("ravelin --color ne"), ["never"]);
}

#[test]
fn names_come_from_the_daemon_that_the_words_name() {
    let folder = Folder::new("completion-daemon");
    let socket = folder.0.join("c.sock");
    let counts = r#""outbound":{"packets":0,"bytes":0},"inbound":{"packets":0,"bytes":0}"#;
    let rule = |name: &str| {
        format!(
            r#"{{"position":0,"name":"{name}","direction":"both","selectors":["any"],"action":"bypass",{counts}}}"#
        )
    };
    let list = format!(r#"{{"api":1,"rules":[{},{},{}]}}"#, rule("web"), rule("voice"), rule("two words"));
    daemon(&socket, move |stream| answer(stream, &list));
    let at = socket.display().to_string();
    assert_eq!(offered(&["ravelin", "spd", "del", "--control", &at, "v"]), ["voice"]);
    // Options stand beside names; what a shell would take apart is left out.
    let all = offered(&["ravelin", "spd", "del", "--control", &at, ""]);
    assert!(["voice", "web"].iter().all(|name| all.iter().any(|one| one == name)), "{all:?}");
    assert!(!all.iter().any(|one| one.contains("two")), "{all:?}");
    // Another document than the one asked for is no answer.
    assert_eq!(offered(&["ravelin", "sa", "del", "--control", &at, "0"]), [] as [&str; 0]);
}

#[test]
fn without_a_daemon_or_with_one_that_is_stuck_nothing_is_offered_and_nothing_said() {
    let folder = Folder::new("completion-stuck");
    let nowhere = folder.0.join("nowhere.sock").display().to_string();
    assert_eq!(offered(&["ravelin", "spd", "del", "--control", &nowhere, "v"]), [] as [&str; 0]);
    let socket = folder.0.join("c.sock");
    // It takes the request and never answers: the test ends only if the completion gives up by itself.
    let kept = std::sync::Mutex::new(Vec::new());
    daemon(&socket, move |stream| kept.lock().unwrap().push(stream));
    let at = socket.display().to_string();
    assert_eq!(offered(&["ravelin", "spd", "del", "--control", &at, "v"]), [] as [&str; 0]);
    // An unknown shell is no reason to run the command that stands there.
    let strange =
        ravelin().env("RAVELIN_COMPLETE", "csh").args(["--", "ravelin", "version"]).output().unwrap();
    assert!(!out(&strange).contains("ravelin 0"), "{}", out(&strange));
}
