//! Properties that hold for any conversation.

use crate::kit;

use kit::World;
use kit::traces::conversation;
use proptest::prelude::*;
use scrub::{Config, Midstream, Mode, Outcome, Profile, Protect, Rule, Side};
use std::time::Duration;

fn config(profile: Profile, both: bool, pick_up: bool) -> Config {
    let mut config = Config::new(profile);
    // Whoever is told that a packet is too big hears of one that the second scrubber never sees.
    config.mtu = [65535; 2];
    config.protect = if both { Protect::Both } else { Protect::Inside };
    config.midstream = if pick_up { Midstream::PickUp } else { Midstream::Drop };
    config
}

proptest! {
    /// Segments that take the short way get what the long way gives them. Without rule T.2 nothing takes the short way,
    /// and where all checksums are right the rule has nothing to say.
    #[test]
    fn the_short_way_gives_what_the_long_way_gives(
        trace in conversation(),
        both in any::<bool>(),
        pick_up in any::<bool>(),
        profile in prop::sample::select(&[Profile::Minimal, Profile::Standard, Profile::Strict]),
        memory in prop_oneof![Just(1_usize << 20), 0_usize..20_000],
    ) {
        let [mut short, mut long] = [Mode::On, Mode::Off].map(|mode| {
            let mut config = config(profile, both, pick_up);
            config.set_mode(Rule::TcpChecksum, mode).expect("it may be off");
            config.store.memory = memory;
            World::new(config)
        });
        for (segment, wait) in trace {
            prop_assert_eq!(short.pass(&segment), long.pass(&segment));
            prop_assert_eq!(short.own(), long.own());
            let (a, b) = (short.scrubber.connections(), long.scrubber.connections());
            prop_assert_eq!((a.len(), a.half_open()), (b.len(), b.half_open()));
            prop_assert_eq!(a.stored(), b.stored());
            short.wait(Duration::from_secs(wait));
            long.wait(Duration::from_secs(wait));
        }
    }

    /// A scrubber that only observes changes nothing, drops nothing and says nothing.
    #[test]
    fn observing_changes_nothing(trace in conversation(), both in any::<bool>(), pick_up in any::<bool>()) {
        let mut world = World::new(config(Profile::Observe, both, pick_up));
        for (segment, wait) in trace {
            let before = segment.packet(world.isn);
            let out = world.pass(&segment);
            prop_assert_eq!((out.outcome, out.acted.is_empty()), (Outcome::Forward, true));
            prop_assert_eq!(out.bytes, before);
            prop_assert!(world.own().is_empty());
            world.wait(Duration::from_secs(wait));
        }
    }

    /// A scrubbed conversation is clean: to scrub it again changes nothing, drops nothing and adds nothing.
    #[test]
    fn scrubbing_again_changes_nothing(
        trace in conversation(),
        profile in prop::sample::select(&[Profile::Minimal, Profile::Standard, Profile::Strict]),
        both in any::<bool>(),
        pick_up in any::<bool>(),
        memory in prop_oneof![Just(1_usize << 20), 0_usize..20_000],
    ) {
        let mut config = config(profile, both, pick_up);
        config.store.memory = memory;
        let (mut once, mut again) = (World::new(config.clone()), World::new(config));
        for (segment, wait) in trace {
            let out = once.pass(&segment);
            let mut clean: Vec<(Side, Vec<u8>)> =
                once.own().into_iter().map(|(to, out)| (to.other(), out.bytes)).collect();
            if out.outcome == Outcome::Forward {
                clean.push((segment.from, out.bytes));
            }
            for (from, bytes) in clean {
                let out = again.pass_bytes(from, &bytes);
                prop_assert_eq!((out.outcome, &out.acted), (Outcome::Forward, &Vec::new()), "{:?}", out);
                prop_assert_eq!(&out.bytes, &bytes);
                prop_assert!(again.own().is_empty());
            }
            once.wait(Duration::from_secs(wait));
            again.wait(Duration::from_secs(wait));
        }
    }
}
