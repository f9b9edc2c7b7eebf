//! RFC 2698 section 3, transcribed: the token counts are incremented one by one. The meter agrees on random packets.

use proptest::prelude::*;
use qos::behaviour::trtcm::TrTcmSettings;
use qos::behaviour::{Meter, Mode, TrTcm};
use qos::{Colour, Measure};
use wire::Time;

use crate::common::{Increments, colour};

struct Oracle {
    peak: Increments,
    committed: Increments,
    tp: u64,
    tc: u64,
    settings: TrTcmSettings,
}

impl Oracle {
    fn new(settings: TrTcmSettings) -> Oracle {
        let (peak, committed) = (Increments::new(settings.pir), Increments::new(settings.cir));
        Oracle { peak, committed, tp: settings.pbs, tc: settings.cbs, settings }
    }

    fn packet(&mut self, now: u64, b: u64, precolour: Colour) -> Colour {
        while self.peak.next(now) {
            if self.tp < self.settings.pbs {
                self.tp += 1;
            }
        }
        while self.committed.next(now) {
            if self.tc < self.settings.cbs {
                self.tc += 1;
            }
        }
        let aware = self.settings.mode == Mode::ColourAware;
        if (aware && precolour == Colour::Red) || (self.tp as i128 - b as i128) < 0 {
            Colour::Red
        } else if (aware && precolour == Colour::Yellow) || (self.tc as i128 - b as i128) < 0 {
            self.tp -= b;
            Colour::Yellow
        } else {
            self.tp -= b;
            self.tc -= b;
            Colour::Green
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_meter_is_the_text(
        cir in 0_u64..100_000,
        more in 0_u64..100_000,
        cbs in 1_u64..6_000,
        pbs in 1_u64..6_000,
        aware: bool,
        packets in prop::collection::vec((0_u64..50_000_000, 0_u64..4_000, 0_u8..3), 1..200),
    ) {
        let mode = if aware { Mode::ColourAware } else { Mode::ColourBlind };
        let settings = TrTcmSettings { pir: cir + more, pbs, cir, cbs, measure: Measure::Octets, mode };
        let (mut meter, mut oracle) = (TrTcm::new(settings).unwrap(), Oracle::new(settings));
        let mut now = 0;
        for (gap, size, number) in packets {
            now += gap;
            let expected = oracle.packet(now, size, colour(number));
            prop_assert_eq!(meter.colour(Time(now), size, colour(number)), expected, "at {}", now);
        }
    }
}
