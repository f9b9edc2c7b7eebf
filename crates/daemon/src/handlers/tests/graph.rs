//! Which graph of classes is in force, where it is from, and what is said of one that was taken back.

use api::{QosApply, path};
use netio::clock;

use super::*;

const ONE: &str = "[class.one]\nmatch = \"rest\"\n";
const TWO: &str = "[class.two]\nmatch = \"rest\"\n";

#[test]
fn status_names_the_graph_with_its_origin_and_its_trial() {
    let none = Daemon::start("graph-none");
    assert_eq!(none.ask("GET", path::STATUS, "").1.get("qos"), None);

    let folder = Folder::new("graph-status");
    let plane = plane(folder.config_with_graph(ONE), None);
    let daemon = Daemon::over(folder, plane);
    let file = daemon.folder.0.join("qos.toml").display().to_string();
    let status = || daemon.ask("GET", path::STATUS, "").1["qos"].clone();
    let configured = json!({ "file": file, "origin": { "configured": file, "applied": false } });
    assert_eq!(status(), configured);

    let request = json!({ "file": "/tmp/new.toml", "text": TWO, "confirm_within_seconds": 60 });
    let (code, applied) = daemon.ask("POST", path::QOS_APPLY, &request.to_string());
    assert_eq!(code, 200, "{applied}");
    let shown = status();
    assert_eq!(shown["file"], "/tmp/new.toml");
    assert_eq!(shown["origin"], json!({ "configured": file, "applied": true }));
    assert!(shown["waiting"]["seconds_left"].as_u64().is_some_and(|left| left > 0), "{shown}");
    assert_eq!(daemon.ask("GET", path::QOS, "").1["origin"], shown["origin"]);

    assert_eq!(daemon.ask("POST", path::QOS_ROLLBACK, "{}").0, 200);
    assert_eq!(status(), configured);
}

#[test]
fn a_trial_that_nobody_confirms_names_the_file_with_the_edited_text() {
    let folder = Folder::new("graph-rejected");
    let file = folder.0.join("qos.toml");
    let mut plane = plane(folder.config_with_graph(ONE), None);
    std::fs::write(&file, TWO).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let request = QosApply { confirm_within_seconds: Some(1), ..QosApply::default() };
        plane.apply_graph(request).await.unwrap();
        while plane.graph().unwrap().store.overdue(clock::monotonic()).is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(plane.end_graph_trial().await, None);
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap(), ONE);
    let rejected = format!("{}.rejected", file.canonicalize().unwrap().display());
    assert_eq!(std::fs::read_to_string(&rejected).unwrap(), TWO);
    let in_force = plane.graph().unwrap().in_force();
    assert_eq!(in_force.origin.rejected.as_ref(), Some(&rejected));
    let remedy = plane.confirm_graph().unwrap_err().problem().remedy.unwrap();
    assert!(remedy.contains(&rejected), "{remedy}");
}

#[test]
fn an_explanation_has_the_rules_of_the_graph_where_no_item_names_a_class() {
    let folder = Folder::new("graph-explain");
    let plane = plane(folder.config_with_graph("preset = \"two-classes\"\n"), None);
    let daemon = Daemon::over(folder, plane);
    let (status, explained) = daemon.ask("GET", "/v1/explain?app=curl&to=192.0.2.2:443/tcp", "");
    assert_eq!(status, 200, "{explained}");
    let why = explained["sockets"][0]["decision"]["why"].to_string();
    let rules = "nor an association names a class, the rules of the graph give one: ef for dscp EF, else be";
    assert!(why.contains(rules), "{why}");
}
