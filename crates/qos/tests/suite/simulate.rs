//! Graphs in simulated time: reports, voice under a flood, and the printed bound over random graphs.

use qos::bound::bounds;
use qos::cost::CostModel;
use qos::graph::house::House;
use qos::graph::{Graph, check};
use qos::simulate::{Fate, Histogram, simulate, simulate_each};
use qos::{Amount, Cause, Direction, Meta};
use wire::Time;

use crate::common::Random;
use crate::running::{BE, EF, US, costs, costs_of, graph, graph_of, house, house_of, of_dscp, of_preset};

const COST: u64 = 20 * US;
const MS: u64 = 1_000 * US;

/// Packets of a DSCP every `gap` nanoseconds from `start` on.
fn stream(dscp: u8, start: u64, gap: u64, count: u64) -> Vec<(Time, Meta)> {
    (0..count)
        .map(|i| (Time(start + i * gap), Meta { association: dscp.into(), ..of_dscp(dscp, COST) }))
        .collect()
}

fn joined(streams: impl IntoIterator<Item = Vec<(Time, Meta)>>) -> Vec<(Time, Meta)> {
    let mut all: Vec<_> = streams.into_iter().flatten().collect();
    all.sort_by_key(|(time, _)| *time);
    all
}

#[test]
fn a_histogram_tells_quantiles_within_an_eighth() {
    let mut histogram = Histogram::default();
    assert_eq!((histogram.quantile(500_000), histogram.mean()), (None, None));
    (1..=1_000_000).for_each(|ns| histogram.add(ns));
    assert_eq!(
        (histogram.least(), histogram.most(), histogram.count()),
        (Some(1), Some(1_000_000), 1_000_000)
    );
    assert_eq!(histogram.mean(), Some(500_000));
    for parts in [1, 1_000, 500_000, 990_000, 999_999, 1_000_000] {
        let told = histogram.quantile(parts).unwrap();
        assert!((parts..=parts + parts / 8 + 1).contains(&told), "{parts}: {told}");
    }
    histogram.add(u64::MAX);
    assert_eq!(histogram.quantile(1_000_000), Some(u64::MAX));
}

#[test]
fn an_idle_gateway_takes_the_cost_of_a_packet_and_the_same_run_gives_the_same_report() {
    let run = || {
        let mut graph = of_preset("fifo", &house(COST));
        simulate(&mut graph, stream(BE, 0, 2 * COST, 1_000), &costs(COST))
    };
    let report = run();
    let every = report.classes.values().next().unwrap();
    assert_eq!((report.left(), report.dropped(), every.longest_loss), (1_000, 0, 0));
    assert_eq!((every.waits.least(), every.waits.most()), (Some(COST), Some(COST)));
    assert_eq!(report, run());
}

#[test]
fn each_packet_has_one_fate_and_the_fates_add_up_to_the_report() {
    let mut graph = of_preset("voice", &house(COST));
    let be = stream(BE, 0, COST / 4, 4_000);
    let arrivals = joined([stream(EF, 1_000, 5 * COST, 100), be]);
    let mut fates: Vec<Option<Fate>> = vec![None; arrivals.len()];
    let report = simulate_each(&mut graph, arrivals.iter().copied(), &costs(COST), |fate| {
        let row = &mut fates[usize::try_from(fate.number).unwrap()];
        assert_eq!(row.replace(fate), None, "a packet ended twice");
    });
    let fates: Vec<Fate> = fates.into_iter().map(|fate| fate.unwrap()).collect();
    for (aggregate, class) in &report.classes {
        let own = || fates.iter().filter(|fate| fate.aggregate == *aggregate);
        let left: Vec<u64> = own().filter(|fate| fate.cause.is_none()).map(|fate| fate.wait).collect();
        assert_eq!(left.len() as u64, class.left);
        assert_eq!(
            (left.iter().min().copied(), left.iter().max().copied()),
            (class.waits.least(), class.waits.most())
        );
        for (cause, count) in &class.dropped {
            assert_eq!(own().filter(|fate| fate.cause == Some(*cause)).count() as u64, *count);
        }
    }
    assert!(report.dropped() > 1_000 && report.left() > 500, "{report:?}");
    let ef = graph.aggregates().find("ef").unwrap();
    let numbers: Vec<usize> = (0..arrivals.len()).filter(|at| arrivals[*at].1.dscp == [EF; 2]).collect();
    assert!(numbers.iter().all(|at| fates[*at].aggregate == ef && fates[*at].cause.is_none()));
}

#[test]
fn a_flood_loses_in_runs_what_the_gateway_cannot_do() {
    let mut graph = of_preset("fifo", &house(COST));
    let report = simulate(&mut graph, stream(BE, 0, COST / 2, 100_000), &costs(COST));
    assert!(graph.conserved());
    assert_eq!(report.left() + report.dropped(), 100_000);
    let every = report.classes.values().next().unwrap();
    assert!(every.dropped[&Cause::QueueFull].abs_diff(49_000) < 1_000, "{:?}", every.dropped);
    assert!((1..=2).contains(&every.longest_loss), "{}", every.longest_loss);
}

#[test]
fn voice_is_unharmed_by_a_flood_of_ten_times_the_gateway() {
    let run = |flood: u64| {
        let house = house(COST);
        let mut graph = of_preset("voice", &house);
        let be = (0..flood).map(|i| {
            (Time(i * COST / 10), Meta { flow: (i % 50) as u32, association: 3, ..of_dscp(BE, COST) })
        });
        let arrivals = joined([stream(EF, 1_000, 5 * COST, 2_000), be.collect()]);
        let report = simulate(&mut graph, arrivals, &costs(COST));
        assert!(graph.conserved());
        let ef = graph.aggregates().find("ef").unwrap();
        let rest = graph.aggregates().find("rest").unwrap();
        (report.class(ef), report.class(rest))
    };
    let (calm, _) = run(0);
    let (flooded, rest) = run(100_000);
    assert_eq!((calm.left, calm.dropped.len()), (2_000, 0));
    assert_eq!((flooded.left, flooded.dropped.len()), (2_000, 0));
    // What is committed, 200 us, one packet that has begun, and its own.
    assert!(flooded.waits.most() <= Some(200 * US + 2 * COST), "{:?}", flooded.waits.most());
    assert!(rest.left > 7_000 && rest.dropped.values().sum::<u64>() > 80_000, "{rest:?}");
}

#[test]
fn expedited_packets_that_come_together_pay_a_step_each_and_stay_within_the_bound() {
    let text = "[class.ef]\nmatch = [{ dscp = \"EF\" }]\npriority = true\npolice = { rate = \"20%\", burst = \"100us\" }\n\
                [class.rest]\nmatch = \"rest\"\n[unit.one]\nkind = \"sliced\"\nstep = \"30us\"\n";
    // A packet of best effort takes two steps: 30 us, and 10 us.
    let house = house(2 * COST);
    let description = check(text, &house).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let mut graph = graph_of(&description, &house);
    let mut bursts = Vec::new();
    for burst in 0..1_000 {
        bursts.extend([(Time(MS * burst + 7 * burst), of_dscp(EF, COST)); 2]);
    }
    let be = stream(BE, 0, COST, 55_000);
    let report = simulate(&mut graph, joined([be, bursts]), &costs(2 * COST));
    let bound = bounds(&description, &house).find("ef", Direction::Outbound).unwrap().clone();
    let (most, total) =
        (report.class(graph.aggregates().find("ef").unwrap()).waits.most().unwrap(), bound.total.unwrap());
    assert!(most <= total, "{most} of {total}");
    // The step that is under way, the packet, a step, and the second packet.
    assert!(most >= 2 * 40 * US + 40 * US, "{most}");
}

#[test]
fn shapers_hold_a_class_and_an_uplink_to_their_rates() {
    let house = house(COST);
    // 1,000 and 38 octets a packet; 10 Mbit/s are 1,204 of them in a second.
    let text = "[uplink.eth0]\nrate = \"10Mbit\"\noverhead = 38\n[class.ef]\nmatch = [{ dscp = \"EF\" }]\n\
                rate = \"1Mbit\"\n[class.rest]\nmatch = \"rest\"\nlimit = { packets = 50 }\n";
    let mut graph = graph(text, &house);
    let arrivals = joined([stream(EF, 0, MS / 2, 2_000), stream(BE, 0, MS / 5, 5_000)]);
    let report = simulate(&mut graph, arrivals, &costs(COST));
    let [ef, rest] = ["ef", "rest"].map(|name| report.class(graph.aggregates().find(name).unwrap()));
    let second = report.end.0 as f64 / 1e9;
    let rate = |left: u64, octets: u64| (left * octets * 8) as f64 / second / 1e6;
    assert!((0.9..=1.05).contains(&rate(ef.left, 1_000)), "{} in {second}", ef.left);
    assert!(rate(ef.left + rest.left, 1_038) <= 10.1, "{} {}", ef.left, rest.left);
    assert!(graph.conserved());
}

#[test]
fn a_guard_leaves_the_last_child_its_share_within_its_bound() {
    for guard in [50, 80] {
        let text = format!(
            "guard = \"{guard}%\"\n[class.ef]\nmatch = [{{ dscp = \"EF\" }}]\npriority = true\nunpoliced = true\n\
             limit = {{ packets = 100 }}\n[class.af]\nmatch = [{{ dscp = 10 }}]\npriority = true\nunpoliced = true\n\
             limit = {{ packets = 100 }}\n[class.rest]\nmatch = \"rest\"\nlimit = {{ packets = 20 }}\n"
        );
        let house = house(COST);
        let description = check(&text, &house).unwrap_or_else(|faults| panic!("{faults:#?}"));
        let mut graph = graph_of(&description, &house);
        // Both classes with priority ask for all that there is, and so does the rest.
        let floods = [EF, 10, BE].map(|dscp| stream(dscp, u64::from(dscp), COST, 100_000));
        let report = simulate(&mut graph, joined(floods), &costs(COST));
        let rest = report.class(graph.aggregates().find("rest").unwrap());
        let share = rest.left * 100 / report.left();
        assert!((98 - guard..=102 - guard).contains(&share), "{guard}: {share}");
        let bound = bounds(&description, &house).find("rest", Direction::Outbound).unwrap().total;
        let most = rest.waits.most();
        assert!(most <= bound && most > bound.map(|ns| ns / 4), "{guard}: {most:?} of {bound:?}");
    }
}

/// A random graph in the short form, with a DSCP for each of its classes.
fn random_text(random: &mut Random) -> (String, Vec<u8>) {
    let of = |random: &mut Random, most: u64| random.next() % most;
    let count = 2 + of(random, 4);
    let urgent = of(random, 2.min(count - 1) + 1);
    let stages = ["[5]", "[1, 5]", "[3, 5]", "[1, 3, 5]"][of(random, 4) as usize];
    let discipline =
        ["\"wfq\"", "{ kind = \"drr\", quantum = \"200us\" }", "\"round_robin\"", "\"weighted\""]
            [of(random, 4) as usize];
    let mut text = format!("stages = {stages}\ndiscipline = {discipline}\n");
    let guard = (urgent > 0 && of(random, 2) == 0).then(|| 30 + of(random, 69));
    let mut left = 90;
    let mut classes = String::new();
    let codepoints = [46, 10, 18, 26, 34, 0];
    let mut mine = Vec::new();
    for class in 0..count {
        let dscp = if class + 1 == count { 0 } else { codepoints[class as usize] };
        mine.push(dscp);
        let matches = if dscp == 0 { "\"rest\"".to_owned() } else { format!("[{{ dscp = {dscp} }}]") };
        classes += &format!("[class.c{class}]\nmatch = {matches}\n");
        let is_urgent = class < urgent;
        let unpoliced = is_urgent && guard.is_some() && of(random, 3) == 0;
        let policed = !unpoliced && (is_urgent || of(random, 2) == 0);
        if policed {
            let rate = 1 + of(random, (left / (count - class)).max(1));
            left -= rate.min(left);
            let burst = 40 + of(random, 1_000);
            classes += &format!("police = {{ rate = \"{rate}%\", burst = \"{burst}us\" }}\n");
        }
        if is_urgent {
            classes += "priority = true\n";
            classes += if unpoliced { "unpoliced = true\n" } else { "" };
        } else if discipline != "\"round_robin\"" {
            classes += &format!("weight = {}\n", 1 + of(random, 8));
        }
        if policed && of(random, 6) == 0 {
            classes += "fair = \"flow\"\n";
        }
        if of(random, 8) == 0 {
            classes += &format!("rate = \"{}Mbit\"\n", 1 + of(random, 200));
        }
        let limit = 8 + of(random, 200);
        classes += &format!("limit = {{ packets = {limit} }}\n");
    }
    if let Some(guard) = guard {
        text += &format!("guard = \"{guard}%\"\n");
    }
    let high = 20 + of(random, 180);
    let kind = ["inline", "worker", "sliced", "sliced"][of(random, 4) as usize];
    text += &classes;
    text += &format!("[unit.one]\nkind = \"{kind}\"\nhigh = \"{high}us\"\nmost_committed = \"200us\"\n");
    if of(random, 3) == 0 {
        text += &format!("low = \"{}us\"\n", 1 + of(random, high));
    }
    if kind == "sliced" {
        text += &format!("step = \"{}us\"\n", 1 + of(random, high.min(40)));
    }
    (text, mine)
}

/// Bursts and streams of every class, beyond what the gateway can do and below it in turns.
fn random_arrivals(random: &mut Random, dscps: &[u8], packets: u64) -> Vec<(Time, Meta)> {
    let mut arrivals = Vec::new();
    let (mut now, mut flood) = (0, None);
    while (arrivals.len() as u64) < packets {
        let some = dscps[(random.next() % dscps.len() as u64) as usize];
        if random.next().is_multiple_of(1_000) {
            flood = (!random.next().is_multiple_of(3)).then_some(some);
        }
        let dscp = flood.filter(|_| !random.next().is_multiple_of(5)).unwrap_or(some);
        let burst = 1 + random.next() % if random.next().is_multiple_of(8) { 120 } else { 6 };
        for _ in 0..burst {
            let octets = 28 + random.next() % 1_473;
            let amount = Amount { packets: 1, octets, ns: 0 };
            let (association, flow) = ((random.next() % 4) as u32, (random.next() % 9) as u32);
            arrivals.push((Time(now), Meta { amount, association, flow, ..of_dscp(dscp, 0) }));
        }
        let pace = if flood.is_some() { COST / 2 } else { 2 * COST };
        now += random.next() % (pace * burst) + random.next() % 2_000;
        if random.next().is_multiple_of(200) {
            now += 5 * MS;
        }
    }
    arrivals
}

/// The greatest part of the bound that a wait of the graph has reached, in thousandths, and the packets with a bound.
fn held_against_bound(
    text: &str,
    house: &House,
    arrivals: Vec<(Time, Meta)>,
    cost: &CostModel,
) -> (u64, u64) {
    let description = check(text, house).unwrap_or_else(|faults| panic!("{faults:#?}\n{text}"));
    let bounds = bounds(&description, house);
    let mut graph: Graph<u64> = graph_of(&description, house);
    let report = simulate(&mut graph, arrivals, cost);
    assert!(graph.conserved(), "{text}");
    let (mut most, mut packets) = (0, 0);
    for class in &description.classes {
        let name = &class.name.value;
        let Some(total) = bounds.find(name, Direction::Outbound).and_then(|bound| bound.total) else {
            continue;
        };
        let its = report.class(graph.aggregates().find(name).unwrap());
        let Some(wait) = its.waits.most() else { continue };
        let terms = bounds.find(name, Direction::Outbound).unwrap().terms.show();
        assert!(wait <= total, "{name} waited {wait} ns beyond {total} ns ({terms}):\n{text}");
        packets += its.left;
        most = most.max(wait * 1_000 / total.max(1));
    }
    (most, packets)
}

/// None of many packets over many graphs waits longer than the bound that is printed. `RAVELIN_BOUND_GRAPHS` and
/// `RAVELIN_BOUND_PACKETS` ask for more graphs, and more packets in all.
#[test]
#[allow(clippy::disallowed_methods, reason = "the length of the run is asked for outside")]
fn no_packet_waits_longer_than_the_bound() {
    let asked =
        |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (graphs, packets) = (asked("RAVELIN_BOUND_GRAPHS", 60), asked("RAVELIN_BOUND_PACKETS", 250_000));
    let (mut bounded, mut most, mut feasible, mut seed) = (0, 0, 0, 0);
    while feasible < graphs {
        seed += 1;
        let mut random = Random(seed);
        let (base, eighths) = (US + random.next() % (30 * US), random.next() % 200);
        let house = house_of(base, eighths);
        let (text, dscps) = random_text(&mut random);
        if check(&text, &house).is_err() {
            assert!(seed < 20 * graphs + 100, "too few graphs are feasible");
            continue;
        }
        feasible += 1;
        let arrivals = random_arrivals(&mut random, &dscps, packets / graphs);
        let (reached, with_bound) = held_against_bound(&text, &house, arrivals, &costs_of(base, eighths));
        most = most.max(reached);
        bounded += with_bound;
    }
    assert!(bounded >= packets * 2 / 5, "only {bounded} packets had a bound");
    assert!((300..=1_000).contains(&most), "no packet of {bounded} reached more than {most} thousandths");
}
