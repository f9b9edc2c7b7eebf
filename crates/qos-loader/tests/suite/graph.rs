//! Components of libraries in a graph: the two examples at work, and components that are detached while packets pass.

use std::sync::Arc;

use qos::behaviour::foreign::{Detached, Libraries, Library, LibraryState, SharedMaker};
use qos::graph::description::HookPoint;
use qos::graph::{Graph, House, check_compiled, compile};
use qos::{Amount, Cause, Context, Direction, Meta};
use wire::Time;

use crate::lab::Folder;

fn house(folders: &[(&str, &Folder)]) -> House {
    let library = |(name, folder): &(&str, &Folder)| {
        let maker = SharedMaker(Arc::new(folder.load().unwrap()));
        Library { name: (*name).to_owned(), state: LibraryState::Loaded(maker) }
    };
    House { libraries: Libraries::Named(folders.iter().map(library).collect()), ..House::default() }
}

/// A graph whose hook 1a has these components behind its classifier.
fn graph(components: &str, house: &House) -> Graph<u32> {
    let text = format!(
        "[class.all]\nmatch = \"rest\"\n[[hook]]\nat = \"1a\"\nchain = [{{ kind = \"classify\" }}, {components}]\n[[hook]]\n\
         at = \"5b\"\nfrom = \"all\"\n[queue.all]\nclasses = [\"all\"]\nlimit = {{ packets = 10000, time = \"1s\" }}\n\
         [unit.inline]\nkind = \"inline\"\n"
    );
    let shown =
        |faults: Vec<qos::graph::Fault>| faults.iter().map(|f| f.show("graph", &text)).collect::<String>();
    let description = check_compiled(&text, house).map_err(shown).unwrap();
    compile(&description, house, Direction::Outbound, 5).unwrap()
}

/// Offer so many packets at 1a. Returns the packets that ended.
fn offer(graph: &mut Graph<u32>, packets: u32, user: impl Fn(u32) -> u32) -> Vec<(u32, Cause)> {
    let mut ended = Vec::new();
    for item in 0..packets {
        let amount = Amount { packets: 1, octets: 1_000, ns: 1_000 };
        let meta = Meta { user: user(item), amount, ..Meta::default() };
        let context = Context { now: Time(1_000 * u64::from(item)), random: 0 };
        graph.offer(HookPoint::In1a, item, meta, &context, &mut ended);
    }
    assert!(graph.conserved());
    ended.iter().map(|ended| (ended.item, ended.cause)).collect()
}

#[test]
fn both_examples_work_in_one_graph() {
    let (quota, gentle) = (Folder::quota(), Folder::gentle());
    let house = house(&[("quota", &quota), ("gentle", &gentle)]);
    let mut graph = graph(
        "{ kind = \"foreign\", library = \"quota\", parameters = \"packets=10 window=1000\" }, \
         { kind = \"foreign\", library = \"gentle\", class = \"all\", parameters = \"low=1000000 high=2000000\", \
         budget = \"1ms\" }",
        &house,
    );
    // Two users, of whom one sends three times as much.
    let ended = offer(&mut graph, 40, |item| u32::from(item % 4 == 0));
    assert_eq!(ended.len(), 20);
    assert!(ended.iter().all(|(item, cause)| item % 4 != 0 && *cause == Cause::Policed), "{ended:?}");
    let reports: Vec<_> = graph.foreign().map(|(_, report)| report).collect();
    assert_eq!((reports[0].packets, reports[0].dropped, reports[0].detached), (40, 20, None));
    assert_eq!((reports[1].packets, reports[1].dropped, reports[1].detached), (20, 0, None));
}

#[test]
fn a_verdict_out_of_range_detaches_the_component_and_its_packets_go_on() {
    // The trial has no user of this number.
    let wrong = Folder::with(&["-DBODY=if(metas->user==1007){verdicts->action=9;return 0;}"]);
    let house = house(&[("wrong", &wrong)]);
    for (on_fault, lost) in [("pass", 0), ("drop", 6)] {
        let part = format!("{{ kind = \"foreign\", library = \"wrong\", on_fault = \"{on_fault}\" }}");
        let mut graph = graph(&part, &house);
        let ended = offer(&mut graph, 10, |item| if item == 4 { 1007 } else { 100 });
        assert_eq!(ended.len(), lost, "{on_fault}");
        assert!(ended.iter().all(|(item, cause)| *item >= 4 && *cause == Cause::Component));
        let (_, report) = graph.foreign().next().unwrap();
        let why = report.detached.unwrap().to_string();
        assert_eq!(why, "a verdict is out of range: there is no action 9");
        assert_eq!((report.calls, report.packets, report.unjudged), (5, 4, 6));
    }
}

#[test]
fn a_component_over_its_time_is_detached_and_called_no_more() {
    let slow = Folder::with(&["-DBODY=if(metas->user==1007)burn(3);"]);
    let house = house(&[("slow", &slow)]);
    let mut graph =
        graph("{ kind = \"foreign\", library = \"slow\", budget = \"1ms\", on_fault = \"pass\" }", &house);
    assert_eq!(offer(&mut graph, 20, |item| if item >= 10 { 1007 } else { 100 }), []);
    let (_, report) = graph.foreign().next().unwrap();
    let Some(Detached::Slow { calls: 4, budget_ns: 1_000_000, took_ns }) = report.detached else {
        panic!("{report:?}")
    };
    assert!(took_ns > 1_000_000 && report.longest_ns >= took_ns, "{report:?}");
    assert_eq!((report.over_budget, report.calls + report.unjudged), (4, 20), "{report:?}");
    assert!(report.unjudged >= 5, "{report:?}");
}

#[test]
fn a_component_that_says_that_it_failed_is_detached() {
    let failed = Folder::with(&["-DANSWER=(metas->user==1007?-3:0)"]);
    let mut graph = graph("{ kind = \"foreign\", library = \"failed\" }", &house(&[("failed", &failed)]));
    assert_eq!(offer(&mut graph, 4, |item| if item == 2 { 1007 } else { 100 }), []);
    let (_, report) = graph.foreign().next().unwrap();
    assert_eq!((report.detached, report.calls), (Some(Detached::Failed(-3)), 3));
}

#[test]
fn a_detached_component_is_given_up_without_a_call() {
    let body = "-DBODY=if(metas->user==1007){*(int*)instance=1;return 1;}";
    // It would end this process if it were told to free what it has broken.
    let folder = Folder::with(&[body, "-DDESTROY=if(*(int*)instance)abort()"]);
    let mut graph = graph("{ kind = \"foreign\", library = \"it\" }", &house(&[("it", &folder)]));
    offer(&mut graph, 1, |_| 1007);
    assert!(graph.foreign().next().unwrap().1.detached.is_some());
    drop(graph);
}
