//! Markers and the colours of codepoints: the table of RFC 2597 section 6.

use qos::behaviour::dscp::{EF, assured, assured_of};
use qos::behaviour::{Codepoints, Headers, Marker, Precolour, SettingsError};
use qos::graph::print;
use qos::{AggregateId, Colour, Meta};

use crate::common::{at, leaves_dropped_alone, packet, run};
use crate::running::{US, Works, described, graph, house, of_dscp};

/// The table of RFC 2597 section 6, in its own bits: a row for each drop precedence.
const TABLE: [(Colour, [u8; 4]); 3] = [
    (Colour::Green, [0b001010, 0b010010, 0b011010, 0b100010]),
    (Colour::Yellow, [0b001100, 0b010100, 0b011100, 0b100100]),
    (Colour::Red, [0b001110, 0b010110, 0b011110, 0b100110]),
];

#[test]
fn codepoints_are_those_of_the_table() {
    for (colour, row) in TABLE {
        for (class, dscp) in (1..).zip(row) {
            assert_eq!(assured(class, colour), Some(dscp));
            assert_eq!(assured_of(dscp), Some((class, colour)));
        }
    }
    let of_table = |dscp: &u8| TABLE.iter().any(|(_, row)| row.contains(dscp));
    assert!((0..64).filter(|dscp| !of_table(dscp)).all(|dscp| assured_of(dscp).is_none()));
    assert_eq!([0, 5].map(|class| assured(class, Colour::Green)), [None, None]);
}

#[test]
fn a_marker_writes_by_aggregate_and_colour() {
    let list = [
        (AggregateId(1), Codepoints::One(EF)),
        (AggregateId(2), Codepoints::Assured(4)),
        (AggregateId(3), Codepoints::Coloured([10, 0, 1])),
    ];
    let mark = |headers, aggregate, colour| {
        let mut marker = Marker::new(&list, headers).unwrap();
        leaves_dropped_alone(&mut marker);
        let meta = Meta { aggregate: AggregateId(aggregate), colour, dscp: [60, 61], ..packet(1) };
        run(&mut marker, &at(0), meta).meta.dscp
    };
    assert_eq!(mark(Headers::Outer, 1, Colour::Red), [46, 61]);
    assert_eq!(mark(Headers::Inner, 1, Colour::Red), [60, 46]);
    assert_eq!(mark(Headers::Both, 2, Colour::Green), [34, 34]);
    assert_eq!(mark(Headers::Both, 2, Colour::Yellow), [36, 36]);
    assert_eq!(mark(Headers::Outer, 2, Colour::Red), [38, 61]);
    assert_eq!(mark(Headers::Outer, 3, Colour::Yellow), [0, 61]);
    assert_eq!(mark(Headers::Outer, 3, Colour::Red), [1, 61]);
    assert_eq!(mark(Headers::Both, 4, Colour::Green), [60, 61]);
}

#[test]
fn codepoints_that_are_none_are_refused() {
    for codepoints in [Codepoints::One(64), Codepoints::Assured(0), Codepoints::Assured(5)] {
        let marker = Marker::new(&[(AggregateId(1), codepoints)], Headers::Outer);
        assert_eq!(marker.unwrap_err(), SettingsError::NoCodepoint);
    }
}

#[test]
fn the_colour_of_a_codepoint_is_its_drop_precedence() {
    let colour = |inner, dscp| {
        let mut component = Precolour::new(inner, Colour::Yellow);
        leaves_dropped_alone(&mut component);
        run(&mut component, &at(0), Meta { dscp, ..packet(1) }).meta.colour
    };
    assert_eq!(colour(false, [10, 14]), Colour::Green);
    assert_eq!(colour(true, [10, 14]), Colour::Red);
    assert_eq!(colour(false, [36, 14]), Colour::Yellow);
    assert_eq!(colour(false, [EF, 14]), Colour::Yellow);
}

#[test]
fn a_graph_reads_the_colour_that_a_packet_comes_with() {
    let colour = |settings: &str, dscp: [u8; 2]| {
        let text = include_str!("../data/broken/auth-budget-outbound.toml");
        let budget = "{ kind = \"auth_budget\", rate = \"5%\", burst = \"1ms\" }";
        let text = text.replace(budget, &format!("{{ kind = \"precolour\", class = \"rest\"{settings} }}"));
        let text = text.replace("direction = \"out\"\n", "");
        let printed = print(&described(&text, &house(US)));
        assert!(printed.contains(&format!("kind = \"precolour\", class = \"rest\"{settings}")), "{printed}");
        let mut works = Works::new(graph(&printed, &house(US)));
        works.offer(0, Meta { dscp, ..of_dscp(0, US) });
        works.drain();
        works.left[0].1.colour
    };
    // AF12 outside, AF13 inside, and no codepoint of AF.
    assert_eq!(colour("", [12, 14]), Colour::Yellow);
    assert_eq!(colour(", header = \"inner\"", [12, 14]), Colour::Red);
    assert_eq!(colour("", [0, 14]), Colour::Green);
    assert_eq!(colour(", other = \"red\"", [0, 14]), Colour::Red);
}
