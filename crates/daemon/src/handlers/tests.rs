//! The API over a Unix socket, with real engines in their threads; only the devices are absent, and the kernel half is one
//! that records what it is told.

mod changes;
mod graph;
mod kernel_half;
mod reservations;
mod turns;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use api::operation::{OPERATIONS, Operation};
use crypto::Secret;
use netio::link::{Link, TunOwner};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::audit_log::Auditor;
use crate::datapath::{InboundHalf, OutboundHalf};
use crate::device::Device;
use crate::keys::Keys;
use crate::monitor::Monitor;
use crate::monitor::recorder::{Call, Recorder};
use crate::network_stack::NetworkStack;
use crate::plane::{Associations, Halves, Host, Hosts, Observers, Plane, PolicyInForce, Shared};
use crate::policy_store::PolicyStore;
use config::Config;
use control::channel::{Inbox, Next};

const POLICY: &str = "application curl { network 192.0.2.0/24 protected P; protection P { localport=any remoteport=any \
                      encryption mandatory; } }\n";

/// A thread with its commands and no device.
fn serve<T>(state: &mut T, inbox: &Inbox<T>) {
    loop {
        netio::poll::readable([inbox.wake().as_fd()], None).unwrap();
        if inbox.run(state) == Next::End {
            return;
        }
    }
}

/// A folder with a policy; goes with the value.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("ravelin-control-{}-{name}", std::process::id()));
        control::socket::make_folder(&folder).unwrap();
        std::fs::write(folder.join("policy"), POLICY).unwrap();
        Folder(folder)
    }

    /// A configuration whose graph of classes is this text.
    fn config_with_graph(&self, graph: &str) -> Config {
        std::fs::write(self.0.join("qos.toml"), graph).unwrap();
        let text = "policy = \"policy\"\ncontrol_socket = \"c.sock\"\n[qos]\nfile = \"qos.toml\"\n";
        Config::parse(&self.0.join("ravelin.toml"), text).unwrap()
    }

    pub(crate) fn config(&self) -> Config {
        let text = "policy = \"policy\"\ncontrol_socket = \"c.sock\"";
        Config::parse(&self.0.join("ravelin.toml"), text).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Daemon {
    folder: Folder,
    _stop: oneshot::Sender<()>,
}

impl Daemon {
    fn start(name: &str) -> Daemon {
        let folder = Folder::new(name);
        let plane = plane(folder.config(), None);
        Daemon::over(folder, plane)
    }

    fn over(folder: Folder, plane: Plane) -> Daemon {
        let (stop, stopped) = oneshot::channel::<()>();
        let plane = Shared::new(plane);
        let listener = control::socket::bind(&folder.0.join("c.sock")).unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::UnixListener::from_std(listener).unwrap();
                let ended = async { drop(stopped.await) };
                super::serve(listener, plane, ended).await.unwrap();
            });
        });
        Daemon { folder, _stop: stop }
    }

    /// HTTP status and document.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, _, body) = self.ask_raw(method, path, body);
        let document: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(document["api"], 1, "{document}");
        (status, document)
    }

    /// HTTP status, head and body.
    fn ask_raw(&self, method: &str, path: &str, body: &str) -> (u16, String, String) {
        let mut stream = UnixStream::connect(self.folder.0.join("c.sock")).unwrap();
        let length = body.len();
        // In one piece: a handler that needs no body may answer and close before the body comes.
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: r\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            conform::answer(method, path, status, body);
        }
        (status, head.to_ascii_lowercase(), body.to_owned())
    }

    fn policy(&self, text: &str) {
        std::fs::write(self.folder.0.join("policy"), text).unwrap();
    }
}

/// The devices of the host that the tests are on: the TUN and one uplink.
fn devices() -> Vec<Link> {
    let device = |index, name: &str, kind: Option<&str>| Link {
        index,
        name: name.to_owned(),
        up: true,
        running: true,
        loopback: false,
        mtu: 1500,
        queue_len: 500,
        master: None,
        kind: kind.map(str::to_owned),
        address: Vec::new(),
        xdp: None,
        multicast: false,
        tun_owner: kind.map(|_| TunOwner { user: Some(0), group: Some(0), several_queues: true, held: 1 }),
    };
    vec![device(7, "rvl0", Some("tun")), device(2, "eth0", None)]
}

pub(crate) fn plane(config: Config, run_dir: Option<&std::path::Path>) -> Plane {
    plane_over(Recorder::default(), config, run_dir)
}

/// A control plane over this kernel half.
pub(crate) fn plane_over(kernel_half: Recorder, config: Config, run_dir: Option<&std::path::Path>) -> Plane {
    let mut policy =
        PolicyStore::new(&config.policy, run_dir, &crypto::Suites::standard(), &Default::default()).unwrap();
    let candidate = policy.read().unwrap();
    let spd = Arc::new(candidate.compiled.spd.clone());
    policy.adopt(candidate, 1);
    let (outbound, out_inbox) = control::channel::channel().unwrap();
    let (inbound, in_inbox) = control::channel::channel().unwrap();
    let mut out = OutboundHalf::new(engine::Outbound::new(Arc::clone(&spd), 1));
    let scrubbed = crate::scrubbed::Scrubbed::new(out.engine.scrubbers().clone());
    let mut inbound_engine = engine::Inbound::new(4500);
    inbound_engine.scrub_with(out.engine.scrubbers().clone(), spd, 1);
    let graph = reservations::graph(&config, &mut out.engine, &mut inbound_engine);
    control::channel::start("out", out, out_inbox, || (), serve).unwrap();
    control::channel::start("in", InboundHalf::new(inbound_engine), in_inbox, || (), serve).unwrap();
    let host = Host::new(
        NetworkStack::Fixed(devices()),
        Device { name: "rvl0".into(), index: 7 },
        vec![Device { name: "eth0".into(), index: 2 }],
        Vec::new(),
    );
    let keys = Keys::import(crypto_std::registry().unwrap(), Secret::new(vec![3; 32]), &[]).unwrap();
    let hosts = Hosts::new(&config.names).0;
    Plane::new(
        config,
        Halves::new(outbound, inbound),
        Monitor::new(kernel_half),
        host.with_path_mtu(Some(1400)),
        Associations::new(keys),
        PolicyInForce::new(policy, hosts),
        Observers::new(Auditor::default(), Default::default(), scrubbed),
    )
    .with_graph(graph)
}

fn request(direction: &str, spi: &str, key: u8) -> Value {
    json!({
        "direction": direction, "spi": spi, "local": "192.0.2.1", "remote": "192.0.2.2",
        "mode": "transport", "suite": "aes128gcm", "keymat": format!("{key:02x}").repeat(20),
    })
}

#[test]
fn every_operation_of_the_description_is_served() {
    let daemon = Daemon::start("openapi");
    let (status, _, body) = daemon.ask_raw("GET", api::path::OPENAPI, "");
    let described: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &described), (200, &api::openapi::document(env!("CARGO_PKG_VERSION"))));
    // The socket of a line alone answers this.
    let of_daemon = |operation: &&Operation| operation.path != api::path::INLINE_STATUS;
    for operation in OPERATIONS.iter().filter(of_daemon) {
        let path = operation.path.replace("{spi}", "0x1000").replace("{id}", "7").replace("{name}", "none");
        // A stream would have no end.
        let path = if path == api::path::EVENTS { format!("{path}?acquire=perhaps") } else { path };
        let (status, _, body) = daemon.ask_raw(operation.method.name(), &path, "7");
        assert!(status != 405 && !body.contains("no such path"), "{operation:?}: {status} {body}");
    }
}

#[test]
fn metrics_are_text_of_the_type_that_prometheus_reads() {
    let daemon = Daemon::start("metrics");
    let (status, head, body) = daemon.ask_raw("GET", api::path::METRICS, "");
    assert_eq!(status, 200, "{body}");
    assert!(head.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
    assert!(body.ends_with("\nravelin_qos_in_force 0\n"), "{body}");
}

#[test]
fn associations_come_are_listed_and_go() {
    let daemon = Daemon::start("sa");
    let (status, added) = daemon.ask("POST", "/v1/sa", &request("in", "auto", 1).to_string());
    assert_eq!(status, 200, "{added}");
    let spi = added["sa"]["spi"].as_str().unwrap().to_owned();
    assert!(spi.starts_with("0x"));
    assert_eq!((&added["sa"]["path_mtu"], &added["sa"]["replay_window"]), (&json!(1400), &json!(1024)));
    let bound = {
        let mut request = request("out", "0x1000", 2);
        request["app"] = "curl".into();
        request.to_string()
    };
    assert_eq!(daemon.ask("POST", "/v1/sa", &bound).0, 200);

    let (_, list) = daemon.ask("GET", "/v1/sa", "");
    let sas = list["sas"].as_array().unwrap();
    assert_eq!(sas.len(), 2);
    assert_eq!((&sas[0]["direction"], &sas[1]["selectors"]["app"]), (&json!("in"), &json!("curl")));
    assert!(!list.to_string().contains("key") && !list.to_string().contains("0101010101"), "{list}");
    let (_, status) = daemon.ask("GET", "/v1/status", "");
    assert_eq!((&status["sas_in"], &status["sas_out"]), (&json!(1), &json!(1)));

    assert_eq!(daemon.ask("DELETE", &format!("/v1/sa/{spi}"), "").0, 200);
    let (code, refused) = daemon.ask("DELETE", &format!("/v1/sa/{spi}"), "");
    assert_eq!((code, &refused["error"]["code"]), (404, &json!("not_found")));
}

#[test]
fn a_key_is_refused_for_ever_once_it_was_used() {
    let daemon = Daemon::start("reuse");
    assert_eq!(daemon.ask("POST", "/v1/sa", &request("out", "0x1000", 1).to_string()).0, 200);
    // In the other direction, under another SPI, with another salt, and after its association is gone.
    let mut other_salt = request("out", "0x1001", 1);
    other_salt["keymat"] = format!("{}ffffffff", "01".repeat(16)).into();
    for again in [request("in", "auto", 1), request("out", "0x1001", 1), other_salt] {
        let (code, refused) = daemon.ask("POST", "/v1/sa", &again.to_string());
        assert_eq!((code, &refused["error"]["code"]), (409, &json!("conflict")), "{refused}");
        assert!(refused["error"]["remedy"].is_string() || refused["error"]["message"].is_string());
    }
    assert_eq!(daemon.ask("DELETE", "/v1/sa/0x1000", "").0, 200);
    assert_eq!(daemon.ask("POST", "/v1/sa", &request("out", "0x1000", 1).to_string()).0, 409);
}

#[test]
fn a_key_of_an_association_that_was_never_made_is_not_burnt() {
    let daemon = Daemon::start("withdraw");
    assert_eq!(daemon.ask("POST", "/v1/sa", &request("in", "0x1000", 1).to_string()).0, 200);
    let (code, refused) = daemon.ask("POST", "/v1/sa", &request("in", "0x1000", 2).to_string());
    assert_eq!(code, 409, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("in use"));
    assert_eq!(daemon.ask("POST", "/v1/sa", &request("in", "0x1001", 2).to_string()).0, 200);
}

/// RFC 3948 section 5.2: two clients behind one NAT.
#[test]
fn flows_of_another_peer_are_taken_only_by_who_says_so() {
    let daemon = Daemon::start("rival");
    let client = |spi: &str, key, port: u16, more: &[(&str, Value)]| {
        let mut request = request("out", spi, key);
        request["remote_port"] = port.into();
        for (field, value) in more {
            request[*field] = value.clone();
        }
        request.to_string()
    };
    assert_eq!(daemon.ask("POST", "/v1/sa", &client("0x1000", 1, 1024, &[])).0, 200);
    let (code, refused) = daemon.ask("POST", "/v1/sa", &client("0x1001", 2, 1025, &[]));
    assert_eq!((code, &refused["error"]["code"]), (409, &json!("conflict")), "{refused}");
    let error = &refused["error"];
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .starts_with("association 0x00001000 to 192.0.2.2:1024 has 192.0.2.2 "),
        "{error}"
    );
    assert!(error["remedy"].as_str().unwrap().contains("--takes-over"), "{error}");
    // Its key was never used. What is disjoint has its place, and so has who means it.
    assert_eq!(
        daemon.ask("POST", "/v1/sa", &client("0x1001", 2, 1025, &[("takes_over", true.into())])).0,
        200
    );
    assert_eq!(daemon.ask("DELETE", "/v1/sa/0x1000", "").0, 200);
    assert_eq!(daemon.ask("DELETE", "/v1/sa/0x1001", "").0, 200);
    let of = |protocol: &str| [("protocol", Value::from(protocol))];
    assert_eq!(daemon.ask("POST", "/v1/sa", &client("0x1002", 3, 1024, &of("udp"))).0, 200);
    assert_eq!(daemon.ask("POST", "/v1/sa", &client("0x1003", 4, 1025, &of("tcp"))).0, 200);
    assert_eq!(daemon.ask("POST", "/v1/sa", &client("0x1004", 5, 1025, &of("udp"))).0, 409);
    // A new key for the same client.
    assert_eq!(daemon.ask("POST", "/v1/sa", &client("0x1004", 5, 1024, &of("udp"))).0, 200);
}

#[test]
fn bad_requests_are_named_and_never_repeat_the_key() {
    let daemon = Daemon::start("bad");
    let key = "01".repeat(20);
    let mut cases =
        vec!["".to_owned(), "[]".to_owned(), format!("{{\"keymat\":\"{key}\""), format!("\"{key}\"")];
    for (field, value) in [
        ("suite", json!(key)),
        ("mode", json!(key)),
        ("direction", json!(key)),
        ("spi", json!(key)),
        ("local", json!(key)),
        ("replay_window", json!(63)),
        ("keymat", json!(7)),
        ("extra", json!(key)),
    ] {
        let mut request = request("out", "0x1000", 1);
        request[field] = value;
        cases.push(request.to_string());
    }
    for case in cases {
        let (code, refused) = daemon.ask("POST", "/v1/sa", &case);
        assert_eq!((code, &refused["error"]["code"]), (400, &json!("bad_request")), "{case}: {refused}");
        assert!(!refused.to_string().contains(&key), "{refused}");
    }
    let huge = format!("{{\"keymat\":\"{}\"}}", "0".repeat(100_000));
    assert_eq!(daemon.ask("POST", "/v1/sa", &huge).0, 400);
    assert_eq!(daemon.ask("GET", "/v1/nothing", "").0, 404);
    assert_eq!(daemon.ask("GET", "/v1/explain", "").0, 400);
    assert_eq!(daemon.ask("GET", "/v1/explain?pid=1&socket=x", "").0, 400);
    assert_eq!(daemon.ask("GET", "/v1/explain?pid=abc", "").0, 400);
    assert_eq!(daemon.ask("DELETE", "/v1/sa/xyz", "").0, 400);
}

#[test]
fn every_refusal_is_a_document() {
    let daemon = Daemon::start("refusals");
    let long = "x".repeat(control::answer::MAX_REQUEST + 1);
    for (method, path, body, status, text) in [
        ("PUT", "/v1/sa", "", 405, "does not take that method"),
        ("POST", "/v1/status", "", 405, "does not take that method"),
        ("POST", "/v1/spd", long.as_str(), 413, "too long"),
        ("DELETE", "/v1/spd/%ff", "", 400, "UTF-8"),
        ("DELETE", "/v1/sa/%ff", "", 400, "UTF-8"),
        ("GET", "/v1/nothing", "", 404, "no such path"),
    ] {
        let (got, document) = daemon.ask(method, path, body);
        assert_eq!(got, status, "{document}");
        let error = &document["error"];
        assert!(error["message"].as_str().unwrap().contains(text), "{document}");
        assert!(error["code"].is_string(), "{document}");
    }
    let (_, head, body) = daemon.ask_raw("PUT", "/v1/sa", "");
    assert!(head.contains("allow: get,head,post") && body.contains("Allow"), "{head}{body}");
}

#[test]
fn a_field_of_the_wrong_kind_is_named() {
    let daemon = Daemon::start("kinds");
    for (field, value) in [
        ("local_port", json!("x")),
        ("esn", json!("yes")),
        ("mode", json!(7)),
        ("lifetime", json!({"hard": 7})),
    ] {
        let mut request = request("out", "0x1000", 1);
        request[field] = value;
        let (status, document) = daemon.ask("POST", "/v1/sa", &request.to_string());
        let message = document["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.contains(&format!("{field:?}")), "{message}");
        assert!(!message.contains("0101"), "{message}");
    }
}

#[test]
fn a_reload_takes_what_is_good_and_keeps_the_rest() {
    let daemon = Daemon::start("reload");
    let (_, answer) = daemon.ask("POST", "/v1/policy/reload", "");
    assert_eq!((&answer["applied"], &answer["generation"]), (&json!(true), &json!(2)));
    daemon.policy(&format!(
        "{}\napplication wget {{ network 0.0.0.0/0 trusted; }}\n",
        POLICY.replacen("P;", "P", 1)
    ));
    let (code, answer) = daemon.ask("POST", "/v1/policy/reload", "");
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer["refused_blocks"][0]["kept_last_good"], true);
    assert_eq!(answer["applications"], 2);
    assert!(answer["diagnostics"].as_str().unwrap().contains("policy:1:"));
    let (code, health) = daemon.ask("GET", "/v1/health", "");
    assert_eq!((code, &health["state"]), (503, &json!("degraded")));

    std::fs::remove_file(daemon.folder.0.join("policy")).unwrap();
    assert_eq!(daemon.ask("POST", "/v1/policy/reload", "").0, 400);
    let (_, status) = daemon.ask("GET", "/v1/status", "");
    assert_eq!(status["policy"]["generation"], 3);
    assert!(status["policy"]["last_error"].is_string());
    daemon.policy(POLICY);
    assert_eq!(daemon.ask("POST", "/v1/policy/reload", "").0, 200);
    assert_eq!(daemon.ask("GET", "/v1/health", "").0, 200);
}

#[test]
fn a_reload_says_who_lost_a_policy_and_takes_all_away_only_if_that_is_meant() {
    let daemon = Daemon::start("empty");
    let two = format!("{POLICY}application wget {{ network 0.0.0.0/0 trusted; }}\n");
    daemon.policy(&two);
    let (_, answer) = daemon.ask("POST", "/v1/policy/reload", "");
    assert_eq!((&answer["applications"], &answer["lost"]), (&json!(2), &Value::Null));
    // Cut off between two blocks: a policy without a fault.
    daemon.policy(POLICY);
    let (code, answer) = daemon.ask("POST", "/v1/policy/reload", "");
    assert_eq!((code, &answer["lost"]), (200, &json!(["wget"])));

    for text in ["", "/* all gone */\n"] {
        daemon.policy(text);
        for path in ["/v1/policy/reload", "/v1/policy/reload?allow_empty=false"] {
            let (code, refused) = daemon.ask("POST", path, "");
            assert_eq!((code, &refused["error"]["code"]), (409, &json!("conflict")), "{refused}");
            assert!(refused["error"]["message"].as_str().unwrap().contains("curl"), "{refused}");
            assert!(refused["error"]["remedy"].as_str().unwrap().contains("--allow-empty"), "{refused}");
        }
        let (_, status) = daemon.ask("GET", "/v1/status", "");
        assert_eq!((&status["policy"]["applications"], &status["state"]), (&json!(1), &json!("degraded")));
    }
    assert_eq!(daemon.ask("POST", "/v1/policy/reload?allow_empty=yes", "").0, 400);
    assert_eq!(daemon.ask("POST", "/v1/policy/reload?empty=true", "").0, 400);
    let (code, answer) = daemon.ask("POST", "/v1/policy/reload?allow_empty=true", "");
    assert_eq!((code, &answer["applications"], &answer["lost"]), (200, &json!(0), &json!(["curl"])));
    // Empty before, empty after: nothing to lose.
    assert_eq!(daemon.ask("POST", "/v1/policy/reload", "").0, 200);
}

#[test]
fn a_change_is_made_to_its_end_when_the_client_hangs_up() {
    use std::task::{Context, Poll, Waker};
    let folder = Folder::new("hang-up");
    let plane = plane(folder.config(), None);
    // The inbound thread stands still until the gate opens.
    let (gate, closed) = std::sync::mpsc::channel::<()>();
    let mut stand_still = Box::pin(plane.halves().ask_inbound(move |_| closed.recv().is_ok()));
    assert!(stand_still.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(stand_still);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let shared = Shared::new(plane);
        let body = control::extract::Body(serde_json::from_value(request("in", "auto", 1)).unwrap());
        let mut handler = Box::pin(super::sa::add(axum::extract::State(shared.clone()), body));
        // As far as it comes: it waits for the thread, and whoever comes after waits for it.
        let ready = std::future::poll_fn(|cx| Poll::Ready(handler.as_mut().poll(cx).is_ready())).await;
        tokio::task::yield_now().await;
        assert!(!ready, "the thread answered though it stands still");
        drop(handler);
        gate.send(()).unwrap();
        let sas = shared.get().await.unwrap().sas().await.unwrap();
        assert_eq!(sas.len(), 1, "the association is there though nobody waited for it");
    });
}

#[test]
fn rules_come_are_listed_in_order_and_go() {
    let daemon = Daemon::start("spd");
    let rule = |name: &str, place: &str| {
        json!({ "name": name, "place": place, "selectors": ["remote 192.0.2.0/24 proto tcp"], "action": "protect" })
            .to_string()
    };
    assert_eq!(daemon.ask("GET", "/v1/spd", "").1, json!({ "api": 1, "rules": [] }));
    let (code, added) = daemon.ask("POST", "/v1/spd", &rule("b", "last"));
    assert_eq!(code, 200, "{added}");
    assert_eq!(
        (&added["rule"]["service"], &added["rule"]["bundle"]),
        (&json!("encryption"), &json!(["any"]))
    );
    assert_eq!(daemon.ask("POST", "/v1/spd", &rule("a", "before:b")).1["rule"]["position"], 0);
    assert_eq!(daemon.ask("POST", "/v1/spd", &rule("c", "at:9")).1["rule"]["position"], 2);
    let (_, list) = daemon.ask("GET", "/v1/spd", "");
    let names: Vec<_> = list["rules"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(list["rules"][0]["outbound"], json!({ "packets": 0, "bytes": 0 }));
    for (body, want, text) in [
        (rule("a", "last"), 409, "already"),
        (rule("d", "before:x"), 404, "no rule"),
        (rule("d", "top"), 400, "no place"),
        ("{".to_owned(), 400, "not a rule"),
        (json!({ "selectors": ["any"], "action": "encrypt" }).to_string(), 400, "bypass"),
    ] {
        let (code, refused) = daemon.ask("POST", "/v1/spd", &body);
        assert_eq!(code, want, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(text), "{refused}");
        assert!(refused["error"]["remedy"].is_string(), "{refused}");
    }
    assert_eq!(daemon.ask("DELETE", "/v1/spd/b", "").0, 200);
    assert_eq!(daemon.ask("DELETE", "/v1/spd/b", "").0, 404);
    assert_eq!(daemon.ask("DELETE", "/v1/spd", "").1["rules"].as_array().unwrap().len(), 2);
    assert_eq!(daemon.ask("GET", "/v1/spd", "").1["rules"], json!([]));
}

#[test]
fn counters_are_empty_before_the_first_packet() {
    let daemon = Daemon::start("counters");
    let (_, counters) = daemon.ask("GET", "/v1/counters", "");
    for place in ["outbound", "inbound", "kernel"] {
        assert_eq!(counters[place], json!([]), "{counters}");
    }
    // All that there is to count is the policy.
    let line = json!({ "word": "applications", "count": 1, "text": "applications with a policy" });
    assert_eq!(counters["sections"], json!([{ "name": "spd", "lines": [line] }]));
}

#[test]
fn names_are_listed_with_their_lines() {
    let daemon = Daemon::start("names");
    daemon.policy(
        "application curl { network host.example untrusted; network b.example, host.example trusted; }\n",
    );
    let (status, refused) = daemon.ask("POST", "/v1/policy/reload", "{}");
    assert_eq!((status, refused["refused_blocks"].as_array().map(Vec::len)), (200, Some(1)), "{refused}");
    daemon.policy("application curl { network host.example untrusted; network b.example trusted; }\n");
    assert_eq!(daemon.ask("POST", "/v1/policy/reload", "{}").0, 200);
    let (status, list) = daemon.ask("GET", "/v1/policy/names", "");
    assert_eq!(status, 200, "{list}");
    let names = list["names"].as_array().unwrap();
    assert_eq!(
        (names.len(), &names[0]["name"], &names[1]["name"]),
        (2, &json!("b.example"), &json!("host.example"))
    );
    assert_eq!(names[1]["settings"][0]["text"], "network host.example untrusted;");
    let (_, status) = daemon.ask("GET", "/v1/status", "");
    assert_eq!((&status["names"]["names"], &status["names"]["unresolved"]), (&json!(2), &json!(2)));
}
