//! Changes to associations that live, the export of keys, and what is asked about a running daemon.

use super::*;

fn one(daemon: &Daemon, direction: &str, spi: &str, key: u8) -> Value {
    let (status, added) = daemon.ask("POST", "/v1/sa", &request(direction, spi, key).to_string());
    assert_eq!(status, 200, "{added}");
    added["sa"].clone()
}

fn list(daemon: &Daemon) -> Vec<(String, String)> {
    let (_, list) = daemon.ask("GET", "/v1/sa", "");
    let words =
        |sa: &Value| (sa["direction"].as_str().unwrap().to_owned(), sa["spi"].as_str().unwrap().to_owned());
    list["sas"].as_array().unwrap().iter().map(words).collect()
}

#[test]
fn a_window_and_limits_change_and_what_is_not_named_stays() {
    let daemon = Daemon::start("update");
    one(&daemon, "in", "0x1000", 1);
    one(&daemon, "out", "0x1000", 2);
    let (status, ambiguous) = daemon.ask("PATCH", "/v1/sa/0x1000", r#"{"replay_window":64}"#);
    assert_eq!((status, &ambiguous["error"]["code"]), (409, &json!("conflict")));
    let (status, changed) =
        daemon.ask("PATCH", "/v1/sa/0x1000?direction=in", r#"{"replay_window":64,"soft":{"packets":9}}"#);
    assert_eq!(status, 200, "{changed}");
    assert_eq!(changed["sa"]["replay_window"], 64);
    let (_, changed) = daemon.ask("PATCH", "/v1/sa/0x1000?direction=in", r#"{"hard":{"seconds":99}}"#);
    let lifetime = &changed["sa"]["lifetime"];
    assert_eq!((&lifetime["soft"]["packets"], &lifetime["hard"]["seconds"]), (&json!(9), &json!(99)));
    assert_eq!(changed["sa"]["replay_window"], 64);
    for (query, body, code) in [
        ("direction=out", r#"{"replay_window":64}"#, 400),
        ("direction=in", r#"{"replay_window":65}"#, 400),
        ("direction=in", "{}", 400),
        ("direction=in", r#"{"soft":{"seconds":100}}"#, 400),
        ("direction=out", r#"{"soft":{"bytes":3},"hard":{"bytes":2}}"#, 400),
        ("direction=in", r#"{"window":64}"#, 400),
        ("direction=in&remote=192.0.2.9", r#"{"replay_window":64}"#, 404),
        ("colour=red", r#"{"replay_window":64}"#, 400),
    ] {
        let (status, refused) = daemon.ask("PATCH", &format!("/v1/sa/0x1000?{query}"), body);
        assert_eq!(status, code, "{query} {body}: {refused}");
    }
}

#[test]
fn what_nobody_waits_for_cannot_be_refused() {
    let daemon = Daemon::start("acquire");
    let (status, refused) = daemon.ask("DELETE", "/v1/acquire/7", "");
    assert_eq!((status, &refused["error"]["code"]), (404, &json!("not_found")), "{refused}");
    assert_eq!(daemon.ask("DELETE", "/v1/acquire/x", "").0, 400);
}

#[test]
fn a_pair_is_replaced_and_a_failure_changes_nothing() {
    let daemon = Daemon::start("replace");
    let old = one(&daemon, "in", "auto", 1)["spi"].as_str().unwrap().to_owned();
    one(&daemon, "out", "0x1000", 2);
    let key = |key: u8| format!("{key:02x}").repeat(20);
    let pair = |outbound: &str, overlap: u64| {
        json!({"inbound": {"old": old, "spi": "auto", "keymat": key(3)},
               "outbound": {"old": outbound, "spi": "0x2000", "keymat": key(4)}, "overlap_seconds": overlap})
        .to_string()
    };
    // The second half fails: the first is taken back.
    let (status, refused) = daemon.ask("POST", "/v1/replace", &pair("0x1001", 30));
    assert_eq!(status, 404, "{refused}");
    assert_eq!(list(&daemon), [("in".to_owned(), old.clone()), ("out".into(), "0x00001000".into())]);
    let again = pair("0x1000", 30).replace(&key(3), &key(5));
    let (status, done) = daemon.ask("POST", "/v1/replace", &again);
    assert_eq!(status, 200, "{done}");
    assert!(!done.to_string().contains("0505"), "{done}");
    let new = done["sas"][0]["spi"].as_str().unwrap();
    assert_eq!(done["replaced"][0]["spi"], old.as_str());
    // Of one that was retired a soft limit may lie behind the end: what does not touch the limits still changes.
    let path = format!("/v1/sa/{old}?direction=in");
    assert_eq!(daemon.ask("PATCH", &path, r#"{"soft":{"seconds":20}}"#).0, 200);
    assert_eq!(daemon.ask("PATCH", &path, r#"{"replay_window":128}"#).0, 200);
    assert_eq!(daemon.ask("PATCH", &path, r#"{"soft":{"seconds":3000}}"#).0, 400);
    // It stays for the overlap, which then ends it.
    let end = done["replaced"][0]["lifetime"]["hard"]["seconds"].as_u64().unwrap();
    assert!((31..40).contains(&end), "{done}");
    let mut expected = [("in".to_owned(), old.clone()), ("in".into(), new.into())];
    expected.sort();
    let now = list(&daemon);
    assert_eq!(now[..2], expected);
    assert_eq!(now[2..], [("out".to_owned(), "0x00002000".to_owned())]);
    // One that was given an end has a successor without it.
    let body = json!({"inbound": {"old": old, "spi": "auto", "keymat": key(6)}, "overlap_seconds": 30});
    let (status, done) = daemon.ask("POST", "/v1/replace", &body.to_string());
    assert_eq!(status, 200, "{done}");
    assert!(done["replaced"][0]["lifetime"]["hard"]["seconds"].as_u64().unwrap() >= 31, "{done}");
    assert_eq!(done["sas"][0]["lifetime"]["hard"]["seconds"].as_u64().unwrap_or(0), 0, "{done}");
    let second = format!("/v1/sa/{}", done["sas"][0]["spi"].as_str().unwrap());
    assert_eq!(daemon.ask("DELETE", &second, "").0, 200);
    // Without an overlap the old one goes at once; the successor was there already.
    let body = json!({"inbound": {"old": old, "spi": new}, "overlap_seconds": 0}).to_string();
    let (status, done) = daemon.ask("POST", "/v1/replace", &body);
    assert_eq!(status, 200, "{done}");
    assert_eq!(list(&daemon).len(), 2);
    // Every key that was used stays refused.
    let body = json!({"outbound": {"old": "0x2000", "spi": "0x2001", "keymat": key(2)}}).to_string();
    assert_eq!(daemon.ask("POST", "/v1/replace", &body).0, 409);
}

#[test]
fn a_member_of_a_bundle_is_not_replaced_alone() {
    let daemon = Daemon::start("replace-bundle");
    let mut first = request("out", "0x1000", 1);
    (first["next"], first["encapsulation"]) = ("0x1001".into(), "none".into());
    assert_eq!(daemon.ask("POST", "/v1/sa", &first.to_string()).0, 200);
    one(&daemon, "out", "0x1001", 2);
    let body = json!({"outbound": {"old": "0x1001", "spi": "0x2000", "keymat": "03".repeat(20)}}).to_string();
    let (status, refused) = daemon.ask("POST", "/v1/replace", &body);
    assert_eq!(status, 409, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("0x00001000"), "{refused}");
}

#[test]
fn associations_with_one_spi_are_told_apart_by_their_addresses() {
    let daemon = Daemon::start("match");
    one(&daemon, "in", "0x1000", 1);
    for (what, local, key) in
        [("spi+dst", "239.1.2.3", 2), ("spi+dst+src", "239.1.2.3", 3), ("spi-destination", "192.0.2.7", 4)]
    {
        let mut request = request("in", "0x1000", key);
        (request["match"], request["local"]) = (what.into(), local.into());
        request["mode"] = "tunnel".into();
        let (status, added) = daemon.ask("POST", "/v1/sa", &request.to_string());
        assert_eq!(status, 200, "{added}");
        assert_eq!(added["sa"]["match"], what.replace("-destination", "+dst"));
    }
    let mut wrong = request("in", "0x1001", 9);
    wrong["match"] = "source".into();
    let (status, refused) = daemon.ask("POST", "/v1/sa", &wrong.to_string());
    assert_eq!(status, 400);
    assert!(refused["error"]["remedy"].as_str().unwrap().contains("spi+dst+src"), "{refused}");
    // Two have the same addresses: then not even these tell them apart.
    let (status, _) = daemon.ask("DELETE", "/v1/sa/0x1000?local=239.1.2.3", "");
    assert_eq!(status, 409);
    assert_eq!(daemon.ask("DELETE", "/v1/sa/0x1000?local=192.0.2.7", "").0, 200);
    assert_eq!(daemon.ask("DELETE", "/v1/sa/0x1000?local=192.0.2.1", "").0, 200);
    assert_eq!(list(&daemon).len(), 2);
}

#[test]
fn a_class_that_no_graph_has_is_refused_and_the_old_words_still_mean_match() {
    let daemon = Daemon::start("class");
    let mut named = request("out", "0x1000", 1);
    named["class"] = "voice".into();
    let (status, refused) = daemon.ask("POST", "/v1/sa", &named.to_string());
    assert_eq!(status, 404, "{refused}");
    assert_eq!(refused["error"]["message"], "class \"voice\": no graph is configured");
    assert!(refused["error"]["remedy"].as_str().unwrap().contains("[qos]"), "{refused}");
    let rule = json!({"selectors": ["any"], "action": "bypass", "class": "voice"});
    let (status, refused) = daemon.ask("POST", "/v1/spd", &rule.to_string());
    assert_eq!(status, 404, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("no graph is configured"), "{refused}");
    // Nothing was kept of either: the key is free still.
    assert!(list(&daemon).is_empty());
    named["class"] = Value::Null;
    assert_eq!(daemon.ask("POST", "/v1/sa", &named.to_string()).0, 200);
    let mut old = request("in", "0x1001", 2);
    (old["class"], old["local"], old["mode"]) = ("spi+dst".into(), "239.1.2.3".into(), "tunnel".into());
    let (status, added) = daemon.ask("POST", "/v1/sa", &old.to_string());
    assert_eq!((status, &added["sa"]["match"]), (200, &"spi+dst".into()), "{added}");
    assert_eq!(added["sa"].get("class"), None, "{added}");
}

#[test]
fn keys_are_exported_only_to_those_who_say_that_they_mean_it() {
    let daemon = Daemon::start("export");
    let (status, refused) = daemon.ask("GET", "/v1/export/wireshark?show_keys=true", "");
    assert_eq!(status, 404, "{refused}");
    one(&daemon, "in", "0x1000", 1);
    let mut unknown = request("out", "0x1001", 2);
    (unknown["suite"], unknown["keymat"]) = ("chacha20poly1305".into(), "02".repeat(36).into());
    assert_eq!(daemon.ask("POST", "/v1/sa", &unknown.to_string()).0, 200);
    for query in ["", "?show_keys=false", "?spi=0x1000", "?show_keys=1", "?show_keys=true&all=true"] {
        let (status, refused) = daemon.ask("GET", &format!("/v1/export/wireshark{query}"), "");
        assert_eq!(status, 400, "{query}: {refused}");
        assert!(!refused.to_string().contains("0101"), "{refused}");
    }
    let (status, head, body) = daemon.ask_raw("GET", "/v1/export/wireshark?show_keys=true", "");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/x-wireshark-esp-sa"), "{head}");
    assert!(serde_json::from_str::<Value>(&body).is_err(), "no key in JSON");
    let mut lines = body.lines();
    let row = lines.next().unwrap();
    assert!(row.starts_with("\"IPv4\",\"192.0.2.2\",\"192.0.2.1\",\"0x00001000\",\"AES-GCM"), "{row}");
    assert!(row.contains(&"01".repeat(20)));
    assert_eq!(
        lines.next().unwrap(),
        "# 0x00001001 from 192.0.2.1 to 192.0.2.2: Wireshark has no word for chacha20poly1305"
    );
    let (_, _, body) = daemon.ask_raw("GET", "/v1/export/wireshark?show_keys=true&spi=0x1001", "");
    assert_eq!(body.lines().count(), 1);
}

#[test]
fn statistics_hide_zeros_unless_they_are_wanted() {
    let daemon = Daemon::start("stats");
    one(&daemon, "in", "0x1000", 1);
    let (_, some) = daemon.ask("GET", "/v1/counters", "");
    let lines = |document: &Value| -> Vec<(String, u64)> {
        let sections = document["sections"].as_array().unwrap();
        let lines = sections.iter().flat_map(|section| {
            let name = section["name"].as_str().unwrap();
            let lines = section["lines"].as_array().unwrap();
            lines.iter().map(move |l| {
                (format!("{name}.{}", l["word"].as_str().unwrap()), l["count"].as_u64().unwrap())
            })
        });
        lines.collect()
    };
    assert!(lines(&some).contains(&("esp.in.sas".to_owned(), 1)), "{some}");
    assert!(lines(&some).iter().all(|(_, count)| *count > 0), "{some}");
    let (_, all) = daemon.ask("GET", "/v1/counters?all=true", "");
    assert!(lines(&all).contains(&("integrity.in.auth_failed".to_owned(), 0)), "{all}");
    assert_eq!(daemon.ask("GET", "/v1/counters?most=true", "").0, 400);
}

#[test]
fn the_status_says_how_many_rules_there_are() {
    let daemon = Daemon::start("rules-count");
    assert_eq!(daemon.ask("GET", "/v1/status", "").1["spd_rules"], 0);
    let rule =
        json!({"name": "a", "selectors": ["any"], "direction": "both", "action": "bypass"}).to_string();
    let (status, added) = daemon.ask("POST", "/v1/spd", &rule);
    assert_eq!(status, 200, "{added}");
    assert_eq!(daemon.ask("GET", "/v1/status", "").1["spd_rules"], 1);
}

#[test]
fn a_log_that_was_set_up_elsewhere_is_not_switched() {
    let daemon = Daemon::start("debug");
    for (method, body) in [("GET", ""), ("POST", r#"{"filter":"debug"}"#)] {
        let (status, refused) = daemon.ask(method, "/v1/debug", body);
        assert_eq!(status, 500, "{refused}");
        assert!(refused["error"]["remedy"].as_str().unwrap().contains("ravelin run"), "{refused}");
    }
    assert_eq!(daemon.ask("POST", "/v1/debug", r#"{"level":"debug"}"#).0, 400);
}

#[test]
fn clients_that_hang_up_hold_no_captures() {
    let daemon = Daemon::start("hang-up");
    for pause in 0..12 {
        let mut stream = UnixStream::connect(daemon.folder.0.join("c.sock")).unwrap();
        write!(stream, "POST /v1/capture HTTP/1.1\r\nHost: r\r\nContent-Length: 2\r\n\r\n{{}}").unwrap();
        // Time is the subject: who hangs up does so while the request is read, served or answered.
        std::thread::sleep(std::time::Duration::from_micros(40 * pause));
    }
    let running = || {
        let (_, list) = daemon.ask("GET", "/v1/capture", "");
        list["captures"].as_array().unwrap().iter().filter(|info| info["running"] == true).count()
    };
    let soon = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while running() > 0 {
        assert!(std::time::Instant::now() < soon, "a capture runs for nobody");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_capture_ends_and_says_how_it_went() {
    let daemon = Daemon::start("capture");
    for (body, code) in [
        ("{", 400),
        (r#"{"form":"html"}"#, 400),
        (r#"{"port":80}"#, 400),
        (r#"{"count":0}"#, 400),
        (r#"{"snaplen":0}"#, 400),
        (r#"{"app":"wget"}"#, 404),
    ] {
        let (status, refused) = daemon.ask("POST", "/v1/capture", body);
        assert_eq!(status, code, "{body}: {refused}");
    }
    let (status, head, _) =
        daemon.ask_raw("POST", "/v1/capture", r#"{"app":"curl","seconds":1,"form":"text"}"#);
    assert_eq!(status, 200);
    let id = head.lines().find_map(|line| line.strip_prefix("ravelin-capture: ")).unwrap().to_owned();
    // It is over a moment after its last octet was read.
    let last = || {
        let (_, list) = daemon.ask("GET", "/v1/capture", "");
        list["captures"].as_array().unwrap().last().unwrap().clone()
    };
    let soon = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while last()["running"] == true {
        assert!(std::time::Instant::now() < soon, "a capture runs on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let last = last();
    assert_eq!((last["id"].to_string(), &last["running"], &last["lost"]), (id, &json!(false), &json!(0)));
    assert_eq!(last["pid"], std::process::id());
    assert_eq!(daemon.ask("DELETE", "/v1/capture/99", "").0, 404);
    assert_eq!(daemon.ask("DELETE", "/v1/capture/x", "").0, 400);
}

#[tokio::test]
async fn peers_of_inbound_associations_are_counted() {
    let folder = Folder::new("live");
    let kernel_half = Recorder::default();
    let mut plane = plane_over(kernel_half.clone(), folder.config(), None);
    let add =
        |direction: &str, spi: &str, key: u8| serde_json::from_value(request(direction, spi, key)).unwrap();
    let first = plane.add_sa(add("in", "0x1000", 1)).await.unwrap();
    let second = plane.add_sa(add("in", "auto", 2)).await.unwrap();
    plane.add_sa(add("out", "0x3000", 3)).await.unwrap();
    let peers = kernel_half.live();
    assert_eq!(peers.len(), 1);
    // The second association of the peer is no news to the kernel half.
    assert_eq!(kernel_half.take_calls(), [Call::AddLive(peers[0])]);
    // The same peer, by other ports: something else is served.
    let mut web = request("in", "auto", 7);
    web["remote_ports"] = "443".into();
    let web = plane.add_sa(serde_json::from_value(web).unwrap()).await.unwrap();
    let served = kernel_half.live();
    assert!(served.len() == 2 && served.contains(&peers[0]), "{served:?}");
    assert!(served.iter().any(|served| served.remote_ports == sadb::spd::PortRange::one(443)));
    plane.delete_sa(web.spi, &Default::default()).await.unwrap();
    assert_eq!(kernel_half.live(), peers);
    plane.delete_sa(first.spi, &Default::default()).await.unwrap();
    assert_eq!(kernel_half.live(), peers);
    // By a successor that takes over at once, and by a limit, of which an event tells.
    let replace = json!({"inbound": {"old": second.spi, "spi": "0x1002", "keymat": "04".repeat(20)}, "overlap_seconds": 0});
    let done = plane.replace_sas(serde_json::from_value(replace).unwrap()).await.unwrap();
    assert_eq!(kernel_half.live(), peers);
    let last = &done.sas[0];
    let ended = |spi: u32| {
        engine::Event::Expire(engine::Expire {
            spi: sadb::Spi(spi),
            direction: sadb::Direction::Inbound,
            remote: last.remote,
            state: sadb::sa::LifeState::Dead,
            packets: 0,
            bytes: 0,
        })
    };
    let remove = |half: &mut InboundHalf| half.engine.remove_sa(sadb::Spi(0x1002)).map(drop);
    plane.halves().ask_inbound(remove).await.unwrap().unwrap();
    plane.follow_end(&ended(last.spi.0), false).await;
    assert_eq!(kernel_half.live(), []);
    // The end of one that was not counted, and the end of which an event was lost: all are counted anew.
    plane.add_sa(add("in", "0x1004", 5)).await.unwrap();
    for (spi, lost) in [(9, false), (0x1004, true)] {
        kernel_half.take_calls();
        plane.follow_end(&ended(spi), lost).await;
        assert_eq!(kernel_half.take_calls(), [Call::SetLive(peers.clone())], "{spi}");
    }
}

#[tokio::test]
async fn an_inbound_association_that_the_kernel_half_does_not_take_is_removed_again() {
    let folder = Folder::new("live-refused");
    let kernel_half = Recorder::default();
    let mut plane = plane_over(kernel_half.clone(), folder.config(), None);
    let add = |key: u8| serde_json::from_value(request("in", "0x1000", key)).unwrap();
    kernel_half.fail(&["add_live_sa"]);
    let refused = plane.add_sa(add(1)).await.unwrap_err();
    assert!(refused.message.contains("add_live_sa"), "{refused}");
    assert_eq!((plane.sas().await.unwrap(), kernel_half.live()), (vec![], vec![]));
    kernel_half.fail(&[]);
    // Its key is burnt, as the peer may have sealed with it already; its SPI is free.
    assert!(plane.add_sa(add(1)).await.is_err());
    plane.add_sa(add(2)).await.unwrap();
    assert_eq!((plane.sas().await.unwrap().len(), kernel_half.live().len()), (1, 1));
    // What the kernel half still has as served it serves until it follows; the association is gone.
    kernel_half.fail(&["remove_live_sa"]);
    assert!(plane.delete_sa(api::Spi(0x1000), &Default::default()).await.is_err());
    assert_eq!(plane.sas().await.unwrap(), []);
}

#[test]
fn who_listens_hears_of_rules_that_come_and_go() {
    use std::io::BufRead;
    let daemon = Daemon::start("rules-told");
    let mut stream = UnixStream::connect(daemon.folder.0.join("c.sock")).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    write!(stream, "GET /v1/events HTTP/1.1\r\nHost: r\r\n\r\n").unwrap();
    let mut events = std::io::BufReader::new(stream).lines().filter_map(|line| {
        let line = line.unwrap();
        line.starts_with('{').then(|| serde_json::from_str::<Value>(&line).unwrap())
    });
    assert_eq!(events.next().unwrap()["event"], "ready");
    let rule = |name: &str| json!({"name": name, "selectors": ["any"], "action": "bypass"}).to_string();
    daemon.ask("POST", "/v1/spd", &rule("a"));
    daemon.ask("POST", "/v1/spd", &rule("b"));
    daemon.ask("POST", "/v1/spd", &rule("b"));
    daemon.ask("POST", "/v1/spd", &rule("c"));
    daemon.ask("DELETE", "/v1/spd/b", "");
    daemon.ask("DELETE", "/v1/spd", "");
    // A flush of nothing tells nothing.
    daemon.ask("DELETE", "/v1/spd", "");
    daemon.ask("POST", "/v1/spd", &rule("d"));
    for (change, names) in [
        ("added", vec!["a"]),
        ("added", vec!["b"]),
        ("added", vec!["c"]),
        ("deleted", vec!["b"]),
        ("deleted", vec!["a", "c"]),
        ("added", vec!["d"]),
    ] {
        let event = events.next().unwrap();
        let told: Vec<_> =
            event["rules"].as_array().unwrap().iter().map(|rule| rule["name"].as_str().unwrap()).collect();
        assert_eq!(
            (&event["event"], &event["change"], told),
            (&json!("spd"), &json!(change), names),
            "{event}"
        );
    }
}
