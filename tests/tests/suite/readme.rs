//! The commands of README.md, run as they stand on two hosts: each block says on which. Needs root. And the policies and
//! commands of other pages for administrators, which are asked of the program and not run.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::rig::{Rig, RigOptions};
use lab::{Program, Side};
use tests::{PATIENCE, binary, program, wait_until};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The blocks of a page in a language: `sh` for commands.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let parts = page.split(&fence).skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

/// The commands of this program in a page, without what a shell reads behind them: those of blocks, and those in lines of prose.
fn commands(page: &str) -> Vec<String> {
    let prose: String = page.split("```").step_by(2).collect();
    let spans = prose.split('`').skip(1).step_by(2).map(str::to_owned);
    let lines = blocks(page, "sh").into_iter().map(|block| block.replace("\\\n", " "));
    let whole: Vec<String> = lines.chain(spans.map(|span| span.replace('\n', " "))).collect();
    let parts = whole.iter().flat_map(|text| text.split(['\n', '|', ';', '&', '<', '>', '#', '(']));
    parts.map(str::trim).filter(|part| part.starts_with("ravelin ")).map(str::to_owned).collect()
}

/// The text that a command prints with `--help`; without a command, the list of all of them.
fn help(words: &[&str]) -> String {
    let mut command = Command::new(binary());
    match words {
        [] => command.args(["help", "--all"]),
        words => command.args(words).arg("--help"),
    };
    let done = command.output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

/// Panics unless the program has the command and its options.
fn exists(command: &str) {
    let names = |help: &str, word: &str| {
        let list =
            help.split_once("\nCommands:\n").map(|(_, list)| list.split("\n\n").next().unwrap().to_owned());
        list.map(|list| {
            list.lines().any(|line| line.starts_with("  ") && line.split_whitespace().next() == Some(word))
        })
    };
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let mut depth = 0;
    let mut known = help(&[]);
    while let Some(is_there) = names(&known, words.get(depth).unwrap_or(&"")) {
        assert!(is_there, "{command}: there is no such command");
        depth += 1;
        known = help(&words[..depth]);
    }
    let options: Vec<&str> = known.split(|c: char| c.is_whitespace() || c == ',').collect();
    for option in words[depth..].iter().filter(|word| word.starts_with('-') && word.len() > 1) {
        assert!(options.contains(&option.split('=').next().unwrap()), "{command}: there is no {option}");
    }
}

/// The hosts that a block's first line names; none: it is about the repository.
fn hosts(block: &str) -> Vec<Side> {
    let first = block.lines().next().unwrap_or_default();
    let named =
        |side: &Side| first.starts_with('#') && first.split(" who ").next().unwrap().contains(side.name());
    Side::BOTH.into_iter().filter(named).collect()
}

/// `ravelin` with the instance, the folder and the control group of a host of the lab, for the host of the reader has its own.
fn wrapper(rig: &Rig, side: Side) -> PathBuf {
    let folder = rig.folder().join(side.name());
    fs::create_dir_all(folder.join("etc")).unwrap();
    let own = format!(
        "instance = \"{}\"\nuplinks = [\"eth0\"]\ncgroup = \"{}\"\n",
        rig.instance(side),
        rig.lab.host(side).cgroup().path().display()
    );
    fs::write(folder.join("own.toml"), own).unwrap();
    let script = format!(
        "#!/bin/sh\nset -e\ncase $1 in\n\
         init) {real} init --dir {etc}; cat {folder}/own.toml {etc}/ravelin.toml > {folder}/all.toml\n\
         mv {folder}/all.toml {etc}/ravelin.toml;;\n\
         run|policy|doctor) exec {real} \"$@\";;\n*) exec {real} \"$@\" --instance {instance};;\nesac\n",
        real = binary().display(),
        etc = folder.join("etc").display(),
        folder = folder.display(),
        instance = rig.instance(side)
    );
    let path = folder.join("ravelin");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Run a block on a host, and say what it printed.
fn run(rig: &Rig, side: Side, folder: &Path, block: &str) -> String {
    let etc = folder.join("etc").display().to_string();
    let log = folder.join("background").display().to_string();
    // What goes on behind the block must not hold its output.
    let script =
        block.replace("/etc/ravelin", &etc).replace(" &\n", &format!(" >>{log} 2>&1 </dev/null &\n"));
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let shell = Program::new(program("sh")).args(["-ec", &script]).env("PATH", path).directory(rig.folder());
    let done = rig.lab.host(side).run_program(shell, PATIENCE * 2).unwrap();
    assert!(done.status.success(), "{script}\n{}{}", done.out(), done.err());
    done.out()
}

#[test]
fn the_commands_of_the_readme_do_what_it_says() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let makefile = fs::read_to_string(repository().join("Makefile")).unwrap();
    let options =
        RigOptions { name: "rvl-readme".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let rig = Rig::build(&options).unwrap();
    assert_eq!([Side::Alice, Side::Bob].map(|side| side.v4().to_string()), ["198.51.100.1", "198.51.100.2"]);
    let folders = Side::BOTH.map(|side| wrapper(&rig, side));
    let mut said = String::new();
    let all = blocks(&readme, "sh");
    assert!(all.len() >= 6, "{all:?}");
    for block in all {
        let on = hosts(&block);
        for line in block.lines().filter(|_| on.is_empty()) {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["make", ref targets @ ..] => {
                    let is_one = |target: &&str| makefile.contains(&format!("\n{target}: "));
                    assert!(targets.iter().all(is_one), "{line}");
                }
                ["ravelin", "doctor"] => {
                    let doctor = Program::new(binary()).arg("doctor");
                    let done = rig.lab.alice().run_program(doctor, PATIENCE).unwrap();
                    assert!(done.out().contains("kernel"), "{}", done.out());
                }
                _ => panic!("who runs this? {line:?}"),
            }
        }
        for side in on {
            let folder = &folders[side as usize];
            said.push_str(&run(&rig, side, folder, &block));
            if block.contains("ravelin run") {
                let log = || fs::read_to_string(folder.join("background")).unwrap_or_default();
                wait_until(&format!("the daemon of {}: {}", side.name(), log()), PATIENCE, || {
                    rig.command(side, &["status"], "")
                        .is_ok_and(|done| matches!(done.status.code(), Some(0 | 1)))
                });
            }
            if block.contains("http.server") {
                let listens = Program::new(program("sh"))
                    .args(["-c", "while ! ss -Htln sport = 80 | grep -q .; do sleep 0.1; done"]);
                rig.lab.host(side).run_program(listens, PATIENCE).unwrap();
            }
        }
    }
    // curl has got the page, and the figures say that it came encrypted and nothing in clear.
    assert!(said.contains("Directory listing"), "{said}");
    let row =
        said.lines().find(|line| line.contains("curl") && line.contains(" out ")).expect("a row of curl's");
    let columns: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((columns[1], columns[2], columns[3]), ("out", "-", "-"), "{said}");
    assert!(columns[4] != "-", "{said}");
    // What it started in the background ends as an administrator would end it.
    for side in Side::BOTH {
        let pid = rig.json(side, &["status"]).unwrap()["pid"].as_u64().unwrap();
        let end = Program::new(program("sh")).args(["-c", &format!("kill {pid}")]);
        assert!(rig.lab.host(side).run_program(end, PATIENCE).unwrap().status.success());
        wait_until("the end of a daemon", PATIENCE, || !Path::new(&format!("/proc/{pid}")).exists());
        rig.ravelin(side, &["detach", "--yes"], "").unwrap();
        assert!(!Path::new("/sys/fs/bpf/ravelin").join(rig.instance(side)).exists());
    }
}

#[test]
fn the_policies_and_commands_of_the_recipes_and_remedies_are_those_of_this_program() {
    let page = |name: &str| fs::read_to_string(repository().join("docs").join(name)).unwrap();
    let (recipes, remedies) = (page("recipes.md"), page("troubleshooting.md"));
    let policies = blocks(&recipes, "policy");
    assert!(policies.len() >= 10, "{policies:?}");
    for policy in policies {
        let mut check = Command::new(binary());
        check.args(["policy", "check", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = check.spawn().unwrap();
        running.stdin.take().unwrap().write_all(policy.as_bytes()).unwrap();
        let done = running.wait_with_output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap().iter();
        // The reader's host may have programs and units that this one lacks; peers in no network are a note.
        let is_elsewhere = |code: &str| ["RVL-P412", "RVL-P414", "RVL-P501"].contains(&code);
        let wrong: Vec<_> = findings.filter(|one| !is_elsewhere(one["code"].as_str().unwrap())).collect();
        assert!(done.status.success() && wrong.is_empty(), "{policy}{wrong:?}");
    }
    for text in [&recipes, &remedies] {
        let all = commands(text);
        assert!(all.len() >= 20, "{all:?}");
        all.iter().for_each(|command| exists(command));
    }
    // Every code that status may give a flow has its remedy.
    let manual = page("man/ravelin.1.md");
    let table =
        manual.split("| code | nothing gets through, for |").nth(1).unwrap().split("\n\n").next().unwrap();
    let first = table.lines().skip(2).filter_map(|line| line.split('|').nth(1));
    let codes: Vec<&str> = first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(codes.len() >= 14, "{codes:?}");
    for code in codes {
        assert!(remedies.contains(&format!("| `{code}` |")), "troubleshooting.md says nothing of {code}");
    }
}
