//! Descriptions: what is printed reads back as the same, and quantities keep their value.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use qos::HeaderKind;
use qos::graph::description::{
    Child, Class, Description, Directions, Dispatch, Hook, HookPoint, KernelQueue, Limits, Mark, Name, Queue,
    Scheduler, Spanned, Tunnel, Unit, UnitKind, Uplink,
};
use qos::graph::kinds::{Component, Curve, Form, Kind, LARGEST, Part, Profile, UserLimit, Value};
use qos::graph::rules::{DSCP, Field, FieldMatch, FieldValue, HEADERS, Matches, PROTOCOLS, Rule};
use qos::graph::{print, quantity, read};
use qos::unit::MOST_AWAY;

fn spanned<T: std::fmt::Debug + Clone>(inner: impl Strategy<Value = T>) -> impl Strategy<Value = Spanned<T>> {
    inner.prop_map(Spanned::bare)
}

/// Any text, with what TOML must escape.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{1,12}", "[ -~äß\\\\\"\t\u{7f}]{0,8}"]
}

fn name() -> impl Strategy<Value = Name> {
    spanned("[a-zA-Z][a-zA-Z0-9_-]{0,20}".prop_map(String::from))
}

/// Names that differ, as the keys of a table and the entries of a list must.
fn distinct(texts: impl Strategy<Value = String>, most: usize) -> impl Strategy<Value = Vec<Name>> {
    prop::collection::btree_set(texts, 0..most).prop_map(|set| set.into_iter().map(Spanned::bare).collect())
}

fn number() -> impl Strategy<Value = u64> {
    let round = (0..1_000_u64, 0..10_u32).prop_map(|(n, zeros)| n * 10_u64.pow(zeros));
    prop_oneof![0..=LARGEST, 0..100_u64, round.prop_map(|n| n.min(LARGEST))]
}

fn length() -> impl Strategy<Value = Value> {
    prop_oneof![
        number().prop_map(Value::Count),
        number().prop_map(Value::Time),
        number().prop_map(Value::Octets)
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let one = || option::of(spanned(number()));
    (one(), one(), one()).prop_map(|(packets, octets, time)| Limits { packets, octets, time })
}

fn share() -> impl Strategy<Value = u64> {
    prop_oneof![0..=1_000_000_u64, (0..=100_u64).prop_map(|percent| percent * 10_000)]
}

fn curve() -> impl Strategy<Value = Curve> {
    (length(), number(), share()).prop_map(|(low, high, most)| {
        let high = match low {
            Value::Count(_) => Value::Count(high),
            Value::Time(_) => Value::Time(high),
            _ => Value::Octets(high),
        };
        Curve { low: Box::new(low), high: Box::new(high), most }
    })
}

fn user_limit() -> impl Strategy<Value = UserLimit> {
    let excess = text().prop_filter("what is not dropped", |word| word != "drop");
    (spanned(value(Form::Rate)), spanned(value(Form::Burst)), option::of(spanned(excess)))
        .prop_map(|(rate, burst, excess)| UserLimit { rate, burst, excess })
}

fn profile() -> impl Strategy<Value = Profile> {
    let weight = spanned(1..=Profile::HEAVIEST);
    (spanned(text()), distinct(text(), 3), weight, option::of(user_limit()), option::of(spanned(text())))
        .prop_map(|(name, users, weight, limit, class)| Profile { name, users, weight, limit, class })
}

fn value(form: Form) -> BoxedStrategy<Value> {
    match form {
        Form::Flag => any::<bool>().prop_map(Value::Flag).boxed(),
        Form::Count(first, last) => (first..=last).prop_map(Value::Count).boxed(),
        Form::Time => number().prop_map(Value::Time).boxed(),
        Form::Octets => number().prop_map(Value::Octets).boxed(),
        Form::Rate => prop_oneof![number().prop_map(Value::Rate), share().prop_map(Value::Share)].boxed(),
        Form::Burst => prop_oneof![number().prop_map(Value::Time), number().prop_map(Value::Octets)].boxed(),
        Form::Share => share().prop_map(Value::Share).boxed(),
        Form::Length => length().boxed(),
        Form::Class | Form::Excess | Form::Uplink | Form::Library | Form::Text(_) => {
            text().prop_map(Value::Word).boxed()
        }
        Form::Classes(most) => distinct(text(), most + 1).prop_map(Value::Names).boxed(),
        Form::Word(words) => select(words).prop_map(|word| Value::Word(word.to_owned())).boxed(),
        Form::Dscp => vec(0..64_u8, 0..4).prop_map(Value::Dscp).boxed(),
        Form::Curve => curve().prop_map(Value::Curve).boxed(),
        Form::Profiles => vec(profile(), 0..3).prop_map(Value::Profiles).boxed(),
    }
}

/// A component of a kind with any of its settings.
fn component(kind: Kind) -> BoxedStrategy<Component> {
    let settings: Vec<BoxedStrategy<Option<Value>>> = kind
        .settings()
        .iter()
        .map(|row| {
            let value = value(row.form);
            if row.required { value.prop_map(Some).boxed() } else { option::of(value).boxed() }
        })
        .collect();
    settings
        .prop_map(move |values| {
            let rows = kind.settings().iter().zip(values);
            rows.fold(Component::bare(kind), |component, (row, value)| match value {
                Some(value) => component.with(row.name, value),
                None => component,
            })
        })
        .boxed()
}

fn of_part(part: Part) -> impl Strategy<Value = Component> {
    let kinds: Vec<Kind> =
        Kind::WORDS.iter().map(|(_, kind)| *kind).filter(|kind| kind.part() == part).collect();
    select(kinds).prop_flat_map(component)
}

fn field_value(field: Field) -> BoxedStrategy<FieldValue> {
    match field {
        Field::Dscp | Field::OuterDscp => (0..64_u8).prop_map(FieldValue::Dscp).boxed(),
        Field::Header => {
            select(HEADERS).prop_map(|(_, header): (_, HeaderKind)| FieldValue::Header(header)).boxed()
        }
        Field::Spi => (1..=u32::MAX).prop_map(FieldValue::Number).boxed(),
        Field::Key => any::<u16>().prop_map(|key| FieldValue::Number(key.into())).boxed(),
        Field::Uid => any::<u32>().prop_map(FieldValue::Number).boxed(),
        Field::Index => (0..=15_u32).prop_map(FieldValue::Number).boxed(),
        Field::Protocol => (0..=255_u32).prop_map(FieldValue::Number).boxed(),
        Field::Association | Field::Suite | Field::Application => text().prop_map(FieldValue::Text).boxed(),
        Field::Peer | Field::Source | Field::Destination => {
            (any::<IpAddr>(), 0..=32_u8).prop_map(|(addr, bits)| FieldValue::Prefix(addr, bits)).boxed()
        }
        Field::Mark => any::<(u32, u32)>().prop_map(|(mark, mask)| FieldValue::Mark(mark, mask)).boxed(),
        Field::Port | Field::SourcePort => {
            any::<(u16, u16)>().prop_map(|(one, two)| FieldValue::Range(one.min(two), one.max(two))).boxed()
        }
    }
}

fn rule() -> impl Strategy<Value = Rule> {
    let fields: Vec<Field> = Field::WORDS.iter().map(|(_, field)| *field).collect();
    prop::sample::subsequence(fields, 0..4)
        .prop_flat_map(|fields| {
            fields
                .into_iter()
                .map(|field| {
                    let values = vec(spanned(field_value(field)), 0..3);
                    values.prop_map(move |values| FieldMatch { field: Spanned::bare(field), values })
                })
                .collect::<Vec<_>>()
        })
        .prop_map(|fields| Rule { fields, span: Spanned::bare(()) })
}

fn direction() -> impl Strategy<Value = Spanned<Directions>> {
    spanned(select(Directions::WORDS).prop_map(|(_, directions)| directions))
}

fn class(name: Name) -> impl Strategy<Value = Class> {
    let matches =
        prop_oneof![vec(rule(), 0..3).prop_map(Matches::Rules), Just(Matches::Named), Just(Matches::Rest)];
    let precedence = option::of(spanned([0..64_u8, 0..64_u8, 0..64_u8]));
    let delay = option::of(spanned(number()));
    let priority = option::of(spanned(prop_oneof![any::<u32>(), 0..7_u32, Just(0x1_0010), Just(0x1_0000)]));
    let rest = (spanned(matches), direction(), delay, precedence, spanned(any::<bool>()), priority);
    rest.prop_map(move |(matches, direction, delay, precedence, unpoliced, socket_priority)| Class {
        name: name.clone(),
        matches,
        direction,
        delay,
        precedence,
        unpoliced,
        socket_priority,
    })
}

fn hook() -> impl Strategy<Value = Hook> {
    let at = spanned(select(HookPoint::WORDS).prop_map(|(_, point)| point));
    let kinds: Vec<Kind> = Kind::WORDS.iter().map(|(_, kind)| *kind).collect();
    let chain = vec(select(kinds).prop_flat_map(component), 0..3);
    (at, option::of(spanned(text())), direction(), chain, option::of(spanned(text()))).prop_map(
        |(at, unit, direction, chain, from)| Hook {
            at,
            unit,
            direction,
            chain,
            from,
            span: Spanned::bare(()),
        },
    )
}

fn scheduler(name: Name) -> impl Strategy<Value = Scheduler> {
    let child = (
        spanned(text()),
        option::of(spanned(1..=1_000_000_u64)),
        option::of(spanned(share())),
        option::of(spanned(number())),
    )
        .prop_map(|(to, weight, share, deadline)| Child { to, weight, share, deadline });
    (of_part(Part::Discipline), option::of(component(Kind::Shape)), vec(child, 0..4)).prop_map(
        move |(discipline, shape, children)| Scheduler { name: name.clone(), discipline, shape, children },
    )
}

fn queue(name: Name) -> impl Strategy<Value = Queue> {
    let parts = (of_part(Part::Enqueue), of_part(Part::Store), of_part(Part::Dequeue));
    let rest =
        (distinct(text(), 3), option::of(spanned(text())), limits(), option::of(component(Kind::Shape)));
    (rest, parts).prop_map(move |((classes, tunnel, limit, shape), (enqueue, store, dequeue))| Queue {
        name: name.clone(),
        classes,
        tunnel,
        limit,
        shape,
        enqueue,
        store,
        dequeue,
    })
}

fn unit(name: Name) -> impl Strategy<Value = Unit> {
    let kind = prop_oneof![
        Just(UnitKind::Inline),
        Just(UnitKind::Worker),
        number().prop_map(UnitKind::Sliced),
        (2..=64_u64).prop_map(UnitKind::Batch),
        (1..=MOST_AWAY as u64).prop_map(UnitKind::Async),
    ];
    let mark = || spanned(prop_oneof![Just(Mark::Auto), number().prop_map(Mark::Fixed)]);
    let suites = option::of(distinct(text(), 3));
    (spanned(kind), suites, distinct(text(), 3), mark(), mark(), spanned(number())).prop_map(
        move |(kind, suites, reserved, low, high, most_committed)| Unit {
            name: name.clone(),
            kind,
            suites,
            reserved,
            low,
            high,
            most_committed,
        },
    )
}

fn kernel(name: Name) -> impl Strategy<Value = KernelQueue> {
    (distinct(text(), 3), spanned(1..=1024_u64), direction(), limits()).prop_map(
        move |(classes, queues, direction, limit)| KernelQueue {
            name: name.clone(),
            classes,
            queues,
            direction,
            limit,
        },
    )
}

/// A part for each of some distinct names.
fn named<T: std::fmt::Debug, S: Strategy<Value = T>>(make: fn(Name) -> S) -> impl Strategy<Value = Vec<T>> {
    distinct(name().prop_map(|name| name.value), 3)
        .prop_flat_map(move |names| names.into_iter().map(make).collect::<Vec<_>>())
}

fn description() -> impl Strategy<Value = Description> {
    let uplink = |name: Name| {
        (spanned(number()), spanned(0..=1024_u64)).prop_map(move |(rate, overhead)| Uplink {
            name: name.clone(),
            rate,
            overhead,
        })
    };
    let tunnel = |name: Name| vec(rule(), 0..3).prop_map(move |rules| Tunnel { name: name.clone(), rules });
    let dispatch = spanned(select(Dispatch::WORDS).prop_map(|(_, dispatch)| dispatch));
    let first = (dispatch, named(uplink), named(tunnel), named(class), vec(hook(), 1..4));
    (first, named(scheduler), named(queue), named(unit), named(kernel)).prop_map(
        |((dispatch, uplinks, tunnels, classes, hooks), schedulers, queues, units, kernel)| Description {
            dispatch,
            uplinks,
            tunnels,
            classes,
            hooks,
            schedulers,
            queues,
            units,
            kernel,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_was_printed_reads_back_as_the_same(description in description()) {
        let text = print(&description);
        prop_assert_eq!(read(&text), Ok(description), "{}", text);
    }

    #[test]
    fn quantities_keep_their_value(n in number()) {
        prop_assert_eq!(quantity::time(&quantity::show_time(n)), Some(n));
        prop_assert_eq!(quantity::rate(&quantity::show_rate(n)), Some(n));
        prop_assert_eq!(quantity::octets(&quantity::show_octets(n)), Some(n));
        prop_assert_eq!(quantity::share(&quantity::show_share(n)), Some(n));
        let about = quantity::time(&quantity::show_about(n)).unwrap();
        prop_assert!(about >= n && about <= n + n / 50 + 1, "{} for {}", about, n);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[ -~\n]{0,80}") {
        let _ = read(&text);
    }

    #[test]
    fn no_broken_value_makes_the_reader_panic(
        key in select(vec!["match", "limit", "police", "aqm", "meter", "profiles", "fair", "precedence", "mark"]),
        value in select(vec!["1", "\"x\"", "[]", "{}", "[[]]", "[{}]", "true", "-1", "1.5", "{ kind = 1 }",
            "[1, \"EF\"]",
            "1979-05-27", "\"\"", "{ kind = \"wred\" }", "0xffffffffffffffff", "9223372036854775807"]),
    ) {
        let text = format!("[class.rest]\n{key} = {value}\n");
        let _ = qos::graph::check(&text, &qos::graph::House::default());
    }
}

#[test]
fn quantities_are_read_as_people_write_them() {
    assert_eq!(quantity::time("5ms"), Some(5_000_000));
    assert_eq!(quantity::time("1.5 us"), Some(1_500));
    assert_eq!(quantity::time("1_000ns"), Some(1_000));
    assert_eq!(quantity::rate("2.5Gbit"), Some(2_500_000_000));
    assert_eq!(quantity::octets("64KiB"), Some(65_536));
    assert_eq!(quantity::share("12.5%"), Some(125_000));
    for bad in ["5", "ms", "5 m", "-5ms", "5.ms", ".5ms", "1.23456ms", "0.5ns", "99999999999999999999ns", ""]
    {
        assert_eq!(quantity::time(bad), None, "{bad}");
    }
    assert_eq!(quantity::show_time(0), "0ns");
    assert_eq!(quantity::show_time(1_500_000), "1500us");
    assert_eq!(quantity::show_about(1_739_650), "1.74ms");
    assert_eq!(quantity::show_share(1), "0.0001%");
}

#[test]
fn each_setting_knows_its_place() {
    let text = "[class.rest]\nmatch = \"rest\"\naqm = { kind = \"codel\", target = \"5ms\" }\n";
    let description = read(text).unwrap();
    let queue = &description.queues[0];
    assert_eq!(text.get(queue.dequeue.place("target")), Some("\"5ms\""));
    assert_eq!(text.get(queue.dequeue.place("interval")), Some("\"codel\""));
    assert_eq!(text.get(queue.name.span.clone()), Some("rest"));
}

#[test]
fn classes_stand_in_the_order_of_the_text() {
    let text = "[class.zebra]\nmatch = [{ dscp = \"EF\" }]\n[class.ant]\nmatch = \"rest\"\n";
    let names: Vec<String> = read(text).unwrap().classes.into_iter().map(|class| class.name.value).collect();
    assert_eq!(names, ["zebra", "ant"]);
}

#[test]
fn names_of_code_points_and_protocols_are_known() {
    for (word, dscp) in DSCP {
        let text =
            format!("[class.a]\nmatch = [{{ dscp = [\"{word}\"] }}]\n[class.rest]\nmatch = \"rest\"\n");
        let description = read(&text).unwrap();
        let Matches::Rules(rules) = &description.classes[0].matches.value else { panic!() };
        assert_eq!(rules[0].fields[0].values[0].value, FieldValue::Dscp(*dscp));
    }
    assert_eq!(DSCP.len(), 23);
    assert!(PROTOCOLS.iter().any(|(word, number)| *word == "esp" && *number == 50));
}

#[test]
fn every_kind_of_component_of_the_issue_is_there() {
    let kinds = |part: Part| {
        let kinds = Kind::WORDS.iter().filter(|(_, kind)| kind.part() == part);
        kinds.map(|(word, _)| *word).collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(Part::Behaviour),
        [
            "classify",
            "srtcm",
            "trtcm",
            "rfc4115",
            "precolour",
            "mark",
            "police",
            "drop_colour",
            "shape",
            "limit",
            "users",
            "auth_budget",
            "foreign"
        ]
    );
    assert_eq!(kinds(Part::Enqueue), ["tail", "drop_head", "longest_flow", "red", "wred"]);
    assert_eq!(kinds(Part::Store), ["fifo", "flows", "rank"]);
    assert_eq!(kinds(Part::Dequeue), ["give", "codel", "cobalt", "dualpi2"]);
    assert_eq!(kinds(Part::Discipline), ["round_robin", "weighted", "drr", "wfq", "strict", "edf"]);
}
