//! A cipher of one's own in use (paper 004): named in the configuration and in policy, keyed by a key manager, on the wire, and
//! through a take-over.

use std::path::{Path, PathBuf};

use crate::privileges::has_the_rights;
use lab::rig::{Rig, RigOptions};
use lab::{Eavesdropper, Program, Running, Side};
use tests::{
    PATIENCE, binary, copy_of_python, counted, json_lines, monitor, one_line, program, tcp_server, wait_for,
};

const TCP: u16 = 7031;
const CIPHER: &str = "[[cipher]]\nbuiltin = \"maes512\"\n";
const SUITE: &str = "maes512ctr-sha256";

/// A policy that protects everything between the hosts, by these terms.
fn policy(app: &Path, peer: Side, terms: &str) -> String {
    format!(
        "application \"{}\" {{\n  network {}, {} protected P;\n  protection P {{ encryption mandatory {terms}; }}\n}}\n",
        app.display(),
        peer.v4(),
        peer.v6()
    )
}

/// Two hosts with a policy of these terms and this configuration, in which SIDE is the name of the host.
fn build(name: &str, terms: &str, configuration: &str) -> (Rig, PathBuf) {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    let app = copy_of_python(rig.folder(), "app");
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.set_policy(side, &policy(&app, peer, terms)).unwrap();
        rig.configure(side, &configuration.replace("SIDE", &format!("{side:?}")));
    }
    rig.start_both().unwrap();
    std::fs::write(rig.folder().join("secret"), "a secret that both hosts share").unwrap();
    (rig, app)
}

/// The key manager of the examples, for a suite.
fn key_manager(rig: &Rig, side: Side, suite: &str) -> Running {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/keymanager.py");
    let manager = Program::new(program("python3"))
        .arg(script)
        .arg("--control")
        .arg(format!("/run/ravelin/{}/control.sock", rig.instance(side)))
        .args(["--listen", &side.v4().to_string(), "--listen", &side.v6().to_string(), "--suite", suite])
        .arg("--psk-file")
        .arg(rig.folder().join("secret"));
    let manager = rig.lab.host(side).spawn(manager).unwrap();
    manager.wait_for_output("ready", PATIENCE).unwrap();
    manager
}

fn spis(rig: &Rig) -> Vec<String> {
    let list = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    list["sas"].as_array().unwrap().iter().map(|sa| format!("{} {}", sa["spi"], sa["suite"])).collect()
}

#[test]
fn it_is_agreed_on_protects_and_outlives_a_take_over() {
    let (mut rig, app) = build("rvl-own", &format!("suite {SUITE}"), CIPHER);
    let _server = tcp_server(&rig, &app, TCP);
    let managers = [key_manager(&rig, Side::Alice, SUITE), key_manager(&rig, Side::Bob, SUITE)];
    let wire = Eavesdropper::listen(&rig.lab, &[]);
    let said = || format!("{} {}", managers[0].output(), managers[1].output());
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let (out, err) = one_line(&rig, &app, &address, TCP, 40_000);
        assert_eq!(out.trim(), "same", "{address}: {err} {}", said());
    }
    let before = spis(&rig);
    assert_eq!(before.len(), 4, "{before:?}");
    assert!(before.iter().all(|one| one.contains(SUITE)), "{before:?}");
    wire.assert_no_clear("under a cipher of one's own", |flow| {
        [flow.local_port, flow.remote_port].contains(&TCP)
    });

    // What key managers agree on is told: the number, the lengths, and whose number it is.
    let status = rig.json(Side::Alice, &["status"]).unwrap();
    let units = status["crypto"].as_array().unwrap();
    let unit = units.iter().find(|unit| unit["suite"] == SUITE).unwrap();
    let custom = &unit["custom"];
    assert_eq!((&custom["transform_id"], &custom["key_bits"]), (&61_440.into(), &512.into()), "{custom}");
    assert_eq!((&custom["integrity"], &custom["keymat_octets"]), (&"sha256".into(), &100.into()), "{custom}");
    assert_eq!(custom["fingerprint"].as_str().map(str::len), Some(64), "{custom}");
    let cipher = &status["ciphers"][0];
    assert_eq!(
        (&cipher["name"], &cipher["isolation"]),
        (&"maes512".into(), &"compiled in".into()),
        "{cipher}"
    );
    assert_eq!(cipher["fingerprint"], custom["fingerprint"]);
    let list = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    assert_eq!(list["sas"][0]["isolation"], "compiled in", "{list}");
    assert!(
        rig.ravelin(Side::Alice, &["sa", "list"], "").unwrap().contains("maes512ctr-sha256 (compiled in)")
    );

    // A daemon without the cipher takes nothing over; the one that runs keeps its keys.
    rig.configure(Side::Alice, "");
    let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
    assert!(!refused.status.success(), "{}", refused.err());
    assert_eq!(spis(&rig), before);
    // Its policy names the suite, so it would refuse that first.
    let plain = policy(&app, Side::Bob, "");
    std::fs::write(rig.policy_file(Side::Alice), &plain).unwrap();
    let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
    let why = "associations use the cipher maes512, which the new daemon does not have";
    assert!(!refused.status.success() && refused.err().contains(why), "{}", refused.err());
    assert_eq!(spis(&rig), before);

    // One that has it goes on with the same associations.
    rig.configure(Side::Alice, CIPHER);
    std::fs::write(rig.policy_file(Side::Alice), policy(&app, Side::Bob, &format!("suite {SUITE}"))).unwrap();
    let old = rig.release(Side::Alice).unwrap();
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    old.finish(PATIENCE).unwrap();
    assert_eq!(spis(&rig), before);
    let (out, err) = one_line(&rig, &app, &Side::Bob.v4().to_string(), TCP, 40_000);
    assert_eq!(out.trim(), "same", "{err} {}", said());
    assert_eq!(spis(&rig), before, "no new keys were needed");
    wire.assert_no_clear("after the take-over", |flow| [flow.local_port, flow.remote_port].contains(&TCP));
}

/// A folder that nobody but root can write, nor the folders above: a daemon loads from no other. It goes with this value.
struct RootFolder(PathBuf);

impl RootFolder {
    fn new(name: &str) -> RootFolder {
        let path = Path::new("/run").join(format!("ravelin-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        RootFolder(path)
    }
}

impl Drop for RootFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A cipher in a library, compiled into the rig's folder; the lines of the configuration that name it.
fn library(folder: &Path) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ciphers");
    let manifest = folder.join("aes256c.json");
    let out = format!("OUT={}", folder.display());
    let made =
        std::process::Command::new("make").arg("-C").arg(here).arg(out).arg(&manifest).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let digest = digest(&manifest);
    format!("[[cipher]]\nmanifest = \"{}\"\nsha256 = \"{digest}\"\ndeadline = 500\n", manifest.display())
}

/// The state of the worker of the first cipher, and its process.
fn worker(rig: &Rig, side: Side) -> (String, u32) {
    let answer = rig.command(side, &["status", "--json"], "").unwrap().out();
    let status: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let text = status["ciphers"][0]["worker"].as_str().unwrap_or_else(|| panic!("{status}")).to_owned();
    let pid =
        text.split("process ").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0);
    (text, pid)
}

#[test]
fn a_library_runs_in_a_worker_whose_death_costs_its_own_packets_alone() {
    let folder = RootFolder::new("own-worker");
    let suite = "aes256cctr-sha256";
    let configuration =
        format!("{}[audit]\nfile = \"{}/SIDE.jsonl\"\n", library(&folder.0), folder.0.display());
    let audit = folder.0.join(format!("{:?}.jsonl", Side::Alice));
    let (mut rig, app) = build("rvl-ownworker", &format!("suite {suite}"), &configuration);
    let (before, pid) = worker(&rig, Side::Alice);
    assert!(before.starts_with("up, process ") && pid > 1, "{before}");
    let daemon = rig.daemon(Side::Alice).unwrap().pid();
    let tasks = std::fs::read_dir(format!("/proc/{daemon}/task")).unwrap();
    let name = |task: PathBuf| std::fs::read_to_string(task.join("comm")).unwrap_or_default();
    assert!(tasks.filter_map(Result::ok).any(|task| name(task.path()).trim() == "rvl-cipher"));
    has_the_rights(daemon);
    let _server = tcp_server(&rig, &app, TCP);
    let managers = [key_manager(&rig, Side::Alice, suite), key_manager(&rig, Side::Bob, suite)];
    let wire = Eavesdropper::listen(&rig.lab, &[]);
    let said = || format!("{} {}", managers[0].output(), managers[1].output());
    let transfer = |rig: &Rig| one_line(rig, &app, &Side::Bob.v4().to_string(), TCP, 40_000);
    let (out, err) = transfer(&rig);
    assert_eq!(out.trim(), "same", "{err} {}", said());

    // It has no capability, and a filter of system calls is in force.
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    for line in ["CapEff:\t0000000000000000", "Seccomp:\t2", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{line}: {status}");
    }

    // It is ended from outside: another one takes its keys, and the same associations go on.
    let spis = spis(&rig);
    let events = monitor(&rig, Side::Alice);
    kill(pid);
    wait_for("the next worker", PATIENCE, || {
        let (text, now) = worker(&rig, Side::Alice);
        if text.starts_with("up") && now != pid { Ok(()) } else { Err(text) }
    });
    for change in ["failed", "restarted"] {
        let told = |line: &str| {
            line.contains(r#""event":"cipher""#) && line.contains(&format!(r#""change":"{change}""#))
        };
        wait_for("the events", PATIENCE, || {
            let (output, entries) = (events.output(), json_lines(&audit));
            let is_entry = |entry: &serde_json::Value| {
                entry["event"] == format!("cipher_{change}") && entry["cipher"] == "aes256c"
            };
            let done = output.lines().any(told) && entries.iter().any(is_entry);
            if done { Ok(()) } else { Err(format!("{output} {entries:?}")) }
        });
    }
    let (out, err) = transfer(&rig);
    assert_eq!(out.trim(), "same", "{err} {}", said());
    assert_eq!(self::spis(&rig), spis);
    wire.assert_no_clear("with a worker that was ended", |flow| {
        [flow.local_port, flow.remote_port].contains(&TCP)
    });
    let status = rig.json(Side::Alice, &["status"]).unwrap();
    let counts = &status["ciphers"][0]["counts"];
    assert!(counts["restarts"].as_u64() >= Some(1) && counts["ahead"].as_u64() > Some(0), "{counts}");
    let stats = rig.ravelin(Side::Alice, &["stats"], "").unwrap();
    assert!(stats.contains("workers were started behind the first one"), "{stats}");

    // Its successor has a worker of its own, which takes the keys.
    let old = rig.release(Side::Alice).unwrap();
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    old.finish(PATIENCE).unwrap();
    assert_eq!(self::spis(&rig), spis);
    let (out, err) = transfer(&rig);
    assert_eq!(out.trim(), "same", "{err} {}", said());
    assert_eq!(self::spis(&rig), spis, "no new keys were needed");
    wire.assert_no_clear("after the take-over", |flow| [flow.local_port, flow.remote_port].contains(&TCP));
}

fn kill(pid: u32) {
    let done = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(done.success());
}

/// A command in a folder, which must succeed: what it printed.
fn run(folder: &Path, program: &Path, args: &[&str]) -> String {
    let done = std::process::Command::new(program).args(args).current_dir(folder).output().unwrap();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    assert!(done.status.success(), "{args:?}: {}{}", text(&done.stdout), text(&done.stderr));
    text(&done.stdout)
}

/// The digest of a file, as manifests and configurations have it.
fn digest(path: &Path) -> String {
    let printed = run(Path::new("/"), Path::new("sha256sum"), &[&path.display().to_string()]);
    printed.split(' ').next().unwrap().to_owned()
}

/// Put the line that the comment at a marked place of a new cipher suggests in place of the one that is there.
fn follow(path: &Path, place: &str, there: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    let (before, behind) = text.split_once(place).unwrap();
    let suggested =
        behind.lines().find(|line| line.contains("<<")).unwrap().trim_start_matches([' ', '*', '/']);
    let (comment, rest) = behind.split_once(there).unwrap();
    let (between, rest) = rest.split_once(there).unwrap();
    std::fs::write(path, format!("{before}{place}{comment}{there}{between}{suggested}{rest}")).unwrap();
}

/// A cipher whose manifest is in its own folder passes the checks: what they said. Valgrind need not be installed.
fn check(own: &Path, cipher: &str) -> String {
    let manifest = format!("{cipher}.json");
    let checked = run(own, &binary(), &["cipher", "check", &manifest, "--without", "memory"]);
    assert!(checked.contains(&format!("{cipher} passed what was checked")), "{checked}");
    checked
}

/// Pack and install a block cipher, and send packets between two hosts of this name under its counter mode.
fn carry(name: &str, own: &Path, cipher: &str) {
    let ravelin = binary();
    let packed = run(own, &ravelin, &["cipher", "pack", &format!("{cipher}.json"), "--json"]);
    let packed: serde_json::Value = serde_json::from_str(&packed).unwrap();
    let place = own.join("installed").display().to_string();
    let bundle = packed["file"].as_str().unwrap();
    let installed = run(own, &ravelin, &["cipher", "install", bundle, "--to", &place, "--json"]);
    let installed: serde_json::Value = serde_json::from_str(&installed).unwrap();
    // A busy machine is no fault of the cipher.
    let configuration = format!("{}deadline = 500\n", installed["configuration"].as_str().unwrap());
    assert!(configuration.starts_with("[[cipher]]\n"), "{configuration}");

    let suite = format!("{cipher}ctr-sha256");
    let (rig, app) = build(name, &format!("suite {suite}"), &configuration);
    let _server = tcp_server(&rig, &app, TCP);
    let managers = [key_manager(&rig, Side::Alice, &suite), key_manager(&rig, Side::Bob, &suite)];
    let wire = Eavesdropper::listen(&rig.lab, &[]);
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let (out, err) = one_line(&rig, &app, &address, TCP, 40_000);
        let said = || format!("{} {}", managers[0].output(), managers[1].output());
        assert_eq!(out.trim(), "same", "{address}: {err} {}", said());
    }
    wire.assert_no_clear("under a cipher of one's own", |flow| {
        [flow.local_port, flow.remote_port].contains(&TCP)
    });
    assert!(rig.ravelin(Side::Alice, &["sa", "list"], "").unwrap().contains(&format!("{suite} (worker)")));
}

/// The walk of docs/custom-cipher.md, from an empty folder to packets between two hosts.
#[test]
fn a_newcomer_comes_from_nothing_to_packets() {
    let folder = RootFolder::new("newcomer");
    let ravelin = binary();
    run(&folder.0, &ravelin, &["cipher", "new", "mycipher", "--lang", "c"]);
    let own = folder.0.join("mycipher");
    follow(&own.join("mycipher.c"), "PLACE 1 OF 2", "return 0;");
    follow(&own.join("reference.py"), "PLACE 2 OF 2", "return k");
    run(&own, &program("make"), &["-s"]);
    check(&own, "mycipher");
    // A busy machine is not asked for times; valgrind looks for them by other means.
    for (file, command, more) in [
        ("check.json", "check", ["--without", "memory"]),
        ("stats.json", "stats", ["--quick", "--own"]),
        ("ct.json", "ct", ["--without", "timing"]),
    ] {
        let told =
            run(&own, &ravelin, &[&["cipher", command, "mycipher.json", "--json"], more.as_slice()].concat());
        let verdict: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(verdict["ok"], true, "{command}: {told}");
        std::fs::write(own.join(file), told).unwrap();
    }
    let report = "--check check.json --stats stats.json --ct ct.json --output mycipher.html";
    let report: Vec<&str> =
        ["cipher", "report", "mycipher.json"].into_iter().chain(report.split(' ')).collect();
    run(&own, &ravelin, &report);
    let page = std::fs::read_to_string(own.join("mycipher.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("proves nothing about strength"), "{page}");
    carry("rvl-newcomer", &own, "mycipher");
}

/// The section of docs/custom-cipher.md on a C file without the template: the compiler sees the header and nothing else
/// of Ravelin.
#[test]
fn a_c_file_written_from_the_header_alone_carries_packets() {
    let folder = RootFolder::new("header-cipher");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = &folder.0;
    let cipher = tests.join("programs/header-cipher");
    for (folder, file) in [
        (cipher.as_path(), "speck.c"),
        (&cipher, "reference.py"),
        (&tests.join("../include"), "ravelin_cipher.h"),
    ] {
        std::fs::copy(folder.join(file), own.join(file)).unwrap();
    }
    let strict = "-std=c11 -O2 -Wall -Wextra -Wpedantic -Wconversion -Werror";
    let library = "-fPIC -fvisibility=hidden -shared -Wl,-z,noexecstack -o speck.so speck.c";
    let compile: Vec<&str> = strict.split(' ').chain(library.split(' ')).collect();
    run(own, &program("cc"), &compile);
    let vectors = run(own, &program("python3"), &["-B", "reference.py", "vectors"]);
    std::fs::write(own.join("speck.vectors.json"), vectors).unwrap();
    let beside = |file: &str| serde_json::json!({ "file": file, "sha256": digest(&own.join(file)) });
    let manifest = serde_json::json!({
        "name": "speck",
        "version": "1",
        "vendor": "a test of Ravelin",
        "kind": "block",
        "block": 16,
        "key": 32,
        "constant_time": true,
        "transform_id": 61_952,
        "library": beside("speck.so"),
        "vectors": beside("speck.vectors.json"),
        "source": "tests/programs/header-cipher",
        "licence": "MIT OR Apache-2.0",
    });
    std::fs::write(own.join("speck.json"), manifest.to_string()).unwrap();
    // The reference makes new vectors and has the value of 10^6 iterations, so that the library is compared with both.
    let checked = check(own, "speck");
    for said in ["151 new tests that reference.py made", "optional functions", "as the vector file says"] {
        assert!(checked.contains(said), "{said}: {checked}");
    }
    carry("rvl-header", own, "speck");
}

#[test]
fn where_its_suite_is_not_named_it_does_not_count_as_encryption() {
    let (rig, app) = build("rvl-ownnot", "", CIPHER);
    let _server = tcp_server(&rig, &app, TCP);
    let key: String = (0..100).map(|octet| format!("{octet:02x}")).collect();
    let add = |side: Side, direction: &str, spi: &str| {
        let peer = if side == Side::Alice { Side::Bob } else { Side::Alice };
        let args = [
            "sa",
            "add",
            "--direction",
            direction,
            "--spi",
            spi,
            "--local",
            &side.v4().to_string(),
            "--remote",
            &peer.v4().to_string(),
            "--mode",
            "transport",
            "--suite",
            SUITE,
            "--json",
        ];
        rig.command(side, &args, &format!("{key}\n")).unwrap()
    };
    let added = add(Side::Alice, "out", "0x3001");
    assert!(added.status.success(), "{}", added.err());
    let (out, _) = one_line(&rig, &app, &Side::Bob.v4().to_string(), TCP, 100);
    assert_ne!(out.trim(), "same");
    wait_for("the reason", PATIENCE, || {
        let count = counted(&rig, Side::Alice, "outbound", "sa_too_weak");
        if count > 0 { Ok(()) } else { Err(rig.ravelin(Side::Alice, &["stats"], "").unwrap()) }
    });
    // A key of another length, and a suite that no configuration has.
    let refused = rig
        .command(
            Side::Alice,
            &[
                "sa",
                "add",
                "--direction",
                "in",
                "--spi",
                "0x3002",
                "--local",
                "192.0.2.1",
                "--remote",
                "192.0.2.2",
                "--mode",
                "transport",
                "--suite",
                "maes512gcm",
            ],
            "00\n",
        )
        .unwrap();
    assert!(!refused.status.success() && refused.err().contains("alone = true"), "{}", refused.err());
}
