//! Presets and the figures of the paper: read and found without fault, in short and in full form.
#![allow(clippy::disallowed_methods, reason = "a test reads its own data files")]

use std::fs;
use std::path::{Path, PathBuf};

use qos::Direction;
use qos::graph::description::{Description, HookPoint};
use qos::graph::kinds::Kind;
use qos::graph::{Code, House, PRESETS, check, preset, print, read, warnings};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/qos");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "toml"));
    files.sort();
    files
}

fn depth(description: &Description, name: &str) -> usize {
    let below = description.schedulers.iter().find(|scheduler| scheduler.name.value == name);
    let children = below.map(|scheduler| scheduler.children.iter());
    1 + children.and_then(|c| c.map(|child| depth(description, &child.to.value)).max()).unwrap_or(0)
}

#[test]
fn every_preset_reads_without_fault_and_so_does_its_full_form() {
    for (name, text) in PRESETS {
        let line = format!("preset = \"{name}\"\n");
        let by_name = check(&line, &House::default()).unwrap_or_else(|faults| panic!("{name}: {faults:#?}"));
        let by_text = check(text, &House::default()).unwrap();
        assert_eq!(by_name, by_text, "{name}");
        assert_eq!(preset(name).as_ref(), Some(&by_name));
        let full = print(&by_name);
        assert_eq!(check(&full, &House::default()).as_ref(), Ok(&by_name), "{name}:\n{full}");
    }
    assert_eq!(preset("vioce"), None);
}

#[test]
fn a_class_in_the_place_of_one_with_priority_that_does_not_speak_of_it_has_a_warning() {
    let text = "preset = \"voice\"\n[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\nlimit = { packets = 9 }\n";
    assert!(check(text, &House::default()).is_ok());
    let [warning] = &warnings(text)[..] else { panic!("one warning") };
    assert_eq!((warning.code, &text[warning.span.clone()]), (Code::LostPriority, "ef"));
    assert!(warning.message.contains("the class `ef` has no priority"), "{warning:?}");
    assert!(warning.remedy.contains("of the preset's: `police`; or priority = false"), "{warning:?}");
    // What is said is meant, and classes without priority are as they were.
    for text in [
        text.replace("limit", "priority = false\nlimit"),
        text.replace("limit", "priority = true\npolice = { rate = \"1%\", burst = \"1ms\" }\nlimit"),
        text.replace("ef]", "af4]").replace("EF", "AF41"),
        text.replace("voice", "two-classes"),
    ] {
        assert_eq!((check(&text, &House::default()).err(), warnings(&text)), (None, Vec::new()), "{text}");
    }
    assert!(PRESETS.iter().all(|(_, text)| warnings(text).is_empty()));
}

#[test]
fn every_preset_says_what_it_is_for() {
    for (name, _) in PRESETS {
        let purpose = qos::graph::preset::purpose(name).unwrap_or_else(|| panic!("{name}"));
        assert!(purpose.len() <= 110 && !purpose.contains('\n'), "{name}: {purpose}");
    }
    assert_eq!(qos::graph::preset::purpose("vioce"), None);
}

#[test]
fn every_example_reads_without_fault_and_prints_as_it_was() {
    let files = examples();
    let names: Vec<String> =
        files.iter().map(|f| f.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    for figure in
        ["figure-1", "figure-3", "figure-4", "figure-5", "figure-6-rr", "figure-6-wfq", "figure-6-sp"]
    {
        assert!(names.iter().any(|name| name == figure), "{figure} is missing");
    }
    for (_, text) in PRESETS {
        assert!(read(text).is_ok());
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let description = check(&text, &House::default())
            .unwrap_or_else(|faults| panic!("{}: {faults:#?}", file.display()));
        assert_eq!(read(&print(&description)), Ok(description), "{}", file.display());
    }
}

#[test]
fn figure_6_differs_by_its_scheduler_alone() {
    let text = |name: &str| {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/qos/figure-6-{name}.toml"));
        read(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let kinds = |description: &Description| {
        description.schedulers.iter().map(|scheduler| scheduler.discipline.kind.value).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&text("rr")), [Kind::RoundRobin; 3]);
    assert_eq!(kinds(&text("wfq")), [Kind::Wfq; 3]);
    assert_eq!(kinds(&text("sp")), [Kind::Strict; 3]);
    for name in ["rr", "wfq", "sp"] {
        let description = text(name);
        let queues: Vec<u8> =
            description.roots(Direction::Inbound).iter().map(|root| root.hook.at.value.queue()).collect();
        assert_eq!(queues, [1, 3, 5], "{name}");
        assert_eq!(description.queues.len(), 6, "{name}");
    }
}

#[test]
fn two_classes_is_figure_6_with_round_robin() {
    let description = preset("two-classes").unwrap();
    let names: Vec<&str> = description.queues.iter().map(|queue| queue.name.value.as_str()).collect();
    assert_eq!(names, ["ef-main", "be-main", "ef-crypto", "be-crypto", "ef", "be"]);
    assert!(description.schedulers.iter().all(|s| s.discipline.kind.value == Kind::RoundRobin));
    let points: Vec<HookPoint> = description.hooks.iter().map(|hook| hook.at.value).collect();
    use HookPoint::{In1a, In3a, In5a, Out1b, Out3b, Out5b};
    assert_eq!(points, [In1a, Out1b, In3a, Out3b, In5a, Out5b]);
}

#[test]
fn voice_is_low_latency_queueing_over_weighted_fair_queueing() {
    let description = preset("voice").unwrap();
    let top = description.schedulers.iter().find(|s| s.discipline.kind.value == Kind::Strict).unwrap();
    let children: Vec<&str> = top.children.iter().map(|child| child.to.value.as_str()).collect();
    assert_eq!(children, ["control", "ef", "schedule-dispatch-rest"]);
    assert_eq!(top.discipline.number("guard"), Some(800_000));
    let rest = description.schedulers.iter().find(|s| s.discipline.kind.value == Kind::Wfq).unwrap();
    let weights: Vec<Option<u64>> =
        rest.children.iter().map(|child| child.weight.as_ref().map(|weight| weight.value)).collect();
    assert_eq!(weights, [Some(3), Some(1)]);
    let queue = description.queues.iter().find(|queue| queue.name.value == "rest").unwrap();
    assert_eq!((queue.store.kind.value, queue.dequeue.kind.value), (Kind::Flows, Kind::Codel));
    assert!(description.policer("ef", Direction::Outbound).is_some());
}

#[test]
fn edge_nests_uplink_tunnel_class_and_user() {
    let description = preset("edge").unwrap();
    let root = description.roots(Direction::Outbound)[0].name.value.clone();
    // Uplink over tunnels, a tunnel's priority over its weights, a queue of users.
    assert_eq!(depth(&description, &root), 4);
    let top = description.schedulers.iter().find(|s| s.name.value == root).unwrap();
    assert_eq!(top.shape.as_ref().unwrap().word("uplink"), Some("uplink"));
    let tunnel = description.schedulers.iter().find(|s| s.name.value == "schedule-dispatch-branch").unwrap();
    assert_eq!(tunnel.shape.as_ref().unwrap().number("rate"), Some(20_000_000));
    assert!(description.queues.iter().any(|queue| queue.store.word("by") == Some("user")));
}

#[test]
fn a_text_over_a_preset_replaces_what_it_names() {
    let text = "preset = \"voice\"\n\
        [class.ef]\nmatch = [{ application = \"phone\" }]\npriority = true\n\
        police = { rate = \"2Mbit\", burst = \"16kB\" }\n\
        [class.bulk]\nmatch = [{ dscp = \"CS1\" }]\nweight = 1\n";
    let description = check(text, &House::default()).unwrap();
    let names: Vec<&str> = description.classes.iter().map(|class| class.name.value.as_str()).collect();
    assert_eq!(names, ["bulk", "control", "ef", "af4", "rest"]);
    let policer = description.policer("ef", Direction::Inbound).unwrap();
    assert_eq!(policer.number("rate"), Some(2_000_000));
    // What comes from the preset stands where the preset is named.
    let control = description.find_class("control").unwrap();
    assert_eq!(text.get(control.name.span.clone()), Some("\"voice\""));
    let bulk = description.find_class("bulk").unwrap();
    assert_eq!(text.get(bulk.name.span.clone()), Some("bulk"));
}
