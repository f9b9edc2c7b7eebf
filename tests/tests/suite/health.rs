//! What status says is so: who gets nothing through is named with the reason and the remedy, and no longer when it is mended.

use std::path::PathBuf;
use std::time::Duration;

use lab::rig::{Rig, RigOptions};
use lab::{Program, Running, Side};
use serde_json::Value;
use tests::sites::sh;
use tests::{
    PATIENCE, associate, binary, copy_of_python, program, protect, protect_network, tcp_server, wait_until,
};

const PORT: u16 = 7000;

/// Connections (address, port), one after another, each given up after two seconds; says `answered` when one succeeds.
const TRIES: &str = r#"
import socket, sys, time
while True:
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()
        print("answered", flush=True)
    except OSError:
        pass
    time.sleep(0.2)
"#;

struct Stage {
    rig: Rig,
    app: PathBuf,
}

impl Stage {
    fn build(name: &str) -> (Stage, Running) {
        let options =
            RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: false };
        let mut rig = Rig::build(&options).unwrap();
        let app = copy_of_python(rig.folder(), "app");
        for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
            rig.set_policy(side, &protect(&app, peer)).unwrap();
        }
        rig.start_both().unwrap();
        let server = tcp_server(&rig, &app, PORT);
        (Stage { rig, app }, server)
    }

    fn tries(&self) -> Running {
        let args = ["-u", "-c", TRIES, &Side::Bob.v4().to_string(), &PORT.to_string()];
        self.rig.lab.alice().spawn(Program::new(&self.app).args(args)).unwrap()
    }

    /// Exit status and document.
    fn status(&self, side: Side) -> (i32, Value) {
        let done = self.rig.command(side, &["status", "--json"], "").unwrap();
        (done.status.code().unwrap(), serde_json::from_str(&done.out()).unwrap())
    }

    /// The problem with this code.
    fn problem(&self, side: Side, code: &str) -> Option<Value> {
        let (_, status) = self.status(side);
        let problems = status["problems"].as_array()?.clone();
        problems.into_iter().find(|problem| problem["code"] == code)
    }

    fn becomes(&self, side: Side, code: &str) -> Value {
        wait_until(code, PATIENCE * 3, || self.problem(side, code).is_some());
        let problem = self.problem(side, code).unwrap();
        assert!(problem["since_unix_seconds"].as_u64().unwrap() > 1_000_000_000, "{problem}");
        assert!(problem["remedy"].as_str().unwrap().contains("ravelin "), "{problem}");
        problem
    }

    fn state_of(&self, side: Side) -> String {
        let (_, status) = self.status(side);
        status["protection"][0]["state"].as_str().unwrap_or_default().to_owned()
    }

    fn explain(&self, side: Side, args: &[&str]) -> Value {
        let args: Vec<&str> = ["explain"].iter().chain(args).chain(&["--json"]).copied().collect();
        serde_json::from_str(&self.rig.command(side, &args, "").unwrap().out()).unwrap()
    }

    fn to_bob(&self) -> String {
        format!("{}:{PORT}/tcp", Side::Bob.v4())
    }
}

#[test]
fn who_reaches_nobody_is_named_until_both_directions_have_an_association() {
    let (stage, _server) = Stage::build("rvl-health");
    let (status, document) = stage.status(Side::Alice);
    assert_eq!(
        (status, &document["state"], stage.state_of(Side::Alice).as_str()),
        (0, &"ok".into(), "waiting")
    );
    let client = stage.tries();
    let problem = stage.becomes(Side::Alice, "no_association");
    let app = stage.app.display().to_string();
    assert_eq!(
        (&problem["application"], &problem["peer"]),
        (&app.clone().into(), &Side::Bob.v4().to_string().into())
    );
    let (status, document) = stage.status(Side::Alice);
    assert_eq!(
        (status, &document["state"], stage.state_of(Side::Alice).as_str()),
        (1, &"degraded".into(), "blocked")
    );

    // What ended in the engine is explained by the engine's table, and is not said to have left.
    let drops = stage.explain(Side::Alice, &["--drop", "last"]);
    let one = &drops["drops"][0];
    assert_eq!(
        (&one["reason"], &one["application"]["name"]),
        (&"no_sa".into(), &app.clone().into()),
        "{drops}"
    );
    let traffic = stage.rig.json(Side::Alice, &["stats", "--per-app"]).unwrap();
    let own =
        traffic["applications"].as_array().unwrap().iter().find(|one| one["application"] == app).unwrap();
    assert!(own["outbound"]["encrypted"]["packets"].as_u64().unwrap() > 0, "{traffic}");
    assert_eq!(own["left"]["encrypted"]["packets"], 0, "{traffic}");

    // One of two directions: what leaves is protected, and the answers find nothing.
    let key = "5a".repeat(20);
    let add = |side: Side, direction: &str, spi: &str| {
        let other = if side == Side::Alice { Side::Bob } else { Side::Alice };
        let (local, remote) = (side.v4().to_string(), other.v4().to_string());
        let args = [
            "sa",
            "add",
            "--direction",
            direction,
            "--spi",
            spi,
            "--local",
            &local,
            "--remote",
            &remote,
            "--mode",
            "transport",
            "--suite",
            "aes128gcm",
        ];
        let done = stage.rig.command(side, &args, &key).unwrap();
        assert!(done.status.success(), "{}", done.err());
    };
    add(Side::Alice, "out", "0x2000");
    let explained = stage.explain(Side::Alice, &["--app", &app, "--to", &stage.to_bob()]);
    let effect = explained["sockets"][0]["effect"].as_str().unwrap();
    assert!(effect.starts_with("blocked: one direction"), "{explained}");
    stage.becomes(Side::Alice, "one_direction");
    drop(client);
}

#[test]
fn a_daemon_with_associations_is_well_again_and_says_who_is_protected() {
    let (mut stage, _server) = Stage::build("rvl-healed");
    let client = stage.tries();
    stage.becomes(Side::Alice, "no_association");
    associate(&stage.rig).unwrap();
    wait_until("well again", PATIENCE, || stage.status(Side::Alice).1["state"] == "ok");
    client.wait_for_output("answered", PATIENCE).unwrap();
    assert_eq!((stage.state_of(Side::Alice), stage.status(Side::Alice).0), ("protected".to_owned(), 0));
    let app = stage.app.display().to_string();
    let explained = stage.explain(Side::Alice, &["--app", &app, "--to", &stage.to_bob()]);
    assert_eq!(explained["sockets"][0]["effect"], "protected", "{explained}");
    let traffic = stage.rig.json(Side::Alice, &["stats", "--per-app"]).unwrap();
    let own =
        traffic["applications"].as_array().unwrap().iter().find(|one| one["application"] == app).unwrap();
    assert!(own["left"]["encrypted"]["packets"].as_u64().unwrap() > 0, "{traffic}");

    // The peer falls silent: what leaves is protected, and nobody answers.
    stage.rig.kill(Side::Bob).unwrap();
    let problem = stage.becomes(Side::Alice, "unanswered");
    assert_eq!(problem["application"], app, "{problem}");
}

/// Datagrams to a multicast group, again and again, whatever becomes of them.
const TO_GROUP: &str = r#"
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try:
        s.sendto(b"news", ("239.1.2.3", 7100))
    except OSError:
        pass
    time.sleep(0.2)
"#;

#[test]
fn a_group_that_no_association_serves_is_named_until_one_does() {
    let (stage, _server) = Stage::build("rvl-healthgroup");
    stage.rig.set_policy(Side::Alice, &protect_network(&stage.app, "239.1.2.3/32")).unwrap();
    stage.rig.reload(Side::Alice).unwrap();
    sh(stage.rig.lab.alice().netns(), "ip route replace 239.0.0.0/8 dev eth0").unwrap();
    let _client = stage.rig.lab.alice().spawn(Program::new(&stage.app).args(["-u", "-c", TO_GROUP])).unwrap();
    let problem = stage.becomes(Side::Alice, "no_group_association");
    let app = stage.app.display().to_string();
    assert_eq!((&problem["application"], &problem["peer"]), (&app.into(), &"239.1.2.3".into()), "{problem}");
    assert_eq!((stage.status(Side::Alice).0, stage.state_of(Side::Alice).as_str()), (1, "blocked"));
    let [alice, bob] = Side::BOTH.map(|side| side.v4().to_string());
    let add = ["sa", "add", "--direction", "out", "--spi", "0x7100", "--local", &alice, "--remote", &bob];
    let served = ["--mode", "tunnel", "--suite", "aes128gcm", "--selector-remote", "239.1.2.3/32"];
    stage.rig.ravelin(Side::Alice, &[&add[..], &served[..]].concat(), &"53".repeat(20)).unwrap();
    wait_until("well again", PATIENCE, || stage.status(Side::Alice).1["state"] == "ok");
    // A group answers nobody: an association to one is not in one direction only.
    let packets = |rig: &Rig| {
        let list = rig.json(Side::Alice, &["sa", "list"]).unwrap();
        let sas = list["sas"].as_array().unwrap();
        let group = sas.iter().find(|sa| sa["spi"] == "0x00007100").unwrap();
        group["counters"]["packets"].as_u64().unwrap()
    };
    let before = packets(&stage.rig);
    wait_until("packets for as long as a fault would take to be told", PATIENCE * 3, || {
        packets(&stage.rig) >= before + 75
    });
    assert_eq!(stage.status(Side::Alice).1["state"], "ok");
}

/// The attempts of one TCP connection are further and further apart (1, 2, 4, 8 and 16 seconds): what blocks them
/// stays named between them.
#[test]
fn who_leaves_by_another_device_is_named_until_the_routes_lead_by_an_uplink() {
    let (stage, _server) = Stage::build("rvl-healthway");
    let bob = Side::Bob.v4();
    let make = format!(
        "ip link add other0 type veth peer name other1; ip link set other0 up; ip link set other1 up; \
         ip route add {bob}/32 dev other0; ip neigh add {bob} lladdr 02:00:00:00:00:99 dev other0 nud permanent"
    );
    sh(stage.rig.lab.alice().netns(), &make).unwrap();
    let once = format!("import socket; socket.create_connection((\"{bob}\", {PORT}))");
    let _client = stage.rig.lab.alice().spawn(Program::new(&stage.app).args(["-c", &once])).unwrap();
    let problem = stage.becomes(Side::Alice, "no_uplink");
    let app = stage.app.display().to_string();
    assert_eq!(
        (&problem["application"], &problem["peer"]),
        (&app.into(), &bob.to_string().into()),
        "{problem}"
    );
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(500));
        assert!(stage.problem(Side::Alice, "no_uplink").is_some());
    }
    sh(stage.rig.lab.alice().netns(), &format!("ip route del {bob}/32 dev other0")).unwrap();
    wait_until("the routes lead by an uplink", PATIENCE, || {
        stage.problem(Side::Alice, "no_uplink").is_none()
    });
}

/// The kernel half tells no local port of what it refuses, and the policy speaks of one local port alone.
#[test]
fn who_leaves_by_another_device_is_named_under_a_policy_by_local_ports_too() {
    let (stage, _server) = Stage::build("rvl-healthport");
    let policy = protect_network(&stage.app, &format!("{}/32", Side::Bob.v4()));
    let policy = policy.replace("localport=any", &format!("localport={PORT}"));
    assert!(policy.contains("localport=7000"), "{policy}");
    stage.rig.set_policy(Side::Alice, &policy).unwrap();
    stage.rig.reload(Side::Alice).unwrap();
    let bob = Side::Bob.v4();
    let make = format!(
        "ip link add other0 type veth peer name other1; ip link set other0 up; ip link set other1 up; \
         ip route add {bob}/32 dev other0; ip neigh add {bob} lladdr 02:00:00:00:00:99 dev other0 nud permanent"
    );
    sh(stage.rig.lab.alice().netns(), &make).unwrap();
    let once = format!("import socket; socket.create_connection((\"{bob}\", {PORT}), None, (\"\", {PORT}))");
    let _client = stage.rig.lab.alice().spawn(Program::new(&stage.app).args(["-c", &once])).unwrap();
    stage.becomes(Side::Alice, "no_uplink");
    assert_eq!((stage.status(Side::Alice).0, stage.state_of(Side::Alice).as_str()), (1, "blocked"));
}

/// A rule of the SPD speaks for a user's programs, which no application of the policy names.
#[test]
fn traffic_under_a_rule_of_the_spd_is_named_until_associations_serve_it() {
    let (stage, _server) = Stage::build("rvl-healthrule");
    let add = [
        "spd",
        "add",
        "--name",
        "lan",
        "--direction",
        "out",
        "--selector",
        "uid 65534",
        "--action",
        "protect",
    ];
    stage.rig.ravelin(Side::Alice, &add, "").unwrap();
    let (python, bob) = (program("python3").display().to_string(), Side::Bob.v4().to_string());
    let user =
        ["--reuid", "65534", "--regid", "65534", "--clear-groups", &python, "-u", "-c", TRIES, &bob, "7001"];
    let _client = stage.rig.lab.alice().spawn(Program::new(program("setpriv")).args(user)).unwrap();
    let problem = stage.becomes(Side::Alice, "no_association");
    assert_eq!((&problem["rule"], &problem["application"]), (&"lan".into(), &Value::Null), "{problem}");
    assert!(problem["message"].as_str().unwrap().starts_with("traffic under rule lan "), "{problem}");
    // It is none of the application's.
    assert_eq!((stage.status(Side::Alice).0, stage.state_of(Side::Alice).as_str()), (1, "waiting"));
    associate(&stage.rig).unwrap();
    wait_until("well again", PATIENCE, || stage.status(Side::Alice).1["state"] == "ok");
}

/// The engine seals, and this host's firewall refuses what it sealed. Then the device of the engine is gone.
#[test]
fn what_this_hosts_own_kernel_does_not_send_is_named_and_nobody_is_called_protected() {
    let (stage, _server) = Stage::build("rvl-unsent");
    associate(&stage.rig).unwrap();
    let client = stage.tries();
    client.wait_for_output("answered", PATIENCE).unwrap();
    let alice = stage.rig.lab.alice().netns();
    let close = "nft add table inet f; nft add chain inet f out '{ type filter hook output priority 0; }'; \
                 nft add rule inet f out udp dport 4500 drop";
    sh(alice, close).unwrap();
    let problem = stage.becomes(Side::Alice, "not_sent");
    assert!(problem["message"].as_str().unwrap().contains("not permitted"), "{problem}");
    assert!(problem["remedy"].as_str().unwrap().contains("firewall"), "{problem}");
    assert_eq!((stage.status(Side::Alice).0, stage.state_of(Side::Alice).as_str()), (1, "blocked"));
    sh(alice, "nft delete table inet f").unwrap();
    wait_until("sent again", PATIENCE, || stage.problem(Side::Alice, "not_sent").is_none());
    wait_until("protected again", PATIENCE * 2, || stage.state_of(Side::Alice) == "protected");

    let (_, status) = stage.status(Side::Alice);
    let tun = status["tun"]["name"].as_str().unwrap();
    sh(alice, &format!("ip link del {tun}")).unwrap();
    wait_until("gone", PATIENCE, || stage.problem(Side::Alice, "failed").is_some());
    let (_, status) = stage.status(Side::Alice);
    let said: Vec<&str> = status["problems"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|problem| problem["remedy"].as_str())
        .collect();
    assert!(said.iter().any(|remedy| remedy.contains("start the daemon again")), "{said:?}");
    assert!(!said.iter().any(|remedy| remedy.contains("sets it up again")), "{said:?}");
    assert_eq!(stage.state_of(Side::Alice), "blocked");
}

#[test]
fn without_a_daemon_who_is_closed_is_named_and_detach_asks() {
    let (mut stage, _server) = Stage::build("rvl-closed");
    let app = stage.app.display().to_string();
    let config = stage.rig.config_file(Side::Alice);
    let doctor = |stage: &Stage| {
        let program = Program::new(binary()).args(["doctor", "--config", &config.display().to_string()]);
        let done = stage.rig.lab.alice().run_program(program, PATIENCE).unwrap();
        (done.status.code().unwrap(), done.out())
    };
    let (status, out) = doctor(&stage);
    assert!(status == 0 && out.contains("this host has what the daemon needs\n"), "{out}");

    // The configuration is another one, and a reload says that it reads the policy alone.
    let before = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("log = \"debug\"\n{before}")).unwrap();
    let instance = stage.rig.instance(Side::Alice);
    let reload = ["policy", "reload", "--allow-missing", "--instance", &instance];
    let done = stage.rig.command(Side::Alice, &reload, "").unwrap();
    assert!(done.err().contains("was changed and was not read"), "{}", done.err());
    std::fs::write(&config, &before).unwrap();
    assert!(!stage.rig.command(Side::Alice, &reload, "").unwrap().err().contains("was changed"));

    // What `run` would refuse.
    let policy = stage.rig.policy_file(Side::Alice);
    let text = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, text.replace("network", "nework")).unwrap();
    let (status, out) = doctor(&stage);
    assert!(status == 1 && out.contains("FAIL  policy"), "{out}");
    std::fs::remove_file(&policy).unwrap();
    let (status, out) = doctor(&stage);
    assert!(status == 1 && out.contains("FAIL  policy"), "{out}");
    std::fs::write(&policy, &text).unwrap();

    // What the daemon calls degraded.
    let client = stage.tries();
    stage.becomes(Side::Alice, "no_association");
    let (status, out) = doctor(&stage);
    assert!(status == 1 && out.contains("no_association") && out.contains(&app), "{out}");
    drop(client);

    stage.rig.kill(Side::Alice).unwrap();
    let (status, out) = doctor(&stage);
    assert!(status == 1 && out.contains("no daemon runs") && out.contains(&app), "{out}");
    let asked = stage.rig.command(Side::Alice, &["status"], "").unwrap();
    assert!(
        asked.err().contains("the host is closed meanwhile") && asked.err().contains(&app),
        "{}",
        asked.err()
    );
    let refused = stage.rig.command(Side::Alice, &["detach"], "").unwrap();
    assert!(refused.err().contains(&app) && refused.err().contains("--yes"), "{}", refused.err());
    assert!(!refused.status.success());
    // Who removes the package does not answer, and is told all the same.
    let done = stage.rig.command(Side::Alice, &["detach", "--yes"], "").unwrap();
    assert!(done.status.success() && done.err().contains("send in clear"), "{}", done.err());
    assert!(done.err().contains(&app), "{}", done.err());
    let (status, out) = doctor(&stage);
    assert!(status == 0 && !out.contains("no daemon runs"), "{out}");
}
