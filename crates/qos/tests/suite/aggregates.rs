//! The catalogue of classes.

use qos::graph::Aggregates;
use qos::graph::aggregates::{CatalogueFault, MOST, WELL_KNOWN, assured, of_dscp};
use qos::{AggregateId, Colour};

#[test]
fn well_known_names_have_the_same_number_everywhere() {
    let catalogue = Aggregates::default();
    assert_eq!(catalogue.find("be"), Some(AggregateId::DEFAULT));
    for (place, name) in WELL_KNOWN.iter().enumerate() {
        assert_eq!(catalogue.find(name), Some(AggregateId(place as u8)));
        assert_eq!(catalogue.name(AggregateId(place as u8)), Some(*name));
    }
    assert_eq!(WELL_KNOWN.len(), 8);
}

#[test]
fn a_name_keeps_its_number_over_exchanges_and_restarts() {
    let mut catalogue = Aggregates::default();
    let video = catalogue.number("video").unwrap();
    let bulk = catalogue.number("bulk").unwrap();
    assert_ne!(video, bulk);
    assert_eq!(catalogue.number("video"), Ok(video));
    let mut carried = Aggregates::from_record(&catalogue.record()).unwrap();
    assert_eq!(carried, catalogue);
    // A graph without `video` and with a new class: the new one does not get the number of `video`.
    let backup = carried.number("backup").unwrap();
    assert_eq!(carried.find("video"), Some(video));
    assert_ne!(backup, video);
    assert_eq!(carried.iter().count(), carried.count());
}

#[test]
fn a_class_that_the_graph_lacks_is_not_found_and_keeps_name_and_number() {
    let mut catalogue = Aggregates::default();
    let video = catalogue.number("video").unwrap();
    let shown =
        |catalogue: &Aggregates| catalogue.iter().map(|(_, name)| name.to_owned()).collect::<Vec<_>>();
    let mut graph = catalogue.clone().only(|name| matches!(name, "ef" | "video"));
    assert_eq!(shown(&graph), ["ef", "video"]);
    assert_eq!((graph.find("be"), graph.find("video")), (None, Some(video)));
    assert_eq!(graph.name(AggregateId::DEFAULT), Some("be"));
    // What the next graph has again has the number that it had.
    assert_eq!(graph.number("be"), Ok(AggregateId::DEFAULT));
    assert_eq!(graph.find("be"), Some(AggregateId::DEFAULT));
    assert_eq!(graph.record(), catalogue.record());
    let none = Aggregates::without_graph();
    assert!(none.is_empty() && none.find("be").is_none() && !graph.is_empty());
    assert_eq!(none.name(AggregateId(2)), Some("ef"));
    // The last number of 64 is one bit as the others are.
    for n in catalogue.count()..MOST {
        catalogue.number(&format!("class-{n}")).unwrap();
    }
    let last = catalogue.clone().only(|name| name == "class-63");
    assert_eq!(last.find("class-63"), Some(AggregateId(63)));
    assert_eq!((last.iter().count(), last.count()), (1, MOST));
}

#[test]
fn an_instance_numbers_64_classes_at_most() {
    let mut catalogue = Aggregates::default();
    for n in catalogue.count()..MOST {
        assert!(catalogue.number(&format!("class-{n}")).is_ok());
    }
    assert_eq!(catalogue.number("one-more"), Err(CatalogueFault::Full));
    assert_eq!(catalogue.number("class-40"), Ok(AggregateId(40)));
    assert_eq!(Aggregates::default().number("no name"), Err(CatalogueFault::BadName));
    assert_eq!(Aggregates::default().number(""), Err(CatalogueFault::BadName));
}

#[test]
fn a_record_that_is_none_is_refused() {
    let good = Aggregates::default().record();
    assert!(Aggregates::from_record(&good).is_some());
    for bad in [
        String::new(),
        "ef\nbe\n".to_owned(),
        format!("{good}video\nvideo\n"),
        format!("{good}no name\n"),
        format!("{good}{}", (0..60).map(|n| format!("c{n}\n")).collect::<String>()),
        good.replace("control", "kontrol"),
    ] {
        assert!(Aggregates::from_record(&bad).is_none(), "{bad:?}");
    }
}

#[test]
fn assured_forwarding_has_four_classes_of_three_precedences() {
    // RFC 2597 section 6.
    let table = [("af1", [10, 12, 14]), ("af2", [18, 20, 22]), ("af3", [26, 28, 30]), ("af4", [34, 36, 38])];
    let mut count = 0;
    for dscp in 0..64 {
        let expected = table.iter().find_map(|(class, three)| {
            let place = three.iter().position(|value| *value == dscp)?;
            Some((*class, [Colour::Green, Colour::Yellow, Colour::Red][place]))
        });
        assert_eq!(assured(dscp), expected, "{dscp}");
        count += usize::from(expected.is_some());
    }
    assert_eq!(count, 12);
}

#[test]
fn code_points_lead_to_well_known_classes() {
    for (dscp, class) in
        [(0, "be"), (1, "le"), (46, "ef"), (44, "ef"), (48, "control"), (36, "af4"), (63, "be")]
    {
        assert_eq!(of_dscp(dscp), class);
        assert!(Aggregates::default().find(of_dscp(dscp)).is_some());
    }
}
