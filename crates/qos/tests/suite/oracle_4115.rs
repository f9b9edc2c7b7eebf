//! RFC 4115 section 3, Figure 1 transcribed: the token counts are incremented one by one. The meter agrees on random
//! packets. Where the text of the section differs from its figure, a test shows the one packet for which it matters.

use proptest::prelude::*;
use qos::behaviour::trtcm4115::TrTcm4115Settings;
use qos::behaviour::{Meter, Mode, TrTcm4115};
use qos::{Colour, Measure};
use wire::Time;

use crate::common::{Increments, colour};

struct Oracle {
    committed: Increments,
    excess: Increments,
    tc: u64,
    te: u64,
    settings: TrTcm4115Settings,
}

impl Oracle {
    fn new(settings: TrTcm4115Settings) -> Oracle {
        let (committed, excess) = (Increments::new(settings.cir), Increments::new(settings.eir));
        Oracle { committed, excess, tc: settings.cbs, te: settings.ebs, settings }
    }

    fn packet(&mut self, now: u64, b: u64, precolour: Colour) -> Colour {
        while self.committed.next(now) {
            self.tc = (self.tc + 1).min(self.settings.cbs);
        }
        while self.excess.next(now) {
            self.te = (self.te + 1).min(self.settings.ebs);
        }
        let blind = self.settings.mode == Mode::ColourBlind;
        if (blind || precolour == Colour::Green) && b <= self.tc {
            self.tc -= b;
            Colour::Green
        } else if (blind || precolour != Colour::Red) && b <= self.te {
            self.te -= b;
            Colour::Yellow
        } else {
            Colour::Red
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_meter_is_the_figure(
        cir in 0_u64..100_000,
        eir in 0_u64..100_000,
        cbs in 1_u64..6_000,
        ebs in 1_u64..6_000,
        aware: bool,
        packets in prop::collection::vec((0_u64..50_000_000, 0_u64..4_000, 0_u8..3), 1..200),
    ) {
        let mode = if aware { Mode::ColourAware } else { Mode::ColourBlind };
        let settings = TrTcm4115Settings { cir, cbs, eir, ebs, measure: Measure::Octets, mode };
        let (mut meter, mut oracle) = (TrTcm4115::new(settings).unwrap(), Oracle::new(settings));
        let mut now = 0;
        for (gap, size, number) in packets {
            now += gap;
            let expected = oracle.packet(now, size, colour(number));
            prop_assert_eq!(meter.colour(Time(now), size, colour(number)), expected, "at {}", now);
        }
    }
}

#[test]
fn the_last_token_may_be_taken_as_in_the_figure() {
    let mode = Mode::ColourAware;
    let settings = TrTcm4115Settings { cir: 0, cbs: 1500, eir: 0, ebs: 1500, measure: Measure::Octets, mode };
    let mut meter = TrTcm4115::new(settings).unwrap();
    // The text, "if Tc(t)- B > 0", would make the first one yellow and the second one red.
    assert_eq!(meter.colour(Time(0), 1500, Colour::Green), Colour::Green);
    assert_eq!(meter.colour(Time(0), 1500, Colour::Green), Colour::Yellow);
    assert_eq!(meter.colour(Time(0), 1, Colour::Green), Colour::Red);
}

#[test]
fn yellow_packets_do_not_starve_green_ones() {
    // Section 3: "the need to pass two conformance tests could make yellow traffic starve incoming in-profile green
    // packets" with the meter of RFC 2698, and not with this one.
    let (measure, mode) = (Measure::Octets, Mode::ColourAware);
    let settings = TrTcm4115Settings { cir: 1000, cbs: 1500, eir: 1000, ebs: 1500, measure, mode };
    let mut meter = TrTcm4115::new(settings).unwrap();
    let of_2698 =
        qos::behaviour::trtcm::TrTcmSettings { pir: 2000, pbs: 3000, cir: 1000, cbs: 1500, measure, mode };
    let mut of_2698 = qos::behaviour::TrTcm::new(of_2698).unwrap();
    for _ in 0..10 {
        meter.colour(Time(0), 1000, Colour::Yellow);
        of_2698.colour(Time(0), 1000, Colour::Yellow);
    }
    assert_eq!(meter.colour(Time(0), 1000, Colour::Green), Colour::Green);
    assert_eq!(of_2698.colour(Time(0), 1000, Colour::Green), Colour::Red);
}
