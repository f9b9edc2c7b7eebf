//! Files that break and heal, and the numbers of applications.

use super::*;

struct Scene {
    dir: PathBuf,
    store: PolicyStore,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let dir = std::env::temp_dir().join(format!("ravelin-policy-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let store = PolicyStore::new(
            &dir.join("policy"),
            Some(&dir),
            &crypto::Suites::standard(),
            &Default::default(),
        )
        .unwrap();
        Scene { dir, store }
    }

    fn load(&mut self, text: &str) -> Candidate {
        fs::write(self.store.file(), text).unwrap();
        self.store.read().unwrap()
    }

    fn put(&mut self, text: &str) {
        let candidate = self.load(text);
        self.store.commit_numbers(&candidate).unwrap();
        self.store.adopt(candidate, 1);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn refused(scene: &Scene, text: &str) -> String {
    fs::write(scene.store.file(), text).unwrap();
    match scene.store.read() {
        Ok(_) => panic!("{text} is taken"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_subject_is_taken() {
    let mut scene = Scene::new("subjects");
    let mut text = String::new();
    for subject in ["curl uid 33", "curl from cron", "unit x.service", "cgroup /a", "anonymous", "uid 7"] {
        text += &format!("application {subject} {{ network ::/0 trusted; }}\n");
    }
    let candidate = scene.load(&(text + "default { network ::/0 trusted; }"));
    assert_eq!((candidate.errors, candidate.compiled.applications.len()), (0, 7));
}

#[test]
fn a_policy_may_name_the_classes_that_are_in_force_when_it_is_read() {
    let mut scene = Scene::new("classes");
    let text = "application curl { network 0.0.0.0/0, ::/0 protected P; protection P { encryption require class ef; } }";
    let candidate = scene.load(text);
    assert_eq!(
        (candidate.errors, candidate.compiled.applications.len()),
        (1, 0),
        "{}",
        candidate.diagnostics
    );
    assert!(candidate.diagnostics.contains("RVL-P311") && candidate.diagnostics.contains("no graph"));
    let classes = qos::graph::Aggregates::default();
    scene.store.classes().set(classes.clone().only(|name| name == "ef"));
    scene.put(text);
    assert_eq!(scene.store.refused.len(), 0);
    let of = |scene: &Scene| {
        let app = scene.store.app("curl").unwrap();
        scene.store.compiled.spd.get(app).unwrap().protections()[0][0].terms.class
    };
    assert_eq!(of(&scene), classes.find("ef").unwrap());
    // The next graph lacks it: the same text is broken, and what protects stays in force.
    scene.store.classes().set(classes.only(|name| name == "be"));
    let candidate = scene.load(text);
    assert!(candidate.errors == 1 && candidate.diagnostics.contains("the graph has no class `ef`"));
    scene.store.adopt(candidate, 2);
    assert_eq!((scene.store.kept.len(), scene.store.compiled.spd.apps().count()), (1, 1));
}

#[test]
fn a_file_whose_tests_fail_is_not_loaded_at_all() {
    let mut scene = Scene::new("tests");
    scene.put(GOOD);
    let text = format!("{GOOD}test \"t\" {{\n  curl to 192.0.2.1:1/tcp trusted;\n}}\n");
    let error = refused(&scene, &text);
    assert!(
        error.contains("its tests fail") && error.contains("RVL-P601") && error.contains("line 1"),
        "{error}"
    );
    let unreadable = format!("{GOOD}test \"t\" {{\n  curl 192.0.2.1:1/tcp trusted;\n}}\n");
    assert!(refused(&scene, &unreadable).contains("RVL-P118"));
    let text = text.replace("trusted;\n}", "encryption require;\n}");
    assert_eq!(scene.load(&text).errors, 0);
    // A block with errors is left out, and lines about it are not asked; others are.
    let broken = text.replace("network 192.0.2.0/24 protected P;", "network 192.0.2.0/24 protectd P;");
    assert_eq!(scene.load(&broken).errors, 1);
    let other = broken.replace("curl to", "wget to");
    assert!(refused(&scene, &other).contains("RVL-P601"));
}

const GOOD: &str = "application curl { network 192.0.2.0/24 protected P; protection P { localport=any remoteport=any \
                    encryption mandatory; } }\napplication wget { network 0.0.0.0/0 trusted; }\n";
/// The first block lost a semicolon; the second changed.
const BROKEN: &str = "application curl { network 192.0.2.0/24 protected P protection P { localport=any remoteport=any \
                      encryption mandatory; } }\napplication wget { network 0.0.0.0/0 untrusted; }\n";

fn flow(remote: &str) -> Flow {
    Flow {
        opaque: false,
        local: "192.0.2.1".parse().unwrap(),
        remote: remote.parse().unwrap(),
        local_port: 40000,
        remote_port: 80,
        protocol: 6,
    }
}

#[test]
fn a_broken_block_keeps_its_last_good_version_and_others_change() {
    let mut scene = Scene::new("last-good");
    scene.put(GOOD);
    let (curl, wget) = (scene.store.app("curl").unwrap(), scene.store.app("wget").unwrap());
    let before = scene.store.decision(curl, &flow("192.0.2.9"));
    assert_eq!(before.verdict, api::Verdict::Protect);

    let candidate = scene.load(BROKEN);
    assert!(candidate.errors > 0);
    assert_eq!(candidate.refused.len(), 1);
    assert!(candidate.refused[0].kept_last_good && candidate.refused[0].application == "curl");
    scene.store.adopt(candidate, 2);

    let after = scene.store.decision(curl, &flow("192.0.2.9"));
    assert_eq!(after.verdict, api::Verdict::Protect);
    assert_eq!(after.item, before.item);
    assert!(after.notes.iter().any(|n| n.contains("last good version")));
    assert_eq!(scene.store.decision(wget, &flow("192.0.2.9")).verdict, api::Verdict::Discard);

    scene.put(GOOD);
    assert!(scene.store.refused.is_empty() && scene.store.kept.is_empty());
    assert!(scene.store.decision(curl, &flow("192.0.2.9")).notes.iter().all(|n| !n.contains("last good")));
}

#[test]
fn a_block_that_was_never_good_has_no_policy() {
    let mut scene = Scene::new("never-good");
    let candidate = scene.load(BROKEN);
    assert_eq!(candidate.refused.len(), 1);
    assert!(!candidate.refused[0].kept_last_good);
    assert!(candidate.diagnostics.contains("policy:1:"), "{}", candidate.diagnostics);
}

#[test]
fn an_error_that_hides_other_blocks_takes_no_policy_away() {
    let mut scene = Scene::new("hidden");
    scene.put(GOOD);
    let wget = scene.store.app("wget").unwrap();
    for broken in ["application \"curl {", "/* application curl", "application curl { application", "\u{1}"] {
        let candidate = scene.load(broken);
        assert!(candidate.errors > 0, "{broken}");
        assert!(candidate.kept.contains(&wget), "{broken}");
        assert_eq!(candidate.compiled.spd.get(wget), scene.store.compiled.spd.get(wget), "{broken}");
    }
    let broken = scene.load("application \"curl {");
    assert!(scene.store.lost(&broken).is_empty());
    // Without an error nothing tells whether it was meant: who loads it is told what goes (`Plane::reload`).
    let candidate = scene.load("");
    assert!(candidate.errors == 0 && candidate.compiled.spd.get(wget).is_none());
    assert_eq!(scene.store.lost(&candidate), ["curl", "wget"]);
    let cut = scene.load(GOOD.split_inclusive('\n').next().unwrap());
    assert_eq!(scene.store.lost(&cut), ["wget"]);
}

#[test]
fn an_unreadable_file_changes_nothing() {
    let mut scene = Scene::new("unreadable");
    scene.put(GOOD);
    fs::remove_file(scene.store.file()).unwrap();
    assert!(scene.store.read().is_err());
    assert_eq!(scene.store.compiled.applications.len(), 2);
}

#[test]
fn numbers_outlive_the_store_and_are_not_given_out_twice() {
    let mut scene = Scene::new("numbers");
    scene.put(GOOD);
    let wget = scene.store.app("wget").unwrap();
    let mut later = PolicyStore::new(
        scene.store.file(),
        Some(&scene.dir),
        &crypto::Suites::standard(),
        &Default::default(),
    )
    .unwrap();
    fs::write(
        scene.store.file(),
        "application new { network 0.0.0.0/0 trusted; }\napplication wget { network 0.0.0.0/0 trusted; }",
    )
    .unwrap();
    let candidate = later.read().unwrap();
    later.commit_numbers(&candidate).unwrap();
    later.adopt(candidate, 1);
    assert_eq!(later.app("wget"), Some(wget));
    assert!(later.app("new").unwrap().0 > 2);
    fs::write(scene.dir.join(NUMBERS), "not json").unwrap();
    assert!(
        PolicyStore::new(
            scene.store.file(),
            Some(&scene.dir),
            &crypto::Suites::standard(),
            &Default::default()
        )
        .is_err()
    );
}

#[test]
fn executables_are_found_by_path_and_by_name() {
    let mut scene = Scene::new("executables");
    let block = "{ network 0.0.0.0/0 trusted; }\n";
    let subjects =
        ["sh", "/bin/sh", "/nowhere/x", "no-such-program", "env from sh", "uid 5 from sh", "anonymous"];
    let text: String = subjects.iter().map(|subject| format!("application {subject} {block}")).collect();
    scene.put(&text);
    let found = executables(&scene.store.compiled);
    let sh = fs::metadata("/bin/sh").unwrap();
    let owners: BTreeSet<AppId> =
        found.iter().filter(|e| e.identity == (sh.dev(), sh.ino())).map(|e| e.app).collect();
    let app = |name| scene.store.app(name).unwrap();
    assert_eq!(owners, BTreeSet::from([app("/bin/sh"), app("sh"), AppId::NONE]));
    assert!(found.iter().any(|e| e.app == app("env from sh")));
    assert!(!found.iter().any(|e| e.app == app("/nowhere/x") || e.app == app("no-such-program")));
}

#[test]
fn a_renamed_application_lends_its_policy_to_its_old_number() {
    let mut scene = Scene::new("renamed");
    scene.put(GOOD);
    let (curl, wget) = (scene.store.app("curl").unwrap(), scene.store.app("wget").unwrap());
    let rename = |to: &str| GOOD.replace("application curl", &format!("application {to}"));

    let mut candidate = scene.load(&rename("/usr/bin/curl"));
    let path = candidate.compiled.find("/usr/bin/curl").unwrap().id;
    assert_eq!(candidate.compiled.spd.get(curl), None);
    // wget is still in the policy: that one of its files went elsewhere changes nothing.
    candidate.follow(&[(curl, path), (wget, path)]);
    assert_eq!(candidate.compiled.spd.get(curl), candidate.compiled.spd.get(path));
    assert_ne!(candidate.compiled.spd.get(wget), candidate.compiled.spd.get(path));
    assert_eq!(candidate.renamed, Renamed::from([(curl, BTreeSet::from([path]))]));
    assert_eq!(orders(&candidate), [], "their tables are the same");
    scene.store.commit_numbers(&candidate).unwrap();
    scene.store.adopt(candidate, 1);

    // Once more, and by a later daemon.
    let later = PolicyStore::new(
        scene.store.file(),
        Some(&scene.dir),
        &crypto::Suites::standard(),
        &Default::default(),
    )
    .unwrap();
    let mut again = later.read().unwrap();
    again.follow(&[]);
    assert_eq!(again.compiled.spd.get(curl), again.compiled.spd.get(path));
    let mut third = scene.load(&rename("/opt/curl"));
    let opt = third.compiled.find("/opt/curl").unwrap().id;
    third.follow(&[(path, opt)]);
    assert_eq!(third.renamed.keys().copied().collect::<Vec<_>>(), [curl, path]);
    assert!(third.renamed.values().all(|to| *to == BTreeSet::from([opt])));
    scene.store.adopt(third, 2);

    // Back to the first name; then gone, as it was meant.
    let mut back = scene.load(GOOD);
    back.follow(&[(opt, curl)]);
    assert_eq!(back.renamed.keys().copied().collect::<Vec<_>>(), [path, opt]);
    scene.store.adopt(back, 3);
    let mut gone = scene.load("application wget { network 0.0.0.0/0 trusted; }");
    gone.follow(&[]);
    assert!(gone.renamed.is_empty() && gone.compiled.spd.get(path).is_none());
}

#[test]
fn a_program_split_in_two_leaves_the_stricter_policy_behind() {
    let mut scene = Scene::new("split");
    scene.put(GOOD);
    let curl = scene.store.app("curl").unwrap();
    let protect = |name: &str, network: &str| {
        format!(
            "application {name} {{ network {network} protected P; protection P {{ localport=any remoteport=any \
             encryption mandatory; }} }}\n"
        )
    };
    let cases = [
        ("192.0.2.0/25", "192.0.2.0/24", Order::Weaker),
        ("192.0.2.0/24", "198.51.100.0/24", Order::Incomparable),
    ];
    for (first, second, order) in cases {
        let mut candidate = scene.load(&(protect("/a/curl", first) + &protect("/b/curl", second)));
        let id = |name| candidate.compiled.find(name).unwrap().id;
        let (a, b) = (id("/a/curl"), id("/b/curl"));
        candidate.follow(&[(curl, a), (curl, b)]);
        let all = orders(&candidate);
        if order == Order::Weaker {
            assert_eq!(candidate.compiled.spd.get(curl), candidate.compiled.spd.get(b));
            assert_eq!(all, []);
        } else {
            // The stamp may follow the process to either.
            assert_eq!(candidate.compiled.spd.get(curl), candidate.compiled.spd.get(a));
            assert_eq!(all, [((curl, b), Order::Weaker)]);
        }
    }
}

#[test]
fn a_path_that_moves_is_seen_whatever_file_is_there() {
    let at = |app, path: &str, inode| Executable { app: AppId(app), path: path.into(), identity: (1, inode) };
    let before = [at(1, "/usr/bin/curl", 10), at(2, "/usr/bin/wget", 11)];
    let now = [at(3, "/usr/bin/curl", 12), at(2, "/usr/bin/wget", 13)];
    assert_eq!(moved_paths(&before, &now), [(AppId(1), AppId(3))]);
    // With more qualifiers: to any of them; as an ancestor: to nobody.
    let split = [at(3, "/usr/bin/curl", 10), at(4, "/usr/bin/curl", 10), at(0, "/usr/bin/wget", 11)];
    assert_eq!(moved_paths(&before, &split), [(AppId(1), AppId(3)), (AppId(1), AppId(4))]);
}

#[test]
fn an_error_takes_guard_away_from_nobody_and_the_whole_text_is_kept_for_a_boot() {
    let mut scene = Scene::new("guard");
    let guarded = format!("{GOOD}guard {{ network 192.0.2.0/24 untrusted; }}\n");
    let last = last_policy::path(scene.store.file());
    scene.put(&guarded);
    assert_eq!(fs::read_to_string(&last).unwrap(), guarded);
    let closed = scene.store.compiled.spd.guard.clone();
    assert_eq!(closed.networks().len(), 1);
    scene.put(&format!("{GOOD}guard {{ network 192.0.2.0/24 untrusted\n"));
    assert_eq!(scene.store.compiled.spd.guard, closed);
    assert!(scene.store.refused.iter().any(|b| b.application == policy::GUARD && b.kept_last_good));
    assert_eq!(fs::read_to_string(&last).unwrap(), guarded, "a text with errors is not the last good one");
    let without = scene.load(GOOD);
    assert_eq!(scene.store.lost(&without), [policy::GUARD]);
    assert_eq!(scene.store.changed(&without.compiled), [policy::GUARD]);
    scene.put(GOOD);
    assert!(scene.store.compiled.spd.guard.networks().is_empty());
    assert_eq!(fs::read_to_string(&last).unwrap(), GOOD);
}
