//! Which block speaks for a process: the compiled list against a slow reading of the syntax tree, and what order means.

use std::cmp::Ordering;

use policy::ast::{Group, Program, Subject, Users};
use policy::{
    AppTable, Code, Compiled, Executables, Facts, Host, Image, Parsed, Process, RunningProgram, compile,
    parse_for,
};
use proptest::prelude::*;

/// One user, and one unit that is not in the usual slice.
struct ThisHost;

impl Host for ThisHost {
    fn user(&self, name: &str) -> Option<u32> {
        (name == "alice").then_some(1)
    }

    fn unit_file(&self, unit: &str) -> Option<String> {
        match unit {
            "u.service" => Some(String::new()),
            "v.service" => Some("[Service]\nSlice=x.slice\n".into()),
            _ => None,
        }
    }
}

fn parsed(text: &str) -> Parsed {
    parse_for("p", text, &ThisHost)
}

fn compiled(text: &str) -> Compiled {
    compile(&parsed(text), &mut AppTable::new(), 1)
}

/// The control group of a unit of this world.
fn group_of(unit: &str) -> &'static str {
    match unit {
        "u.service" => "/system.slice/u.service",
        _ => "/x.slice/v.service",
    }
}

fn is_image(named: &str, program: &str) -> bool {
    named == program || (!named.starts_with('/') && program.rsplit('/').next() == Some(named))
}

fn path(subject: &Subject) -> Option<String> {
    subject.group.as_ref().map(|group| match group {
        Group::Path(name) => name.text.clone(),
        Group::Unit(name) => group_of(&name.text).to_string(),
    })
}

fn users(subject: &Subject) -> Option<(u32, u32)> {
    subject.user.as_ref().map(|user| match user.users {
        Users::Range(first, last) => (first, last),
        Users::Named(_) => (1, 1),
    })
}

/// Whether the process is one of those a subject speaks of, read off its words.
fn fits(subject: &Subject, process: &Process) -> bool {
    let program = match (&subject.program, &process.program) {
        (Program::Any, _) => true,
        (Program::Anonymous, RunningProgram::Anonymous) => true,
        (Program::Named(named), RunningProgram::Program(program)) => is_image(&named.name.text, program),
        _ => false,
    };
    let from = match &subject.from {
        None => true,
        Some(from) => process.ancestors.iter().any(|a| is_image(&from.name.text, a)),
    };
    let group = match path(subject) {
        None => true,
        Some(path) => {
            process.group.as_ref().is_some_and(|own| *own == path || own.starts_with(&format!("{path}/")))
        }
    };
    let user = match users(subject) {
        None => true,
        Some((first, last)) => process.user.is_some_and(|user| (first..=last).contains(&user)),
    };
    program && from && group && user
}

/// Which of two subjects is the more specific: docs/design/0010.
fn specific(a: &Subject, b: &Subject) -> Ordering {
    let program = |s: &Subject| match &s.program {
        Program::Named(named) if named.name.text.starts_with('/') => 3,
        Program::Named(_) => 2,
        Program::Anonymous => 1,
        Program::Any => 0,
    };
    let from = |s: &Subject| match &s.from {
        Some(from) if from.name.text.starts_with('/') => 2,
        Some(_) => 1,
        None => 0,
    };
    let depth = |s: &Subject| path(s).map_or(0, |path| path.split('/').count());
    let narrow =
        |s: &Subject| users(s).map_or(-(1i64 << 33), |(first, last)| i64::from(first) - i64::from(last));
    program(a)
        .cmp(&program(b))
        .then(from(a).cmp(&from(b)))
        .then(depth(a).cmp(&depth(b)))
        .then(narrow(a).cmp(&narrow(b)))
}

fn chosen(parsed: &Parsed, process: &Process) -> Option<String> {
    let all = parsed.blocks.iter().flat_map(|block| &block.subjects);
    all.filter(|subject| fits(subject, process)).max_by(|a, b| specific(a, b)).map(Subject::name)
}

fn one(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

fn subject() -> impl Strategy<Value = String> {
    let program = one(&["a", "/bin/a", "/usr/bin/a", "b", "anonymous", "", ""]);
    let from = one(&["", "", "from c", "from /bin/c"]);
    let group = one(&[
        "",
        "",
        "cgroup /x",
        "cgroup /x/y",
        "unit u.service",
        "unit \"v.service\"",
        "cgroup /system.slice",
    ]);
    let user = one(&["", "", "uid 1", "uid alice", "uid 0-9", "uid 2-3", "uid 5-14"]);
    (program, from, group, user).prop_map(|(p, f, g, u)| {
        let words: Vec<&str> = [p, f, g, u].into_iter().filter(|word| !word.is_empty()).collect();
        words.join(" ")
    })
}

fn block(subject: &str) -> String {
    match subject {
        "" => "default {\n}\n".into(),
        subject => format!("application {subject} {{\n}}\n"),
    }
}

fn process() -> impl Strategy<Value = Process> {
    let program = prop_oneof![
        one(&["a", "/bin/a", "/usr/bin/a", "/opt/a", "b", "/bin/b", "z"])
            .prop_map(|p| RunningProgram::Program(p.into())),
        Just(RunningProgram::Anonymous),
        Just(RunningProgram::Unnamed),
    ];
    let ancestors = prop::collection::vec(one(&["c", "/bin/c", "/usr/bin/c", "/bin/d"]), 0..3);
    let group = prop::option::of(one(&[
        "/x",
        "/x/y",
        "/x/yz",
        "/x/y/z",
        "/system.slice/u.service/sub",
        "/x.slice/v.service",
        "/system.slice",
    ]));
    let user = prop::option::of(prop::sample::select(vec![0u32, 1, 2, 6, 12, 20]));
    (program, ancestors, group, user).prop_map(|(program, ancestors, group, user)| Process {
        program,
        ancestors: ancestors.into_iter().map(String::from).collect(),
        group: group.map(String::from),
        user,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_list_says_what_the_tree_says(
        subjects in prop::collection::vec(subject(), 1..12), processes in prop::collection::vec(process(), 1..40),
        turn in any::<prop::sample::Index>()
    ) {
        let text: String = subjects.iter().map(|s| block(s)).collect();
        let (parsed, compiled) = (parsed(&text), compiled(&text));
        // Those that are left out are doubles or users that overlap.
        let codes: Vec<Code> = parsed.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.code).collect();
        let known = [Code::DuplicateApplication, Code::AmbiguousUsers];
        prop_assert!(codes.iter().all(|code| known.contains(code)), "{}", parsed.render(false));
        for process in &processes {
            let got = compiled.find_process(process).map(|app| app.name.clone());
            prop_assert_eq!(&got, &chosen(&parsed, process), "{:?}\n{}", process, text);
        }
        // Sound blocks in another order are the same policy.
        if codes.is_empty() {
            let mut turned = subjects.clone();
            turned.rotate_left(turn.index(subjects.len()));
            turned.reverse();
            let turned: String = turned.iter().map(|s| block(s)).collect();
            let turned = compile(&parse_for("p", &turned, &ThisHost), &mut AppTable::new(), 1);
            for process in &processes {
                let name = |c: &Compiled| c.find_process(process).map(|app| app.name.clone());
                prop_assert_eq!(name(&compiled), name(&turned), "{:?}\n{}", process, text);
            }
        }
    }

    #[test]
    fn a_subject_reads_as_it_was_written(subject in subject()) {
        prop_assume!(!subject.is_empty());
        let first = parsed(&block(&subject));
        let name = first.blocks[0].subjects[0].text();
        let again = parsed(&block(&name));
        prop_assert_eq!(&again.blocks[0].selectors, &first.blocks[0].selectors);
        prop_assert_eq!(again.blocks[0].subjects[0].text(), name);
    }
}

#[test]
fn names_that_look_like_subjects_are_other_names() {
    let text = "application \"a uid 7\" {} application a uid 7 {} application \"anonymous\" {} application anonymous {}
                application \"default\" {} application from {} default {}";
    let parsed = parsed(text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    let compiled = compiled(text);
    let names: Vec<&str> = compiled.applications.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(
        names,
        ["\"a uid 7\"", "a uid 7", "\"anonymous\"", "anonymous", "\"default\"", "\"from\"", "default"]
    );
    let of = |process: &Process| compiled.find_process(process).unwrap().name.clone();
    assert_eq!(of(&Process::running("a uid 7")), "\"a uid 7\"");
    assert_eq!(of(&Process { user: Some(7), ..Process::running("/bin/a") }), "a uid 7");
    assert_eq!(of(&Process::running("anonymous")), "\"anonymous\"");
    assert_eq!(of(&Process { program: RunningProgram::Anonymous, ..Process::default() }), "anonymous");
    assert_eq!(of(&Process::running("anything")), "default");
}

#[test]
fn numbers_of_subjects_stay_over_loads() {
    let mut table = AppTable::new();
    let old = compile(&parsed("application a {} application a uid 7 {}"), &mut table, 1);
    let new = compile(&parsed("application a uid 7 {} application b {} application a {}"), &mut table, 2);
    for name in ["a", "a uid 7"] {
        assert_eq!(old.find(name).unwrap().id, new.find(name).unwrap().id, "{name}");
    }
}

#[test]
fn each_application_says_what_it_is_chosen_by() {
    let digest = "0".repeat(64);
    let compiled = compiled(&format!(
        "application /bin/a sha256 {digest} from c cgroup /x uid 1, b, anonymous, unit u.service, from /bin/d sha256 {digest}, uid 2-3 {{\n}}\n\
         default {{\n}}\n"
    ));
    let said: Vec<String> = compiled.applications.iter().map(|app| app.chosen_by.join(" ")).collect();
    let want =
        ["program digest from cgroup uid", "program", "anonymous", "unit", "digest from", "uid", "default"];
    assert_eq!(said, want);
}

/// A process of which some things must not be asked.
struct Lazy<'p> {
    process: &'p Process,
    asked: &'p mut Vec<&'static str>,
}

impl Facts for Lazy<'_> {
    fn executes(&mut self, executables: &Executables) -> bool {
        self.process.executes(executables)
    }

    fn descends_from(&mut self, image: &Image) -> bool {
        self.asked.push("ancestors");
        self.process.descends_from(image)
    }

    fn group(&mut self) -> Option<&str> {
        self.asked.push("group");
        self.process.group()
    }

    fn user(&mut self) -> Option<u32> {
        self.asked.push("user");
        self.process.user()
    }
}

#[test]
fn what_costs_is_asked_only_where_a_subject_needs_it() {
    let compiled = compiled(
        "application /bin/a from c {\n}\napplication /bin/a cgroup /x uid 1 {\n}\napplication /bin/b from c cgroup /y {\n}\n\
         default {\n}\n",
    );
    let of = |process: &Process| {
        let mut asked = Vec::new();
        let app = compiled.subjects.choose(Lazy { process, asked: &mut asked });
        assert_eq!(app, compiled.subjects.choose(process));
        (compiled.application(app.unwrap()).unwrap().name.clone(), asked)
    };
    let (a, b) = (Process::running("/bin/a"), Process::running("/bin/b"));
    // Its own subjects alone: not `cgroup`, where `from` has decided.
    let descendant = Process { ancestors: vec!["/bin/c".into()], ..a.clone() };
    assert_eq!(of(&descendant), ("/bin/a from c".into(), vec!["ancestors"]));
    let placed = Process { group: Some("/x/z".into()), user: Some(1), ..a };
    assert_eq!(of(&placed), ("/bin/a cgroup /x uid 1".into(), vec!["ancestors", "group", "user"]));
    // The group rules `from` out before anybody looks for ancestors.
    assert_eq!(of(&b), ("default".into(), vec!["group"]));
    assert_eq!(of(&Process::running("/bin/z")), ("default".into(), vec![]));
}
