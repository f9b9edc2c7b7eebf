//! The priorities of classes for queueing disciplines: read as a number or as tc(8) writes a class, printed, and looked up
//! by the class of a packet.

use proptest::prelude::*;
use qos::graph::description::{Description, Spanned};
use qos::graph::{House, check, compile, print};
use qos::{AggregateId, Direction};

/// A text in the short form with a class of this priority.
fn text(priority: &str) -> String {
    format!(
        "[class.ef]\nmatch = [{{ dscp = \"EF\" }}]\nsocket_priority = {priority}\n\n[class.rest]\nmatch = \"rest\"\n"
    )
}

fn described(text: &str) -> Description {
    check(text, &House::default()).unwrap_or_else(|faults| panic!("{faults:#?}\n{text}"))
}

fn priority_of(description: &Description) -> Option<u32> {
    description.find_class("ef").unwrap().socket_priority.as_ref().map(|priority| priority.value)
}

#[test]
fn a_priority_is_a_number_or_a_class_of_tc() {
    let cases = [
        ("0", 0),
        ("6", 6),
        ("0x10010", 0x1_0010),
        ("4294967295", u32::MAX),
        // The numbers of tc are hexadecimal.
        ("\"1:10\"", 0x1_0010),
        ("\"1:a\"", 0x1_000a),
        ("\"ffff:FFFF\"", u32::MAX),
        ("\"0001:0010\"", 0x1_0010),
    ];
    for (written, number) in cases {
        assert_eq!(priority_of(&described(&text(written))), Some(number), "{written}");
    }
    assert_eq!(priority_of(&described(&text("6").replace("socket_priority = 6", ""))), None);
    for refused in
        ["\"\"", "\":\"", "\"1:\"", "\":1\"", "\"6\"", "\"1:+1\"", "\"1:1:1\"", "\"0:1\"", "1.5", "[1]"]
    {
        let faults = check(&text(refused), &House::default()).unwrap_err();
        assert_eq!(faults.len(), 1, "{refused}: {faults:?}");
        assert_eq!(&text(refused)[faults[0].span.clone()], refused);
        assert!(faults[0].remedy.contains("\"1:10\"") || faults[0].remedy.contains("from 0"), "{faults:?}");
    }
}

#[test]
fn the_full_form_of_a_graph_has_the_priority_as_tc_writes_it() {
    let full = print(&described(&text("0x10010")));
    assert!(full.contains("socket_priority = \"1:10\"\n"), "{full}");
    assert_eq!(print(&described(&full)), full);
    // A preset's class keeps what a text over it says.
    let over = "preset = \"two-classes\"\n[class.ef]\nmatch = [{ dscp = \"EF\" }]\nsocket_priority = 6\n";
    assert!(print(&described(over)).contains("socket_priority = 6\n"));
}

proptest! {
    #[test]
    fn every_priority_reads_back_as_it_was(number in any::<u32>()) {
        let mut description = described(&text("6"));
        for class in &mut description.classes {
            class.socket_priority = Some(Spanned::bare(number));
        }
        prop_assert_eq!(priority_of(&described(&print(&description))), Some(number));
    }
}

#[test]
fn a_graph_finds_the_priority_of_a_class_and_has_no_table_without_one() {
    let graph = |text: &str, direction| {
        compile::<u64>(&described(text), &House::default(), direction, 1)
            .unwrap_or_else(|faults| panic!("{faults:?}"))
    };
    let with = graph(&text("\"1:10\""), Direction::Outbound);
    let class = |name| with.aggregates().find(name).unwrap();
    let table = with.priorities().unwrap();
    assert_eq!((table.of_class(class("ef")), table.of_class(class("rest"))), (Some(0x1_0010), None));
    assert_eq!((table.of_class(AggregateId(63)), table.of_class(AggregateId(255))), (None, None));
    let outbound_alone = text("7").replace("\nsocket", "\ndirection = \"out\"\nsocket");
    assert!(graph(&outbound_alone, Direction::Outbound).priorities().is_some());
    assert!(graph(&outbound_alone, Direction::Inbound).priorities().is_none());
    assert!(graph("preset = \"voice\"\n", Direction::Outbound).priorities().is_none());
}
