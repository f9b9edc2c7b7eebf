//! RFC 2697 section 3, transcribed: the token counts are incremented one by one. The meter agrees on random packets.

use proptest::prelude::*;
use qos::behaviour::srtcm::SrTcmSettings;
use qos::behaviour::{Meter, Mode, SrTcm};
use qos::{Colour, Measure};
use wire::Time;

use crate::common::{Increments, colour};

struct Oracle {
    increments: Increments,
    tc: u64,
    te: u64,
    settings: SrTcmSettings,
}

impl Oracle {
    fn new(settings: SrTcmSettings) -> Oracle {
        // "The token buckets C and E are initially (at time 0) full".
        Oracle { increments: Increments::new(settings.cir), tc: settings.cbs, te: settings.ebs, settings }
    }

    fn packet(&mut self, now: u64, b: u64, precolour: Colour) -> Colour {
        while self.increments.next(now) {
            if self.tc < self.settings.cbs {
                self.tc += 1;
            } else if self.te < self.settings.ebs {
                self.te += 1;
            }
        }
        match self.settings.mode {
            Mode::ColourBlind => {
                if self.tc as i128 - b as i128 >= 0 {
                    self.tc -= b;
                    Colour::Green
                } else if self.te as i128 - b as i128 >= 0 {
                    self.te -= b;
                    Colour::Yellow
                } else {
                    Colour::Red
                }
            }
            Mode::ColourAware => {
                if precolour == Colour::Green && self.tc as i128 - b as i128 >= 0 {
                    self.tc -= b;
                    Colour::Green
                } else if (precolour == Colour::Green || precolour == Colour::Yellow)
                    && self.te as i128 - b as i128 >= 0
                {
                    self.te -= b;
                    Colour::Yellow
                } else {
                    Colour::Red
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_meter_is_the_text(
        cir in 0_u64..200_000,
        cbs in 0_u64..6_000,
        ebs in 1_u64..6_000,
        aware: bool,
        packets in prop::collection::vec((0_u64..50_000_000, 0_u64..4_000, 0_u8..3), 1..200),
    ) {
        let mode = if aware { Mode::ColourAware } else { Mode::ColourBlind };
        let settings = SrTcmSettings { cir, cbs, ebs, measure: Measure::Octets, mode };
        let (mut meter, mut oracle) = (SrTcm::new(settings).unwrap(), Oracle::new(settings));
        let mut now = 0;
        for (gap, size, number) in packets {
            now += gap;
            let expected = oracle.packet(now, size, colour(number));
            prop_assert_eq!(meter.colour(Time(now), size, colour(number)), expected, "at {}", now);
        }
    }
}
