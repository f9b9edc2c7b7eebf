//! RED and WRED: the curves, the average, the spread of drops, and marks.

use qos::behaviour::SettingsError;
use qos::red::{Curve, Red, RedSettings};
use qos::{Admit, Amount, Backlog, Cause, Colour, Context, Enqueue, Limit, Measure, Meta};
use wire::Time;

use crate::common::{MS, Random, SECOND, packet};

const CURVES: [Curve; 3] = [
    Curve { min: 60, max: 100, probability: 0.05 },
    Curve { min: 40, max: 80, probability: 0.1 },
    Curve { min: 20, max: 50, probability: 0.5 },
];

const SETTINGS: RedSettings =
    RedSettings { measure: Measure::Packets, curves: CURVES, weight: 9, packet_ns: MS, ecn: true };

const EARLY: Admit = Admit::Refuse(Cause::EarlyDrop);

fn backlog(packets: u64) -> Backlog {
    Backlog { now: Amount { packets, octets: packets * 1000, ns: packets * MS }, limit: Limit::NONE }
}

/// RED with this average: the same amount has waited for long.
fn settled(settings: RedSettings, packets: u64) -> Red {
    let mut red = Red::new(RedSettings { curves: CURVES, ..settings }).unwrap();
    for now in 0..20_000 {
        red.admit(&packet(1000), &backlog(packets), &Context { now: Time(now), random: u64::MAX });
    }
    // The average comes near from below, and a part of a packet is missing.
    assert!(packets - red.average() <= 1, "{} for {packets}", red.average());
    red
}

/// The answers for this many packets of one colour, at one length of the queue.
fn answers(red: &mut Red, meta: Meta, packets: u64, number: usize) -> Vec<Admit> {
    let mut random = Random(packets + number as u64);
    let mut admit = |_| {
        let context = Context { now: Time(SECOND), random: random.next() };
        red.admit(&meta, &backlog(packets), &context)
    };
    (0..number).map(&mut admit).collect()
}

#[test]
fn the_fraction_dropped_is_that_of_the_curve() {
    const NUMBER: usize = 100_000;
    for (colour, curve) in [Colour::Green, Colour::Yellow, Colour::Red].into_iter().zip(CURVES) {
        for packets in [10, 30, 45, 55, 65, 70, 90, 99] {
            let mut red = settled(SETTINGS, packets);
            let fraction = curve.at(red.average());
            let answers = answers(&mut red, Meta { colour, ..packet(1000) }, packets, NUMBER);
            let dropped = answers.iter().filter(|answer| **answer == EARLY).count() as f64;
            let expected = fraction * NUMBER as f64;
            // Four standard deviations of a binomial distribution, and the last part of a gap.
            let bound = 4.0 * (expected * (1.0 - fraction)).sqrt() + 1.0;
            assert!(
                (dropped - expected).abs() <= bound,
                "{colour:?} at {packets}: {dropped}, not {expected}"
            );
        }
    }
}

#[test]
fn packets_that_share_the_random_bits_of_one_call_are_drawn_each() {
    for random in [0, 1, u64::MAX] {
        let mut red = settled(SETTINGS, 45);
        let context = Context { now: Time(SECOND), random };
        let meta = Meta { colour: Colour::Red, ..packet(1000) };
        let dropped = (0..1000).filter(|_| red.admit(&meta, &backlog(45), &context) == EARLY).count();
        let expected = CURVES[2].at(red.average()) * 1000.0;
        assert!((dropped as f64 - expected).abs() < 63.0, "{dropped}, not {expected}");
    }
}

#[test]
fn the_curve_is_a_line_between_its_thresholds() {
    let curve = Curve { min: 20, max: 60, probability: 0.2 };
    assert_eq!(
        [0, 19, 20, 30, 40, 60, 61].map(|average| curve.at(average)),
        [0.0, 0.0, 0.0, 0.05, 0.1, 1.0, 1.0]
    );
    assert!((curve.at(59) - 0.195).abs() < 1e-12);
    let step = Curve { min: 20, max: 20, probability: 0.0 };
    assert_eq!([19, 20].map(|average| step.at(average)), [0.0, 1.0]);
}

#[test]
fn drops_are_spread_evenly() {
    let packets = 75;
    let mut red = settled(SETTINGS, packets);
    let fraction = CURVES[1].at(red.average());
    let answers = answers(&mut red, Meta { colour: Colour::Yellow, ..packet(1000) }, packets, 100_000);
    let drops: Vec<usize> =
        answers.iter().enumerate().filter(|(_, answer)| **answer == EARLY).map(|(place, _)| place).collect();
    let gaps: Vec<usize> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Uniform from 1 to 2 / p - 1: the longest gap is bounded, and each third has a third of the gaps.
    let longest = (2.0 / fraction - 1.0).ceil() as usize;
    assert!(gaps.iter().all(|gap| *gap <= longest), "{:?} > {longest}", gaps.iter().max());
    for third in 0..3 {
        let within = |gap: &&usize| (**gap - 1) * 3 / longest == third;
        let share = gaps.iter().filter(within).count() as f64 / gaps.len() as f64;
        assert!((share - 1.0 / 3.0).abs() < 0.04, "{third}: {share}");
    }
}

#[test]
fn packets_of_a_lower_precedence_are_dropped_less_at_every_length() {
    for packets in 0..=110 {
        let [green, yellow, red] = CURVES.map(|curve| curve.at(packets));
        assert!(green <= yellow && yellow <= red);
    }
    let turned = [CURVES[1], CURVES[0], CURVES[2]];
    assert_eq!(
        Red::new(RedSettings { curves: turned, ..SETTINGS }).unwrap_err(),
        SettingsError::PrecedenceReversed
    );
    // Curves that cross between their thresholds are refused too.
    let steep = Curve { min: 50, max: 100, probability: 1.0 };
    let flat = Curve { min: 40, max: 100, probability: 0.1 };
    let crossing = RedSettings { curves: [steep, flat, flat], ..SETTINGS };
    assert_eq!(Red::new(crossing).unwrap_err(), SettingsError::PrecedenceReversed);
}

#[test]
fn packets_that_can_be_marked_are_marked_between_the_thresholds_alone() {
    let ecn = Meta { colour: Colour::Red, ecn: 2, ..packet(1000) };
    let between = answers(&mut settled(SETTINGS, 40), ecn, 40, 1000);
    assert!(between.contains(&Admit::Mark) && !between.contains(&EARLY));
    let above = answers(&mut settled(SETTINGS, 60), ecn, 60, 1000);
    assert!(above.iter().all(|answer| *answer == EARLY));
    let off = RedSettings { ecn: false, ..SETTINGS };
    assert!(!answers(&mut settled(off, 40), ecn, 40, 1000).contains(&Admit::Mark));
}

#[test]
fn the_average_is_that_of_floyd_and_jacobson() {
    let mut red = Red::new(SETTINGS).unwrap();
    let mut expected = 0.0_f64;
    let mut random = Random(5);
    for now in 0..5000 {
        let packets = 1 + random.next() % 100;
        red.admit(&packet(1000), &backlog(packets), &Context { now: Time(now), random: u64::MAX });
        expected += (packets as f64 - expected) / 512.0;
        assert!((red.average() as f64 - expected).abs() <= 1.5, "{} for {expected}", red.average());
    }
}

#[test]
fn a_short_burst_is_queued() {
    let mut red = settled(SETTINGS, 1);
    // A burst of 99 packets at once is less than a fifth of the time constant of 512 packets.
    let of = |packets: u64| (packets, Context { now: Time(SECOND), random: 0 });
    for (packets, context) in (1..100).map(of) {
        assert_eq!(red.admit(&packet(1000), &backlog(packets), &context), Admit::Take);
    }
}

#[test]
fn the_average_falls_while_the_queue_is_idle() {
    let idle = |ns| {
        let mut red = settled(SETTINGS, 90);
        // The last packet came at 20 us; with it, 90 ms of work waited.
        red.admit(&packet(1000), &backlog(0), &Context { now: Time(91 * MS + ns), random: u64::MAX });
        red.average()
    };
    assert!(idle(0) >= 88);
    // (511/512)^355 is one half.
    assert!((43..=46).contains(&idle(355 * MS)), "{}", idle(355 * MS));
    assert_eq!(idle(3600 * SECOND), 0);
    assert_eq!(idle(u64::MAX - 91 * MS), 0);
}

#[test]
fn a_full_queue_refuses_whatever_the_average() {
    let mut red = Red::new(SETTINGS).unwrap();
    let full = Backlog { now: backlog(10).now, limit: Limit { packets: 10, ..Limit::NONE } };
    let context = Context { now: Time(0), random: u64::MAX };
    assert_eq!(red.admit(&packet(1), &full, &context), Admit::Refuse(Cause::QueueFull));
}

#[test]
fn extreme_numbers_do_not_panic() {
    for weight in [0, 9, 31] {
        let curve = Curve { min: 0, max: u64::MAX, probability: 1.0 };
        let settings = RedSettings { curves: [curve; 3], weight, packet_ns: 1, ..SETTINGS };
        let mut red = Red::new(settings).unwrap();
        for (now, packets) in [(u64::MAX, u64::MAX), (0, 0), (u64::MAX, 0), (1, u64::MAX), (2, 1)] {
            for random in [0, u64::MAX] {
                red.admit(
                    &packet(u64::MAX >> 8),
                    &Backlog { now: Amount { packets, octets: packets, ns: packets }, limit: Limit::NONE },
                    &Context { now: Time(now), random },
                );
            }
        }
    }
    let with = |curve| Red::new(RedSettings { curves: [curve; 3], ..SETTINGS }).map(|_| ()).unwrap_err();
    assert_eq!(with(Curve { min: 2, max: 1, probability: 0.1 }), SettingsError::Backwards);
    assert_eq!(with(Curve { min: 1, max: 2, probability: 1.1 }), SettingsError::NoProbability);
    assert_eq!(with(Curve { min: 1, max: 2, probability: f64::NAN }), SettingsError::NoProbability);
    assert_eq!(Red::new(RedSettings { weight: 32, ..SETTINGS }).unwrap_err(), SettingsError::NoInterval);
    assert_eq!(Red::new(RedSettings { packet_ns: 0, ..SETTINGS }).unwrap_err(), SettingsError::NoInterval);
}
