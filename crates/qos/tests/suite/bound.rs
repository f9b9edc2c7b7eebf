//! Bounds: each term of a graph by hand.

use proptest::prelude::*;
use qos::Direction::{self, Inbound, Outbound};
use qos::bound::view::SMALLEST;
use qos::bound::{Bounds, Terms, bounds, unproved};
use qos::graph::house::{Line, Path, SuiteCost};
use qos::graph::kernel::KERNEL_PACKETS;
use qos::graph::{Code, House, check, preset, read};

/// A gateway with round figures: 1 us to receive, 2 us to send, 7 us for the suite, whatever the length.
fn house() -> House {
    let line = |base_ns| Line { base_ns, ps_per_octet: 0 };
    let path = Path {
        wake_ns: 100_000,
        other_turn_ns: 50_000,
        receive: line(1_000),
        send: line(2_000),
        batch: 10,
        mtu: 1_500,
        cell: 2_000,
    };
    let cost = |direction| SuiteCost { suite: "3des-md5".to_owned(), direction, line: line(7_000) };
    House { costs: vec![cost(Outbound), cost(Inbound)], path, ..House::default() }
}

const VOICE: &str = "
    [class.ef]
    match = [{ dscp = \"EF\" }]
    priority = true
    police = { rate = \"20%\", burst = \"100us\" }
    limit = { packets = 64 }

    [class.rest]
    match = \"rest\"
    limit = { time = \"20ms\" }

    [unit.inline]
    kind = \"inline\"
    high = \"50us\"
    most_committed = \"200us\"

    [kernel.ef]
    classes = [\"ef\"]
    limit = { packets = 20 }

    [kernel.rest]
    classes = [\"rest\"]
    queues = 4
    limit = { packets = 200 }
";

fn voice(change: impl Fn(&str) -> String) -> Bounds {
    let text = change(VOICE);
    bounds(&check(&text, &house()).unwrap_or_else(|faults| panic!("{faults:#?}")), &house())
}

#[test]
fn each_term_by_hand() {
    let bounds = voice(str::to_owned);
    let ef = bounds.find("ef", Outbound).unwrap();
    let expected = Terms {
        // 20 packets of its own, 10 of each of 4 other kernel queues, 1 us each.
        kernel: 60_000,
        wake: 100_000,
        committed: 50_000,
        // One packet of the rest has begun: 10 us at the rate 1.
        others: 10_000,
        own_burst: 100_000,
        io: 2_000,
        other_direction: 50_000,
    };
    assert_eq!(ef.terms, expected);
    assert_eq!(ef.total, Some(372_000));
    assert_eq!(ef.rate, 1_000_000);
    // RFC 3246: D = B / R + E.
    assert_eq!(ef.terms.error_term(), 272_000);
    assert_eq!(ef.total, Some(ef.terms.error_term() + 100_000));
    let rest = bounds.find("rest", Outbound).unwrap();
    assert_eq!(rest.rate, 800_000);
    // 100 us of the burst of EF at the rate 0.8, what EF asks for during the committed work, and 20 ms of its own.
    assert_eq!((rest.terms.others, rest.terms.own_burst), (137_500, 25_000_000));
    assert_eq!(rest.terms.kernel, 200_000 + 3 * 10_000 + 10_000);
    // Inbound, an empty queue takes 64 joined datagrams, and 10 packets that name no association are read.
    let inbound = bounds.find("ef", Inbound).unwrap();
    assert_eq!(inbound.terms, Terms { kernel: 64_000 + 5 * 10_000, ..expected });
}

#[test]
fn committed_work_follows_the_unit() {
    let committed = |unit: &str| {
        let bounds = voice(|text| text.replace("kind = \"inline\"\n    high = \"50us\"", unit));
        bounds.find("ef", Outbound).unwrap().terms.committed
    };
    assert_eq!(committed("kind = \"inline\""), 200_000);
    assert_eq!(committed("kind = \"inline\"\n    high = \"3us\""), 10_000);
    // The busy period of EF is (210 + 10 + 100) / 0.8 = 400 us, in which 18 packets of it come; and two steps.
    let sliced = |step: &str| format!("kind = \"sliced\"\n    step = \"{step}\"");
    assert_eq!(committed(&sliced("5us")), 20 * 5_000);
    // No more steps are done than there is work for: the mark, and one packet in between.
    assert_eq!(committed(&sliced("20us")), 210_000);
    assert_eq!(committed("kind = \"batch\"\n    lanes = 8\n    high = \"50us\""), 80_000);
    assert_eq!(committed("kind = \"worker\"\n    high = \"50us\""), 60_000);
    assert_eq!(committed("kind = \"async\"\n    high = \"50us\""), 60_000);
    // A worker reserved for others holds nobody up; an inline unit does, whoever it is reserved for.
    let both = |kind: &str| {
        format!(
            "kind = \"sliced\"\n    step = \"5us\"\n    [unit.slow]\n    kind = \"{kind}\"\n    reserved = [\"rest\"]"
        )
    };
    assert_eq!(committed(&both("worker")), 100_000);
    assert_eq!(committed(&both("inline")), 100_000 + 200_000);
}

#[test]
fn on_a_sliced_unit_only_the_last_expedited_class_waits_for_steps() {
    let text = |unit: &str| {
        let control = "[class.control]\nmatch = [{ dscp = \"CS6\" }]\npriority = true\n\
                       police = { rate = \"10%\", burst = \"50us\" }\n[class.ef]";
        let both = VOICE.replace("classes = [\"ef\"]", "classes = [\"ef\", \"control\"]");
        both.replace("[class.ef]", control).replace("kind = \"inline\"\n    high = \"50us\"", unit)
    };
    let sliced = "kind = \"sliced\"\n    step = \"1us\"";
    let committed = |bounds: &Bounds, class: &str| bounds.find(class, Outbound).unwrap().terms.committed;
    let of = |house: &House| bounds(&check(&text(sliced), house).unwrap(), house);
    let ours = of(&house());
    // Both ask for 150 us and 0.3: (220 + 150) / 0.7 is 529 us, in which 31 packets come; and two steps.
    assert_eq!(["control", "ef", "rest"].map(|class| committed(&ours, class)), [210_000, 33_000, 210_000]);
    // What goes first gets in between up to the end: (210 + 150) / 0.7, of which 210 are committed.
    assert_eq!(ours.find("rest", Outbound).unwrap().terms.others, 304_286);
    // A suite without steps does each packet in one, of 10 us.
    let mut whole = house();
    whole.costs.iter_mut().for_each(|cost| cost.suite = "aes128gcm".to_owned());
    assert_eq!(committed(&of(&whole), "ef"), 210_000);
    // A guard in reach lets others have work while expedited packets wait.
    let guarded = format!("guard = \"32%\"\n{}", text(sliced));
    let with = |period: &str| guarded.replace("32%", period);
    let of = |text: &str| bounds(&check(text, &house()).unwrap(), &house());
    assert_eq!(committed(&of(&with("31%")), "ef"), 210_000);
    assert_eq!(committed(&of(&with("32%")), "ef"), 33_000);
}

#[test]
fn a_sliced_unit_beside_another_of_its_thread_takes_the_proof_from_every_bound() {
    let first = |text: &str| unproved(&check(text, &house()).unwrap()).map(|unit| unit.name.value.clone());
    assert_eq!(first(VOICE), None);
    let alone = VOICE.replace("kind = \"inline\"\n    high = \"50us\"", "kind = \"sliced\"");
    assert_eq!(first(&alone), None);
    assert_eq!(first(&format!("{alone}[unit.thread]\nkind = \"worker\"\n")), None);
    let sliced = "[unit.slow]\n    kind = \"sliced\"\n    reserved = [\"rest\"]\n    [unit.inline]";
    assert_eq!(first(&VOICE.replace("[unit.inline]", sliced)).as_deref(), Some("slow"));
    // A promise that would hold without it is refused.
    let promised = VOICE.replace("priority = true", "priority = true\n    delay = \"1s\"");
    assert!(check(&promised, &house()).is_ok());
    let alone = alone.replace("priority = true", "priority = true\n    delay = \"1s\"");
    assert!(check(&alone, &house()).is_ok());
    // One that cannot be kept is refused there as elsewhere.
    let faults = check(&alone.replace("1s", "300us"), &house()).unwrap_err();
    assert!(faults.iter().all(|fault| fault.message.contains("committed work")), "{faults:#?}");
    let faults = check(&promised.replace("[unit.inline]", sliced), &house()).unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.code).collect::<Vec<_>>(), [Code::DelayExceeded]);
}

#[test]
fn further_trees_add_their_latency_and_the_burst_is_paid_once() {
    let one = voice(str::to_owned);
    let three = voice(|text| format!("stages = [1, 3, 5]\n{text}"));
    let (one, three) = (one.find("ef", Outbound).unwrap(), three.find("ef", Outbound).unwrap());
    assert_eq!(three.terms.own_burst, one.terms.own_burst);
    assert_eq!(three.terms.others, 3 * one.terms.others);
    assert_eq!(three.terms.committed, 3 * one.terms.committed);
    assert_eq!((three.terms.kernel, three.terms.wake), (one.terms.kernel, one.terms.wake));
}

#[test]
fn what_leaves_a_tree_is_burstier_for_those_behind_it() {
    let three = voice(|text| format!("stages = [1, 3, 5]\n{text}"));
    // EF waits 100 + 10 us and 50 us of committed work at the first tree, and a fifth of that joins its burst: 132 us
    // at the second tree, where it waits 132 + 10 + 50 us, so 170.4 us at the third. The rest has 0.8 behind it, and waits
    // for the 50 us at the same rate.
    let others = three.find("rest", Outbound).unwrap().terms.others;
    assert_eq!(others, 137_500 + 177_500 + 225_500);
}

#[test]
fn a_policer_behind_which_others_join_bounds_nothing() {
    let joined = |first: &str, second: &str| {
        let text = format!(
            "[class.ef]\nmatch = [{{ dscp = \"EF\" }}]\nunpoliced = true\n\
             [class.video]\nmatch = [{{ dscp = \"AF41\" }}]\n[class.rest]\nmatch = \"rest\"\n\
             [[hook]]\nat = \"1a\"\nchain = [{{ kind = \"classify\" }}, {first}, {second}]\n\
             [[hook]]\nat = \"1b\"\nfrom = \"choice\"\n[scheduler.choice]\nkind = \"strict\"\n\
             children = [\"ef\", \"video\", \"rest\"]\n\
             [queue.ef]\nclasses = [\"ef\"]\nlimit = {{ packets = 64 }}\n\
             [queue.video]\nclasses = [\"video\"]\nlimit = {{ packets = 64 }}\n\
             [queue.rest]\nclasses = [\"rest\"]\nlimit = {{ packets = 64 }}\n[unit.inline]\nkind = \"inline\"\n"
        );
        bounds_of(&text)
    };
    let ef = "{ kind = \"police\", class = \"ef\", rate = \"20%\", burst = \"100us\" }";
    let video =
        "{ kind = \"police\", class = \"video\", rate = \"20%\", burst = \"100us\", excess = \"ef\" }";
    let arrival = |bounds: &Bounds| bounds.find("ef", Outbound).unwrap().arrival;
    assert!(arrival(&joined(video, ef)).is_some());
    assert_eq!(arrival(&joined(ef, video)), None);
}

#[test]
fn without_a_policer_the_limits_of_the_queues_count() {
    let bounds = voice(|text| {
        text.replace("police = { rate = \"20%\", burst = \"100us\" }", "unpoliced = true")
            .replace("[class.ef]", "guard = \"80%\"\n[class.ef]")
    });
    let ef = bounds.find("ef", Outbound).unwrap();
    // The guard may be reached: the rate is 0.8, and 64 packets of 10 us are the burst.
    assert_eq!((ef.rate, ef.terms.own_burst), (800_000, 800_000));
    assert_eq!(ef.arrival, None);
    // The rest has what the guard leaves: two periods of 10 ms at 80 % and a packet, and a fifth for the committed work.
    let rest = bounds.find("rest", Outbound).unwrap();
    assert_eq!((rest.rate, rest.terms.others), (199_000, 16_010_000 + 200_000));
    // A policed burst can reach it too: half of a period is waited for, and a packet.
    let guarded = |burst: &str| {
        let bounds = voice(|text| {
            let text = text.replace("burst = \"100us\"", &format!("burst = \"{burst}\""));
            text.replace("[class.ef]", "guard = \"50%\"\n[class.ef]")
        });
        let ef = bounds.find("ef", Outbound).unwrap();
        (ef.rate, ef.terms.others)
    };
    assert_eq!(guarded("2990us"), (1_000_000, 10_000));
    assert_eq!(guarded("3010us"), (500_000, 10_000 + 5_000_000 + 10_000));
    // Without a guard nothing is promised to it.
    let open =
        voice(|text| text.replace("police = { rate = \"20%\", burst = \"100us\" }", "unpoliced = true"));
    assert_eq!(open.find("rest", Outbound).unwrap().total, None);
    assert_eq!(open.find("ef", Outbound).unwrap().terms.own_burst, 640_000);
}

#[test]
fn flows_have_a_bound_only_if_the_class_is_policed() {
    let fair = |text: &str| {
        text.replace("limit = { time = \"20ms\" }", "limit = { time = \"20ms\" }\n    fair = \"flow\"")
    };
    let rest = |bounds: &Bounds| bounds.find("rest", Outbound).unwrap().clone();
    let open = rest(&voice(fair));
    assert_eq!(open.total, None);
    // For the window a flow within its share counts as if in order: 20 ms at the rate 0.8, and the rest of the terms.
    assert_eq!(open.overtaken, Some(25_000_000 + open.terms.error_term()));
    let policed = rest(&voice(|text| {
        fair(text).replace("fair =", "police = { rate = \"40%\", burst = \"1ms\" }\n    fair =")
    }));
    // The busy period: (1 ms + 0.8 * 187.5 us) / (0.8 - 0.4).
    assert_eq!(policed.terms.others, 187_500 - 50_000);
    assert_eq!(policed.terms.own_burst, 2_875_000 - 187_500);
}

#[test]
fn memory_is_cells_of_every_queue_when_it_is_full() {
    let bounds = voice(str::to_owned);
    let ef = bounds.find("ef", Outbound).unwrap();
    // 64 packets and 20 in the kernel, 2,000 octets each.
    assert_eq!(ef.octets, 84 * 2_000);
    // 20 ms of packets of 10 us, and 4 times 200.
    let rest = bounds.find("rest", Outbound).unwrap();
    assert_eq!(rest.octets, 2_000 * 2_000 + 800 * 2_000);
    assert_eq!(bounds.octets, 2 * (ef.octets + rest.octets));
}

#[test]
fn the_window_holds_what_passes_a_waiting_packet() {
    let bounds = voice(str::to_owned);
    let waits = bounds.find("rest", Inbound).unwrap().total.unwrap() as f64;
    // EF sends 100 us and a fifth of the time meanwhile, in packets of 10 us; and the packet itself.
    let passing = ((100_000.0 + 0.2 * waits) / 10_000.0).ceil() as u64 + 1;
    assert_eq!(bounds.window(Inbound).map(|window| window.packets), Some(passing));
    let alone = bounds_of("[class.rest]\nmatch = \"rest\"\n");
    assert_eq!(alone.window(Inbound).map(|window| window.packets), Some(1));
}

fn bounds_of(text: &str) -> Bounds {
    bounds(&read(text).unwrap(), &house())
}

#[test]
fn a_kernel_queue_that_is_not_limited_holds_the_usual_length() {
    let bounds = bounds_of("[class.rest]\nmatch = \"rest\"\n");
    assert_eq!(bounds.find("rest", Outbound).unwrap().terms.kernel, KERNEL_PACKETS * 1_000);
}

#[test]
fn octets_become_work_by_the_smallest_packets() {
    let bounds = voice(|text| {
        text.replace("rate = \"20%\", burst = \"100us\"", "rate = \"1Mbit\", burst = \"2800B\"")
    });
    let arrival = bounds.find("ef", Outbound).unwrap().arrival.unwrap();
    // 10 us for each 28 octets.
    assert!((arrival.burst - 2_800.0 / SMALLEST as f64 * 10_000.0).abs() < 1.0);
    assert!((arrival.rate - 125_000.0 / SMALLEST as f64 * 1e-5).abs() < 1e-6);
}

#[test]
fn an_uplink_shapes_what_leaves_alone() {
    // 1,500 and 38 octets in 10 us are 1,230 Mbit/s; a hundredth of that is a hundredth of the processor.
    let text = format!("[uplink.eth0]\nrate = \"12304kbit\"\noverhead = 38\n{VOICE}");
    let text = text.replace("rate = \"20%\"", "rate = \"0.5%\"");
    let bounds = bounds_of(&text);
    let ef = |direction: Direction| bounds.find("ef", direction).unwrap();
    assert_eq!(ef(Outbound).rate, 10_000);
    assert_eq!(ef(Inbound).rate, 1_000_000);
    assert!(ef(Outbound).total > ef(Inbound).total);
}

#[test]
fn deadlines_are_bounds_if_they_hold() {
    let text = |deadline: &str| {
        format!(
            "[class.ef]\nmatch = [{{ dscp = \"EF\" }}]\n[class.rest]\nmatch = \"rest\"\n\
             [[hook]]\nat = \"1a\"\nchain = [{{ kind = \"classify\" }}, \
             {{ kind = \"police\", class = \"ef\", rate = \"20%\", burst = \"100us\" }}, \
             {{ kind = \"police\", class = \"rest\", rate = \"50%\", burst = \"1ms\" }}]\n\
             [[hook]]\nat = \"1b\"\nfrom = \"by-deadline\"\n\
             [scheduler.by-deadline]\nkind = \"edf\"\n\
             children = [{{ to = \"ef\", deadline = \"{deadline}\" }}, {{ to = \"rest\", deadline = \"5ms\" }}]\n\
             [queue.ef]\nclasses = [\"ef\"]\nlimit = {{ packets = 64 }}\n\
             [queue.rest]\nclasses = [\"rest\"]\nlimit = {{ time = \"20ms\" }}\n[unit.inline]\nkind = \"inline\"\n"
        )
    };
    let ef = |deadline: &str| bounds_of(&text(deadline)).find("ef", Outbound).unwrap().clone();
    assert_eq!(ef("200us").terms.others, 200_000);
    // A deadline below the burst and a packet cannot be kept; then everything of the other class may go ahead.
    assert_eq!(ef("105us").terms.others, ((200_000.0 + 1_010_000.0_f64) / 0.5).ceil() as u64 - 200_000);
}

#[test]
fn presets_have_the_bounds_that_they_are_made_for() {
    let of = |name: &str, class: &str| {
        bounds(&preset(name).unwrap(), &house()).find(class, Outbound).unwrap().clone()
    };
    for (name, class) in [
        ("fifo", "every"),
        ("two-classes", "ef"),
        ("two-classes", "be"),
        ("voice", "control"),
        ("voice", "ef"),
        ("voice", "af4"),
        ("fair", "control"),
        ("edge", "af4"),
        ("edge", "rest"),
    ] {
        let bound = of(name, class);
        assert!(bound.terms.others < u64::MAX && bound.rate > 0, "{name} {class}: {bound:?}");
        // Users and flows of the last classes pass each other without a bound.
        assert_eq!(bound.total.is_some(), class != "rest", "{name} {class}");
    }
    assert!(of("voice", "ef").total < of("voice", "af4").total);
    assert!(of("voice", "ef").total < Some(3_500_000));
}

proptest! {
    /// More of anything that delays is never less delay.
    #[test]
    fn bounds_grow_with_what_delays(burst in 20..2_000_u64, rate in 1..60_u64, more in 1..500_u64, rank in 0..4_usize) {
        let with = |burst: u64, rate: u64, high: u64, kernel: u64| {
            let bounds = voice(|text| {
                text.replace("rate = \"20%\", burst = \"100us\"", &format!("rate = \"{rate}%\", burst = \"{burst}us\""))
                    .replace("high = \"50us\"", &format!("high = \"{high}us\""))
                    .replace("limit = { packets = 20 }", &format!("limit = {{ packets = {kernel} }}"))
            });
            let total = |class: &str| bounds.find(class, Outbound).unwrap().total.unwrap();
            (total("ef"), total("rest"))
        };
        let before = with(burst, rate, 50, 20);
        let after = match rank {
            0 => with(burst + more, rate, 50, 20),
            1 => with(burst, rate + more % 30, 50, 20),
            2 => with(burst, rate, 50 + more % 150, 20),
            _ => with(burst, rate, 50, 20 + more),
        };
        prop_assert!(after.0 >= before.0 && after.1 >= before.1, "{:?} {:?}", before, after);
    }
}
