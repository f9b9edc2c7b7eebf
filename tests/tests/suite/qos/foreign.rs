//! A component from outside in the graph of a daemon: the example in C judges packets between two hosts; one that answers
//! nonsense is detached and named; a library that was changed is refused, and the graph with it.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::{Program, Side};
use serde_json::Value;
use tests::{PATIENCE, associate, binary, wait_for};

use super::{COUNT, GraphFile, build, counts, datagrams, echo_server, of, sends};

/// A folder where libraries of a daemon may lie: root's, and so is each one above it.
struct LibraryFolder(PathBuf);

impl LibraryFolder {
    fn new() -> LibraryFolder {
        let path = PathBuf::from(format!("/run/ravelin-components-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
        LibraryFolder(path)
    }

    /// The example in C.
    fn quota(&self) -> PathBuf {
        let example = root().join("examples/qos/component-c");
        let out = format!("OUT={}", self.0.display());
        run(Command::new("make").arg("-s").arg("-C").arg(example).arg(out));
        self.0.join("quota.so")
    }

    /// A component that answers out of range to a packet with DSCP 10 and no SPI, which no trial shows it.
    fn wrong(&self) -> PathBuf {
        let library = self.0.join("wrong.so");
        let source = root().join("crates/qos-loader/tests/suite/component.c");
        let body = "-DBODY=if((metas->dscp_inner|metas->dscp_outer)==10&&metas->spi==0)\
                    {verdicts->action=3;verdicts->value=7;return 0;}";
        let fixed = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w", body, "-I"];
        run(Command::new("cc").args(fixed).arg(root().join("include")).arg("-o").arg(&library).arg(source));
        library
    }
}

impl Drop for LibraryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn run(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// What `ravelin qos component check` says of a library.
fn checked(rig: &lab::rig::Rig, library: &Path, parameters: &str) -> Value {
    let program = Program::new(binary()).args(["qos", "component", "check"]).arg(library).args([
        "--json",
        "--parameters",
        parameters,
        "--budget",
        "1ms",
    ]);
    let done = rig.lab.alice().run_program(program, PATIENCE).unwrap();
    serde_json::from_str(&done.out()).unwrap_or_else(|error| panic!("{error}: {}{}", done.out(), done.err()))
}

const PLAIN: &str = "[class.every]\nmatch = \"rest\"\n";

/// A graph of one class with these hooks.
fn with_hooks(hooks: &str) -> String {
    format!(
        "[class.every]\nmatch = \"rest\"\n\n{hooks}\n\n[[hook]]\nat = \"5b\"\nfrom = \"every\"\n\n\
         [queue.every]\nclasses = [\"every\"]\nlimit = {{ packets = 1000, time = \"100ms\" }}\n\n\
         [unit.inline]\nkind = \"inline\"\n"
    )
}

/// A hook of outbound packets with these components.
fn outbound_hook(at: &str, components: &str) -> String {
    format!("[[hook]]\nat = \"{at}\"\ndirection = \"out\"\nchain = [{components}]")
}

/// A graph whose outbound packets pass these components in front of the look-up.
fn with(components: &str) -> String {
    with_hooks(&outbound_hook("1a", &format!("{{ kind = \"classify\" }}, {components}")))
}

/// A graph whose outbound packets pass these components behind cryptography, in front of the outgoing main queue.
fn with_behind(components: &str) -> String {
    let hooks = [outbound_hook("1a", "{ kind = \"classify\" }"), outbound_hook("2a", components)];
    with_hooks(&hooks.join("\n\n"))
}

/// What alice's daemon says of itself. The command fails where it is degraded.
fn status(rig: &lab::rig::Rig) -> Value {
    let done = rig.command(Side::Alice, &["status", "--json"], "").unwrap();
    serde_json::from_str(&done.out()).unwrap_or_else(|error| panic!("{error}: {}{}", done.out(), done.err()))
}

/// The components of alice's outbound graph.
fn components(rig: &lab::rig::Rig) -> Vec<Value> {
    let state = rig.json(Side::Alice, &["qos", "show"]).unwrap();
    state["directions"][0]["components"].as_array().unwrap().clone()
}

#[test]
fn a_component_from_outside_works_between_two_hosts_and_is_detached_by_name() {
    let folder = LibraryFolder::new();
    let (quota, wrong) = (folder.quota(), folder.wrong());
    let file = GraphFile::new("rvl-qosf", PLAIN);
    let (mut rig, app) = build("rvl-qosf", "");
    // The check prints the digest that the configuration needs.
    let report = checked(&rig, &quota, "packets=50 window=1000");
    assert_eq!((&report["ok"], &report["name"]), (&Value::from(true), &Value::from("quota")), "{report}");
    assert!(report["not_installed"].is_null(), "{report}");
    let refused = checked(&rig, &quota, "packets=many");
    assert_eq!(refused["ok"], Value::from(false));
    assert!(refused.to_string().contains("packets is a number from 1 to 1000000000"), "{refused}");
    let digest = report["sha256"].as_str().unwrap().to_owned();
    let digest_of_wrong = checked(&rig, &wrong, "")["sha256"].as_str().unwrap().to_owned();
    let table = |name: &str, path: &Path, digest: &str| {
        format!(
            "\n[[qos.component]]\nname = {name:?}\npath = {:?}\nsha256 = {digest:?}\n",
            path.display().to_string()
        )
    };
    let tables = table("quota", &quota, &digest) + &table("wrong", &wrong, &digest_of_wrong);
    rig.configure(Side::Alice, &(file.configuration() + &tables));
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _echo = echo_server(&rig, &app);
    datagrams(&rig, &app, 0);

    // Attached while packets pass. Every packet of the run is within the quota at first, then most are beyond it.
    let part = |packets: u32| {
        format!(
            "{{ kind = \"foreign\", library = \"quota\", parameters = \"packets={packets} window=3600000\" }}"
        )
    };
    let generous = file.beside("generous.toml", &with(&part(1_000_000)));
    rig.ravelin(Side::Alice, &["qos", "apply", &generous], "").unwrap();
    let graph = rig.ravelin(Side::Alice, &["qos", "show", "--graph"], "").unwrap();
    assert!(graph.contains("kind = \"foreign\", library = \"quota\""), "{graph}");
    datagrams(&rig, &app, 0);
    let [quota_state] = &components(&rig)[..] else { panic!("{:?}", components(&rig)) };
    assert!(
        quota_state["packets"].as_u64().unwrap() >= COUNT && quota_state["dropped"] == 0,
        "{quota_state}"
    );
    assert!(quota_state["detached"].is_null() && quota_state["library"] == "quota");
    let narrow = file.beside("narrow.toml", &with(&part(20)));
    rig.ravelin(Side::Alice, &["qos", "apply", &narrow], "").unwrap();
    let flood = rig.lab.alice().run_program(sends(&app, 0, 100), PATIENCE).unwrap();
    assert!(flood.status.success(), "{}", flood.err());
    wait_for("drops beyond the quota", PATIENCE, || {
        let (arrived, left, dropped) = of(&counts(&rig), "1a", "every");
        let reason = rig.ravelin(Side::Alice, &["qos", "show"], "").unwrap();
        let told = reason.contains("policed");
        if dropped >= 80 && told { Ok(()) } else { Err(format!("{arrived}, {left}, {dropped}: {reason}")) }
    });

    // Behind cryptography it is shown what is ready for the wire.
    let behind = file.beside("behind.toml", &with_behind(&part(1_000_000)));
    rig.ravelin(Side::Alice, &["qos", "apply", &behind], "").unwrap();
    datagrams(&rig, &app, 0);
    let [state] = &components(&rig)[..] else { panic!("{:?}", components(&rig)) };
    assert_eq!((&state["hook"], &state["dropped"]), (&Value::from("2a"), &Value::from(0)), "{state}");
    assert!(state["packets"].as_u64().unwrap() >= COUNT && state["detached"].is_null(), "{state}");

    // Parameters that the library refuses have their place; the graph in force stays.
    let bad = file.beside("bad.toml", &with(&part(0)));
    let refused = rig.command(Side::Alice, &["qos", "apply", &bad], "").unwrap();
    let why = refused.err();
    assert!(!refused.status.success() && why.contains("packets is a number from 1 to 1000000000"), "{why}");
    assert!(why.contains("bad.toml:7:"), "{why}");
    // A library that the configuration does not name has its remedy.
    let unknown = file.beside("unknown.toml", &with("{ kind = \"foreign\", library = \"qouta\" }"));
    let refused = rig.command(Side::Alice, &["qos", "apply", &unknown], "").unwrap();
    let why = refused.err();
    assert!(!refused.status.success() && why.contains("unknown.toml:7:"), "{why}");
    assert!(why.contains("RVL-Q205") && why.contains("run --take-over"), "{why}");

    // A verdict out of range detaches the component: packets go on, and everybody is told.
    let nonsense = file.beside("nonsense.toml", &with("{ kind = \"foreign\", library = \"wrong\" }"));
    rig.ravelin(Side::Alice, &["qos", "apply", &nonsense], "").unwrap();
    datagrams(&rig, &app, 0);
    assert!(components(&rig)[0]["detached"].is_null());
    datagrams(&rig, &app, 10 << 2);
    let [state] = &components(&rig)[..] else { panic!("{:?}", components(&rig)) };
    let why = "a verdict is out of range: there is no port 7; the graph gives it 0";
    assert_eq!(state["detached"], why);
    assert!(state["unjudged"].as_u64().unwrap() >= COUNT, "{state}");
    let told = status(&rig);
    assert_eq!(told["state"], "degraded");
    assert!(
        told["problems"].to_string().contains("the component `wrong` at hook 1a, outbound, is detached"),
        "{told}"
    );
    let metrics = super::metrics(&rig);
    let name = "ravelin_qos_component_detached{direction=\"out\",hook=\"1a\",library=\"wrong\"}";
    assert_eq!(metrics.get(name), Some(&1.0), "{metrics:?}");
    // Attached anew, it is called again.
    rig.ravelin(Side::Alice, &["qos", "apply", &nonsense], "").unwrap();
    assert!(components(&rig)[0]["detached"].is_null());
    assert_eq!(status(&rig)["state"], "ok");

    // Another file under the name is not loaded, and the graph that needs it is refused before the hand-over.
    rig.ravelin(Side::Alice, &["qos", "apply", &generous], "").unwrap();
    let mut octets = std::fs::read(&quota).unwrap();
    octets.push(0);
    std::fs::write(&quota, octets).unwrap();
    let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
    let why = refused.err();
    assert!(!refused.status.success() && why.contains("its SHA-256 is"), "{why}");
    assert!(why.contains("RVL-Q205"), "{why}");
    datagrams(&rig, &app, 0);
}
