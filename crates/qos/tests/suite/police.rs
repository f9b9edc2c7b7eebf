//! Policers and limits: what exceeds a token bucket, a colour or an amount under way.

use qos::Direction;
use qos::behaviour::police::DropColour;
use qos::behaviour::{AggregateLimit, Excess, Police, SettingsError};
use qos::bound::bounds;
use qos::graph::print;
use qos::{AggregateId, Amount, Behaviour, Cause, Colour, Limit, Measure, Meta, Verdict};

use crate::common::{SECOND, at, entry, leaves_dropped_alone, packet, run};
use crate::running::{US, Works, described, graph, house, of_dscp};

fn police(rate: u64, burst: u64, excess: Excess) -> Police {
    Police::new(rate, burst, Measure::Octets, excess).unwrap()
}

#[test]
fn a_burst_passes_and_then_the_rate() {
    let mut police = police(1000, 3000, Excess::Drop);
    let dropped = Verdict::Drop(Cause::Policed);
    let mut batch = [entry(packet(1000)); 5];
    police.run(&mut batch, &at(0));
    assert_eq!(
        batch.map(|entry| entry.verdict),
        [Verdict::Pass, Verdict::Pass, Verdict::Pass, dropped, dropped]
    );
    assert_eq!(run(&mut police, &at(SECOND - 1), packet(1000)).verdict, dropped);
    assert_eq!(run(&mut police, &at(SECOND), packet(1000)).verdict, Verdict::Pass);
    assert_eq!(run(&mut police, &at(SECOND), packet(1)).verdict, dropped);
}

/// What a packet costs is a guess. Where it is beyond the burst, a packet passes each time that the bucket is full, and
/// pays for it, so that the guess can be corrected.
#[test]
fn a_packet_that_is_expected_to_cost_more_than_the_burst_passes_a_full_bucket_and_pays_for_it() {
    let mut police = Police::new(1_000_000, 1000, Measure::Nanoseconds, Excess::Drop).unwrap();
    let dear = Meta { amount: Amount { packets: 1, octets: 100, ns: 1500 }, ..packet(100) };
    let dropped = Verdict::Drop(Cause::Policed);
    assert_eq!(run(&mut police, &at(0), dear).verdict, Verdict::Pass);
    // One nanosecond of service comes in a microsecond: 500 are owed, and 1000 fill the bucket again.
    assert_eq!(run(&mut police, &at(1_499_999), dear).verdict, dropped);
    assert_eq!(run(&mut police, &at(1_500_000), dear).verdict, Verdict::Pass);
    let cheap = Meta { amount: Amount { packets: 1, octets: 100, ns: 1 }, ..packet(100) };
    assert_eq!(run(&mut police, &at(1_999_999), cheap).verdict, dropped);
    // A super-packet would take the time of many packets at once.
    let long = Meta { amount: Amount { packets: 2, octets: 200, ns: 1500 }, ..packet(200) };
    assert_eq!(run(&mut police, &at(SECOND), long).verdict, dropped);
    assert_eq!(run(&mut police, &at(SECOND), dear).verdict, Verdict::Pass);
    // Nobody guesses octets: such a burst is a fault of the graph.
    let mut octets = self::police(1000, 99, Excess::Drop);
    assert_eq!(run(&mut octets, &at(SECOND), packet(100)).verdict, dropped);
}

#[test]
fn what_passes_in_any_time_is_within_rate_and_burst() {
    let mut police = police(100_000, 5000, Excess::Drop);
    let mut passed = Vec::new();
    let mut random = crate::common::Random(7);
    let mut now = 0;
    for _ in 0..20_000 {
        now += random.next() % 8_000_000;
        let size = 40 + random.next() % 1460;
        if run(&mut police, &at(now), packet(size)).verdict == Verdict::Pass {
            passed.push((now, size));
        }
    }
    // The rate is offered four times over; the bucket of 5000 is never left unused for long.
    let total: u64 = passed.iter().map(|(_, size)| size).sum();
    assert!(total.abs_diff(now / 10_000) < 5000 + 1500, "{total} in {now} ns");
    for (start, window) in passed.iter().zip(passed.windows(50)) {
        let sum: u64 = window.iter().map(|(_, size)| size).sum();
        let last = window[window.len() - 1].0;
        assert!(sum <= 5000 + (last - start.0) / 10_000 + 1);
    }
}

#[test]
fn excess_is_recoloured_moved_or_marked() {
    let meta = Meta { colour: Colour::Red, ..packet(100) };
    let mut recolour = police(0, 99, Excess::Recolour(Colour::Yellow));
    assert_eq!(run(&mut recolour, &at(0), packet(100)).meta.colour, Colour::Yellow);
    assert_eq!(run(&mut recolour, &at(0), meta).meta.colour, Colour::Red, "a colour never gets better");
    assert_eq!(run(&mut recolour, &at(0), packet(99)).meta.colour, Colour::Green);

    let mut other = police(0, 99, Excess::Aggregate(AggregateId(4)));
    let moved = run(&mut other, &at(0), packet(100));
    assert_eq!((moved.meta.aggregate, moved.verdict), (AggregateId(4), Verdict::Pass));

    let mut mark = police(0, 99, Excess::Mark);
    assert_eq!(run(&mut mark, &at(0), packet(100)).verdict, Verdict::Drop(Cause::Policed));
    for ecn in 1..=3 {
        assert_eq!(run(&mut mark, &at(0), Meta { ecn, ..packet(100) }).verdict, Verdict::Mark);
    }
    leaves_dropped_alone(&mut mark);
}

#[test]
fn a_policer_without_a_burst_is_refused() {
    let police = Police::new(1, 0, Measure::Octets, Excess::Drop);
    assert_eq!(police.unwrap_err(), SettingsError::NoBurst);
}

#[test]
fn a_colour_and_worse_ones_are_dropped() {
    let verdicts = |from: Colour| {
        [Colour::Green, Colour::Yellow, Colour::Red]
            .map(|colour| run(&mut DropColour::new(from), &at(0), Meta { colour, ..packet(1) }).verdict)
    };
    let dropped = Verdict::Drop(Cause::Policed);
    assert_eq!(verdicts(Colour::Red), [Verdict::Pass, Verdict::Pass, dropped]);
    assert_eq!(verdicts(Colour::Yellow), [Verdict::Pass, dropped, dropped]);
}

#[test]
fn a_limit_counts_each_aggregate_until_its_packets_leave() {
    let limit = Limit { octets: 2500, ..Limit::NONE };
    let mut component = AggregateLimit::new(&[(AggregateId(1), limit), (AggregateId(2), limit)]);
    let of = |aggregate| Meta { aggregate: AggregateId(aggregate), ..packet(1000) };
    let mut batch = [1, 1, 1, 2, 3, 3, 3].map(|aggregate| entry(of(aggregate)));
    component.run(&mut batch, &at(0));
    let dropped: Vec<bool> =
        batch.iter().map(|entry| entry.verdict == Verdict::Drop(Cause::QueueFull)).collect();
    assert_eq!(dropped, [false, false, true, false, false, false, false]);
    assert_eq!(component.amount(AggregateId(1)), Amount { packets: 2, octets: 2000, ns: 200_000 });
    component.leave(&of(1));
    assert_eq!(run(&mut component, &at(0), of(1)).verdict, Verdict::Pass);
    assert_eq!(run(&mut component, &at(0), of(1)).verdict, Verdict::Drop(Cause::QueueFull));
    leaves_dropped_alone(&mut component);
    assert_eq!(component.amount(AggregateId(9)), Amount::default());
}

#[test]
fn a_limit_counts_in_each_measure() {
    for limit in [
        Limit { packets: 1, ..Limit::NONE },
        Limit { octets: 199, ..Limit::NONE },
        Limit { ns: 19_999, ..Limit::NONE },
    ] {
        let mut component = AggregateLimit::new(&[(AggregateId::DEFAULT, limit)]);
        assert_eq!(run(&mut component, &at(0), packet(100)).verdict, Verdict::Pass);
        assert_eq!(run(&mut component, &at(0), packet(100)).verdict, Verdict::Drop(Cause::QueueFull));
    }
}

/// A graph whose one class has this policer, with what it makes of two packets of which the second is beyond the rate.
fn second_of_two(excess: &str, ecn: u8) -> (Meta, Vec<Cause>) {
    let police = format!("police = {{ rate = \"8kbit\", burst = \"1500B\", excess = {excess} }}");
    let text =
        format!("[class.af]\nmatch = [{{ dscp = \"AF11\" }}]\n{police}\n[class.rest]\nmatch = \"rest\"\n");
    let mut works = Works::new(graph(&text, &house(US)));
    for ticket in 0..2 {
        works.offer(ticket, Meta { ecn, ..of_dscp(10, US) });
    }
    works.drain();
    let last = works.left.iter().find(|(ticket, _)| *ticket == 1).map(|(_, meta)| *meta);
    (last.unwrap_or_default(), works.ended.iter().map(|ended| ended.cause).collect())
}

#[test]
fn a_graph_says_what_becomes_of_the_excess() {
    assert_eq!(second_of_two("\"drop\"", 0).1, [Cause::Policed]);
    assert_eq!(second_of_two("\"yellow\"", 0).0.colour, Colour::Yellow);
    assert_eq!(second_of_two("\"red\"", 0).0.colour, Colour::Red);
    let (marked, ended) = second_of_two("{ mark = \"AF12\" }", 0);
    assert_eq!((marked.dscp, marked.is_marked, ended.len()), ([12, 10], true, 0));
    let (unmarked, _) = second_of_two("\"red\"", 0);
    assert!(!unmarked.is_marked);
    // What can be told of congestion is told, and the rest is dropped.
    let (told, ended) = second_of_two("\"ecn\"", 2);
    assert_eq!((told.ecn, ended.len()), (3, 0));
    assert_eq!(second_of_two("\"ecn\"", 0).1, [Cause::Policed]);
    let moved = second_of_two("\"rest\"", 0).0.aggregate;
    assert_ne!(moved, second_of_two("\"red\"", 0).0.aggregate);
}

#[test]
fn a_policer_that_marks_is_a_marker_to_the_engine() {
    let marks = |excess: &str| {
        let police = format!("police = {{ rate = \"8kbit\", burst = \"1500B\", excess = {excess} }}");
        let text = format!(
            "[class.af]\nmatch = [{{ dscp = \"AF11\" }}]\n{police}\n[class.rest]\nmatch = \"rest\"\n"
        );
        graph(&text, &house(US)).marks()
    };
    assert_eq!([marks("\"red\""), marks("{ mark = \"AF12\" }")], [false, true]);
}

#[test]
fn what_is_written_of_the_excess_is_printed_as_it_was() {
    for excess in
        ["\"drop\"", "\"yellow\"", "\"red\"", "\"ecn\"", "\"rest\"", "{ mark = \"AF12\" }", "{ mark = 63 }"]
    {
        let police = format!("police = {{ rate = \"8kbit\", burst = \"1500B\", excess = {excess} }}");
        let text = format!(
            "[class.af]\nmatch = [{{ dscp = \"AF11\" }}]\n{police}\n[class.rest]\nmatch = \"rest\"\n"
        );
        let printed = print(&described(&text, &house(US)));
        assert!(printed.contains(&format!("excess = {excess}")), "{printed}");
        assert_eq!(print(&described(&printed, &house(US))), printed);
    }
}

#[test]
fn only_a_policer_that_takes_the_excess_out_bounds_its_class() {
    let arrival = |excess: &str| {
        let police = format!("police = {{ rate = \"20%\", burst = \"1ms\", excess = {excess} }}");
        let text = format!(
            "[class.af]\nmatch = [{{ dscp = \"AF11\" }}]\n{police}\n[class.rest]\nmatch = \"rest\"\n"
        );
        let bounds = bounds(&described(&text, &house(US)), &house(US));
        bounds.find("af", Direction::Outbound).unwrap().arrival.is_some()
    };
    assert!(["\"drop\"", "\"rest\""].into_iter().all(arrival));
    assert!(!["\"yellow\"", "\"red\"", "\"ecn\"", "{ mark = 12 }"].into_iter().any(arrival));
}
