//! Plans, trials and the way back, without a kernel half.

use super::*;

const OTHER: &str = "application curl { network 192.0.2.0/24 untrusted; }\n";

fn apply(daemon: &Daemon, text: &str, seconds: Option<u64>) -> (u16, Value) {
    let mut body = json!({ "file": "/tmp/other", "text": text });
    if let Some(seconds) = seconds {
        body["confirm_within_seconds"] = seconds.into();
    }
    daemon.ask("POST", "/v1/policy/apply", &body.to_string())
}

fn file(daemon: &Daemon, suffix: &str) -> String {
    std::fs::read_to_string(daemon.folder.0.join(format!("policy{suffix}"))).unwrap_or_default()
}

fn generation(daemon: &Daemon) -> Value {
    daemon.ask("GET", "/v1/status", "").1["policy"]["generation"].clone()
}

#[test]
fn a_plan_compares_and_leaves_everything() {
    let daemon = Daemon::start("plan");
    let before = generation(&daemon);
    let plan = |body: Value| daemon.ask("POST", "/v1/policy/plan", &body.to_string());
    // Without a text the file as it is now.
    assert_eq!(plan(json!({})).1["changes"], false);
    daemon.policy(OTHER);
    let (code, answer) = plan(json!({}));
    assert_eq!(
        (code, &answer["changes"], &answer["applications"][0]["change"]),
        (200, &json!(true), &json!("changed"))
    );
    let flow = &answer["applications"][0]["peers"][0]["flows"][0];
    assert_eq!(
        (&flow["before"]["verdict"], &flow["after"]["verdict"]),
        (&json!("encryption mandatory"), &json!("refused"))
    );
    // By meaning.
    let halves = "application curl { network 192.0.2.0/25, 192.0.2.128/25 protected Q; protection Q { encryption require; } }";
    assert_eq!(plan(json!({ "file": "x", "text": halves })).1["changes"], false);
    let guarded = format!("{POLICY}\nguard {{ network 192.0.2.0/24 untrusted; }}\n");
    let (_, answer) = plan(json!({ "text": guarded }));
    assert_eq!(
        (&answer["applications"][0]["application"], &answer["applications"][0]["change"]),
        (&json!(policy::GUARD), &json!("added")),
        "{answer}"
    );
    let (_, answer) = plan(json!({ "file": "x", "text": "application { \n" }));
    assert!(answer["diagnostics"].as_str().unwrap().contains("x:1"), "{answer}");
    assert_eq!(plan(json!({ "txet": "" })).0, 400);
    assert_eq!(generation(&daemon), before);
    // A text longer than other requests may be.
    let long = format!("{}# {}\n", POLICY, "x".repeat(200_000));
    assert_eq!(plan(json!({ "text": long })).1["changes"], false);
}

#[test]
fn a_trial_is_confirmed_or_taken_back_and_nothing_comes_in_between() {
    let daemon = Daemon::start("trial");
    let post = |path: &str| daemon.ask("POST", path, "");
    for path in ["/v1/policy/confirm", "/v1/policy/rollback"] {
        assert_eq!(post(path).0, 404, "{path}");
    }
    for seconds in [0, 86_401] {
        assert_eq!(apply(&daemon, OTHER, Some(seconds)).0, 400);
    }
    assert_eq!(apply(&daemon, POLICY, Some(60)).0, 409, "it is in force already");
    let (code, answer) = apply(&daemon, OTHER, Some(60));
    assert_eq!(
        (code, &answer["changed"], &answer["waiting"]["file"]),
        (200, &json!(["curl"]), &json!("/tmp/other"))
    );
    assert_eq!(
        (file(&daemon, ""), daemon.ask("GET", "/v1/status", "").1["policy"]["waiting"].is_object()),
        (POLICY.into(), true)
    );
    for (path, body) in [("/v1/policy/reload", ""), ("/v1/policy/apply", "{}")] {
        let (code, refused) = daemon.ask("POST", path, body);
        assert_eq!(code, 409, "{refused}");
        assert!(refused["error"]["remedy"].as_str().unwrap().contains("confirm"), "{refused}");
    }
    assert_eq!(post("/v1/policy/rollback").0, 200);
    assert_eq!((file(&daemon, ""), file(&daemon, ".rejected")), (POLICY.into(), String::new()));
    assert_eq!(post("/v1/policy/rollback").0, 404);

    assert_eq!(apply(&daemon, OTHER, Some(60)).0, 200);
    assert_eq!(post("/v1/policy/confirm").0, 200);
    assert_eq!((file(&daemon, ""), file(&daemon, ".previous")), (OTHER.into(), POLICY.into()));
    assert_eq!(post("/v1/policy/confirm").0, 404);
}

#[test]
fn what_is_applied_for_good_is_in_the_file_and_can_be_taken_back() {
    let daemon = Daemon::start("good");
    let (code, answer) = apply(&daemon, OTHER, None);
    assert_eq!((code, &answer["waiting"]), (200, &Value::Null), "{answer}");
    assert_eq!((file(&daemon, ""), file(&daemon, ".previous")), (OTHER.into(), POLICY.into()));
    let (code, answer) = daemon.ask("POST", "/v1/policy/rollback", "");
    assert_eq!((code, &answer["changed"]), (200, &json!(["curl"])), "{answer}");
    assert_eq!((file(&daemon, ""), file(&daemon, ".rejected")), (POLICY.into(), OTHER.into()));
    // With an error nothing of it is taken, and one that names nobody only if that is meant.
    for (text, want) in [("application x { network ; }\n", 400), ("# nobody\n", 409)] {
        let (code, refused) = apply(&daemon, text, None);
        assert_eq!(code, want, "{refused}");
        assert_eq!(file(&daemon, ""), POLICY);
    }
    // A reload has a way back too; one of the same text is no step.
    daemon.policy(OTHER);
    assert_eq!(daemon.ask("POST", "/v1/policy/reload", "").1["changed"], json!(["curl"]));
    assert_eq!(daemon.ask("POST", "/v1/policy/reload", "").1["changed"], Value::Null);
    assert_eq!(daemon.ask("POST", "/v1/policy/rollback", "").0, 200);
    assert_eq!(file(&daemon, ""), POLICY);
}

#[test]
fn a_policy_with_broken_blocks_is_none_to_go_back_to() {
    let daemon = Daemon::start("unsound");
    daemon.policy(&format!("{POLICY}application x {{ network ; }}\n"));
    assert_eq!(daemon.ask("POST", "/v1/policy/reload", "").0, 200);
    let (code, refused) = apply(&daemon, OTHER, Some(60));
    assert_eq!(code, 409, "{refused}");
    assert_eq!(apply(&daemon, OTHER, None).0, 200);
}

#[test]
fn without_a_kernel_half_there_is_no_traffic_and_no_drop() {
    let daemon = Daemon::start("nothing");
    let (code, traffic) = daemon.ask("GET", "/v1/traffic", "");
    assert_eq!(
        (code, &traffic["applications"], &traffic["handed_over"]["agree"]),
        (200, &json!([]), &json!(true))
    );
    assert_eq!(daemon.ask("GET", "/v1/explain?drop=all", "").0, 200);
    assert_eq!(daemon.ask("GET", "/v1/explain?drop=last", "").0, 404);
    assert_eq!(daemon.ask("GET", "/v1/explain?drop=x", "").0, 400);
    assert_eq!(daemon.ask("GET", "/v1/explain?drop=1&pid=1", "").0, 400);
}

#[test]
fn a_flow_that_never_was_is_explained_with_what_would_serve_it() {
    let daemon = Daemon::start("never");
    let ask = |query: &str| daemon.ask("GET", &format!("/v1/explain?{query}"), "");
    let (code, answer) = ask("app=curl&to=192.0.2.199:443/tcp");
    assert_eq!(code, 200, "{answer}");
    let flow = &answer["sockets"][0];
    assert_eq!(
        (&flow["decision"]["verdict"], &flow["flow"]["local"]),
        (&json!("protect"), &Value::Null),
        "{answer}"
    );
    assert!(flow["effect"].as_str().unwrap().starts_with("blocked"), "{answer}");
    assert_eq!(ask("app=curl&to=203.0.113.1:443/tcp").1["sockets"][0]["effect"], "clear");
    assert_eq!(ask("app=nobody&to=192.0.2.199:443/tcp").1["sockets"][0]["effect"], "clear");
    for wrong in
        ["app=curl", "to=192.0.2.199:443/tcp", "app=curl&to=there", "app=curl&to=192.0.2.199:1/tcp&pid=1"]
    {
        assert_eq!(ask(wrong).0, 400, "{wrong}");
    }
}
