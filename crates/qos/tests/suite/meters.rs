//! The meters: the colour tables of RFC 2697, RFC 2698 and RFC 4115, token clocks, other measures, and extreme numbers.

use proptest::prelude::*;
use qos::behaviour::srtcm::SrTcmSettings;
use qos::behaviour::trtcm::TrTcmSettings;
use qos::behaviour::trtcm4115::TrTcm4115Settings;
use qos::behaviour::{
    AggregateSet, Meter, Mode, Only, SettingsError, SrTcm, TokenBucket, TokenClock, TrTcm, TrTcm4115,
};
use qos::{AggregateId, Behaviour, Colour, Measure, Meta, Verdict};
use wire::Time;

use crate::common::{SECOND, at, colour, entry, leaves_dropped_alone, packet, run};

use Colour::{Green, Red, Yellow};

/// For each colour that a packet comes with: its colour when both buckets have room, when the second bucket alone has
/// room, when the first one alone has, and when none has.
type Table = [(Colour, [Colour; 4]); 3];

/// Fill or empty the two buckets by their sizes: a bucket without room is smaller than the packet.
fn check(table: Table, mut meter: impl FnMut(u64, u64) -> Box<dyn Meter>) {
    for (before, after) in table {
        for (after, (first, second)) in
            after.into_iter().zip([(1000, 1000), (999, 1000), (1000, 999), (999, 999)])
        {
            let colour = meter(first, second).colour(Time(0), 1000, before);
            assert_eq!(colour, after, "{before:?} with {first} and {second} tokens");
        }
    }
}

#[test]
fn colour_table_of_rfc_2697() {
    let meter = |mode| {
        move |cbs, ebs| -> Box<dyn Meter> {
            Box::new(SrTcm::new(SrTcmSettings { cir: 0, cbs, ebs, measure: Measure::Octets, mode }).unwrap())
        }
    };
    let blind = [Green, Yellow, Green, Red];
    check([(Green, blind), (Yellow, blind), (Red, blind)], meter(Mode::ColourBlind));
    let yellow = [Yellow, Yellow, Red, Red];
    check([(Green, blind), (Yellow, yellow), (Red, [Red; 4])], meter(Mode::ColourAware));
}

#[test]
fn colour_table_of_rfc_2698() {
    let meter = |mode| {
        move |cbs, pbs| -> Box<dyn Meter> {
            let settings = TrTcmSettings { pir: 0, pbs, cir: 0, cbs, measure: Measure::Octets, mode };
            Box::new(TrTcm::new(settings).unwrap())
        }
    };
    let blind = [Green, Yellow, Red, Red];
    check([(Green, blind), (Yellow, blind), (Red, blind)], meter(Mode::ColourBlind));
    check([(Green, blind), (Yellow, [Yellow, Yellow, Red, Red]), (Red, [Red; 4])], meter(Mode::ColourAware));
}

#[test]
fn colour_table_of_rfc_4115() {
    let meter = |mode| {
        move |cbs, ebs| -> Box<dyn Meter> {
            let settings = TrTcm4115Settings { cir: 0, cbs, eir: 0, ebs, measure: Measure::Octets, mode };
            Box::new(TrTcm4115::new(settings).unwrap())
        }
    };
    let blind = [Green, Yellow, Green, Red];
    check([(Green, blind), (Yellow, blind), (Red, blind)], meter(Mode::ColourBlind));
    check([(Green, blind), (Yellow, [Yellow, Yellow, Red, Red]), (Red, [Red; 4])], meter(Mode::ColourAware));
}

#[test]
fn tokens_of_a_packet_come_from_the_buckets_of_its_colour() {
    let (measure, mode) = (Measure::Octets, Mode::ColourBlind);
    // Single rate: a yellow packet leaves the committed bucket as it is.
    let mut meter = SrTcm::new(SrTcmSettings { cir: 0, cbs: 100, ebs: 1000, measure, mode }).unwrap();
    assert_eq!([1000, 100, 1].map(|size| meter.colour(Time(0), size, Green)), [Yellow, Green, Red]);
    // Two rates: a green packet takes from the peak bucket too, a yellow one from that alone.
    let settings = TrTcmSettings { pir: 0, pbs: 1000, cir: 0, cbs: 500, measure, mode };
    let mut meter = TrTcm::new(settings).unwrap();
    assert_eq!(
        [400, 300, 100, 201].map(|size| meter.colour(Time(0), size, Green)),
        [Green, Yellow, Green, Red]
    );
}

#[test]
fn a_single_rate_fills_the_excess_when_the_committed_bucket_is_full() {
    let (measure, mode) = (Measure::Octets, Mode::ColourBlind);
    let mut meter = SrTcm::new(SrTcmSettings { cir: 1000, cbs: 500, ebs: 500, measure, mode }).unwrap();
    assert_eq!([500, 500].map(|size| meter.colour(Time(0), size, Green)), [Green, Yellow]);
    // In 0.75 s come 750 tokens: 500 to the first bucket, 250 to the second.
    let now = Time(SECOND * 3 / 4);
    assert_eq!([500, 251, 250].map(|size| meter.colour(now, size, Green)), [Green, Red, Yellow]);
}

#[test]
fn settings_that_the_standards_refuse() {
    let (measure, mode) = (Measure::Octets, Mode::ColourBlind);
    let srtcm = SrTcm::new(SrTcmSettings { cir: 1, cbs: 0, ebs: 0, measure, mode });
    assert_eq!(srtcm.unwrap_err(), SettingsError::NoBurst);
    assert!(SrTcm::new(SrTcmSettings { cir: 1, cbs: 0, ebs: 1, measure, mode }).is_ok());
    let trtcm =
        |pir, pbs, cbs| TrTcm::new(TrTcmSettings { pir, pbs, cir: 5, cbs, measure, mode }).map(|_| ());
    assert_eq!(trtcm(4, 1, 1), Err(SettingsError::PeakBelowCommitted));
    assert_eq!(trtcm(5, 0, 1), Err(SettingsError::NoBurst));
    assert_eq!(trtcm(5, 1, 0), Err(SettingsError::NoBurst));
    assert_eq!(trtcm(5, 1, 1), Ok(()));
    let of_4115 =
        |cbs, ebs| TrTcm4115::new(TrTcm4115Settings { cir: 1, cbs, eir: 1, ebs, measure, mode }).map(|_| ());
    assert_eq!(of_4115(0, 1), Err(SettingsError::NoBurst));
    assert_eq!(of_4115(1, 0), Err(SettingsError::NoBurst));
}

#[test]
fn a_rate_in_nanoseconds_of_cryptography_is_a_share_of_a_processor() {
    // Half a processor: 0.5 s of cryptography each second. The packets cost 100 ns an octet.
    let (cir, measure, mode) = (SECOND / 2, Measure::Nanoseconds, Mode::ColourBlind);
    let settings = SrTcmSettings { cir, cbs: 150_000, ebs: 0, measure, mode };
    let mut meter = SrTcm::new(settings).unwrap();
    let mut green = 0;
    for number in 0..10_000_u64 {
        // 10,000 packets of 150 us each, sent in one second, are 1.5 processors.
        let entry = run(&mut meter, &at(number * 100_000), packet(1500));
        green += u64::from(entry.meta.colour == Green);
        assert_eq!(entry.verdict, Verdict::Pass);
    }
    // A third of them is within the rate: 0.5 s / 150 us.
    assert!((3333..=3335).contains(&green), "{green}");
    leaves_dropped_alone(&mut meter);
}

#[test]
fn a_meter_kept_to_some_aggregates_sees_no_others() {
    let settings =
        SrTcmSettings { cir: 0, cbs: 250, ebs: 0, measure: Measure::Octets, mode: Mode::ColourBlind };
    let set = AggregateSet::of(&[AggregateId(3), AggregateId(200)]);
    let mut meter = Only::new(set, SrTcm::new(settings).unwrap());
    let of = |aggregate| entry(Meta { aggregate: AggregateId(aggregate), ..packet(100) });
    let mut batch = [3, 4, 3, 200, 199, 67].map(of);
    meter.run(&mut batch, &at(0));
    assert_eq!(batch.map(|entry| entry.meta.colour), [Green, Green, Green, Red, Green, Green]);
    assert!(meter.about().settings.ends_with("for 2 aggregates"));
}

#[test]
fn ticks_are_exact_over_any_division_of_the_time() {
    let (mut fine, mut coarse) = (TokenClock::new(999_999_937), TokenClock::new(999_999_937));
    let ticks: u64 = (1..=1_000_000).map(|step| fine.advance(Time(step * 37))).sum();
    assert_eq!(ticks, coarse.advance(Time(37_000_000)));
    assert_eq!(ticks, 36_999_997);
}

#[test]
fn extreme_numbers_do_not_panic() {
    let mut clock = TokenClock::new(u64::MAX);
    assert_eq!(clock.advance(Time(u64::MAX)), u64::MAX);
    assert_eq!(clock.advance(Time(0)), 0);
    assert_eq!(clock.advance(Time(u64::MAX)), 0, "time that comes again brings nothing");
    let mut bucket = TokenBucket::new(u64::MAX, u64::MAX);
    assert!(bucket.take(Time(1), u64::MAX));
    assert!(!bucket.take(Time(1), 1));
    assert!(!bucket.take(Time(0), 1), "time that goes back brings nothing");
    assert!(bucket.take(Time(u64::MAX), u64::MAX), "five hundred years fill it");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_meter_panics(
        rates: [u64; 2],
        sizes: [u64; 2],
        aware: bool,
        packets in prop::collection::vec((any::<u64>(), any::<u64>(), 0_u8..3), 1..50),
    ) {
        let mode = if aware { Mode::ColourAware } else { Mode::ColourBlind };
        let [less, more] = [rates[0].min(rates[1]), rates[0].max(rates[1])];
        let [one, two] = sizes.map(|size| size.max(1));
        let measure = Measure::Octets;
        let mut srtcm = SrTcm::new(SrTcmSettings { cir: more, cbs: one, ebs: two, measure, mode }).unwrap();
        let trtcm = TrTcmSettings { pir: more, pbs: one, cir: less, cbs: two, measure, mode };
        let mut trtcm = TrTcm::new(trtcm).unwrap();
        let of_4115 = TrTcm4115Settings { cir: more, cbs: one, eir: less, ebs: two, measure, mode };
        let mut of_4115 = TrTcm4115::new(of_4115).unwrap();
        for (now, size, number) in packets {
            srtcm.colour(Time(now), size, colour(number));
            trtcm.colour(Time(now), size, colour(number));
            of_4115.colour(Time(now), size, colour(number));
        }
    }
}
