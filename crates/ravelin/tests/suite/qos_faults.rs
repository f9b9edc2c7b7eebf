//! What commands say of graphs that are broken, stand in the wrong place, or may not mean what they say.

use serde_json::Value;

use crate::kit::{Folder, err, out, run};

const POLICY: &str = "default { network 0.0.0.0/0, ::/0 trusted; }\n";

#[test]
fn a_broken_graph_of_a_named_configuration_fails_the_check_of_a_policy() {
    let folder = Folder::new("qos-policy-check");
    let policy = folder.file("main.policy", POLICY);
    folder.file("qos.toml", "preset = \"voice\"\n[class.ef]\nmatch = [{ dscp = [\"FE\"] }]\n");
    let config = folder.file("ravelin.toml", "policy = \"main.policy\"\n[qos]\nfile = \"qos.toml\"\n");
    let check = run(&["policy", "check", &policy, "--config", &config]);
    assert_eq!(check.status.code(), Some(2), "{}", err(&check));
    let fault = "qos.toml:3:20: error[RVL-Q201]: there is no DSCP \"FE\"";
    assert!(err(&check).contains(fault), "{}", err(&check));
    let check = run(&["policy", "check", &policy, "--config", &config, "--json"]);
    assert_eq!((check.status.code(), err(&check)), (Some(2), String::new()));
    let report: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!((&report["ok"], &report["findings"][0]["code"]), (&false.into(), &"RVL-Q201".into()));
    // So does a graph that is not there, and a section that names none.
    let check = |qos: &str| {
        let text = format!("policy = \"main.policy\"\n[qos]\n{qos}\n");
        run(&["policy", "check", &policy, "--config", &folder.file("other.toml", &text)])
    };
    for (qos, text) in [
        ("file = \"none.toml\"", "none.toml: No such file"),
        ("presett = \"voice\"", "other.toml:3:1: error: "),
    ] {
        let check = check(qos);
        assert_eq!(check.status.code(), Some(2), "{qos}");
        assert!(err(&check).contains(text), "{}", err(&check));
    }
    assert_eq!(check("preset = \"voice\"").status.code(), Some(0));
}

#[test]
fn a_class_that_loses_the_priority_of_a_preset_has_a_warning_and_is_no_error() {
    let folder = Folder::new("qos-warning");
    let text = "preset = \"voice\"\n[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\n";
    let file = folder.file("qos.toml", text);
    let check = run(&["qos", "check", &file]);
    assert_eq!(check.status.code(), Some(0), "{}", err(&check));
    let warning = "qos.toml:2:8: warning[RVL-Q308]: the class `ef` has no priority";
    assert!(
        err(&check).contains(warning) && err(&check).contains("= help: write priority"),
        "{}",
        err(&check)
    );
    assert!(out(&check).ends_with(", 0 errors, 1 warning\n"), "{}", out(&check));
    let check = run(&["qos", "check", &file, "--json"]);
    let report: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!((&report["ok"], &report["findings"][0]["severity"]), (&true.into(), &"warning".into()));
    let plan = run(&["qos", "plan", &file]);
    assert!(out(&plan).contains("qos.toml:2:8: the class `ef` has no priority"), "{}", out(&plan));
}

#[test]
fn a_configuration_in_the_place_of_a_graph_is_told_with_how_its_graph_comes_in_force() {
    let folder = Folder::new("qos-configuration");
    for (qos, remedy) in [
        ("preset = \"voice\"", "ravelin qos apply --preset voice"),
        ("file = \"/etc/qos.toml\"", "ravelin qos apply /etc/qos.toml"),
    ] {
        let file = folder.file("ravelin.toml", &format!("policy = \"p\"\nlog = \"info\"\n[qos]\n{qos}\n"));
        for verb in ["apply", "check"] {
            let done = run(&["qos", verb, &file]);
            assert_eq!(done.status.code(), Some(2), "{}", err(&done));
            let text = err(&done);
            assert!(text.contains("ravelin.toml:3:2: error[RVL-Q102]: this is a configuration"), "{text}");
            assert!(text.contains(remedy) && text.matches("error[").count() == 1, "{text}");
        }
    }
}

#[test]
fn an_explanation_has_the_rules_of_the_graph_where_no_item_names_a_class() {
    let folder = Folder::new("qos-explain");
    let item = |class: &str| {
        format!(
            "application curl {{\n  network 192.0.2.0/24 protected P;\n  protection P {{ encryption mandatory{class}; }}\n}}\n"
        )
    };
    let config = folder.file("ravelin.toml", "policy = \"main.policy\"\n[qos]\npreset = \"voice\"\n");
    let asked = |class: &str| {
        let policy = folder.file("main.policy", &item(class));
        let ask =
            ["policy", "explain", &policy, "--app", "curl", "--to", "192.0.2.2:443/tcp", "--config", &config];
        out(&run(&ask))
    };
    let text = asked("");
    let rules = "the rules of the graph give one: control for dscp CS6 or CS7, or for header ike or keepalive, ef for dscp EF \
                 or VA, af4 for dscp AF41 or AF42 or AF43, else rest\n";
    assert!(text.contains(rules), "{text}");
    let text = asked(" class ef");
    assert!(text.contains("class ef: ") && !text.contains("the rules of the graph give one"), "{text}");
}
