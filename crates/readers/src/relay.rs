//! A middle in which another scrubber takes over after every packet. The state of the last one goes to it as octets.

use crate::middlebox::{Middlebox, Packets, Scrubbed};
use crate::packet::Scene;
use scrub::{Config, Feed, Saved, Scrubber, Side};
use wire::Time;

const SEED: [u8; 16] = [7; 16];

/// The kind of scrubber that takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relay {
    /// A successor on the same machine, which gets everything.
    Successor,
    /// A standby that was told of each connection when it changed, with the octets in store.
    Standby,
    /// A standby that was told where connections are, and no octets.
    ColdStandby,
}

impl Relay {
    /// All kinds that there are.
    pub const ALL: [Relay; 3] = [Relay::Successor, Relay::Standby, Relay::ColdStandby];

    /// The word for the kind in commands.
    pub const fn name(self) -> &'static str {
        match self {
            Relay::Successor => "successor",
            Relay::Standby => "standby",
            Relay::ColdStandby => "cold-standby",
        }
    }
}

/// A middle whose scrubber is replaced after every packet, in the case of a standby once a connection is established.
#[derive(Debug)]
pub struct Relayed {
    relay: Relay,
    config: Config,
    scrubbed: Scrubbed,
    saved: Vec<u8>,
}

impl Relayed {
    /// A middle with this kind of successor and this configuration.
    pub fn new(relay: Relay, mut config: Config) -> Relayed {
        config.feed = match relay {
            Relay::Successor => Feed::Off,
            Relay::Standby => Feed::Octets,
            Relay::ColdStandby => Feed::Positions,
        };
        Relayed { relay, scrubbed: Scrubbed::new(config.clone()), config, saved: Vec::new() }
    }

    fn take_over(&mut self, now: Time) {
        let mut next = Scrubber::new(self.config.clone(), SEED);
        let last = self.scrubbed.scrubber_mut();
        if self.relay == Relay::Successor {
            self.saved.clear();
            last.save(now, &mut self.saved);
            let saved = Saved::check(&self.saved).expect("what was just saved");
            let restored = next.restore(now, &saved, |_| true);
            assert_eq!(restored.lost, 0);
        } else {
            let established = last.connections().len() - last.connections().half_open();
            if established == 0 {
                return;
            }
            last.tell_all();
            while let Some(record) = last.poll_news(now) {
                assert!(next.apply(now, &record));
            }
        }
        *last = next;
    }
}

impl Middlebox for Relayed {
    fn begin(&mut self, scene: &mut Scene) {
        self.scrubbed = Scrubbed::new(self.config.clone());
        self.scrubbed.begin(scene);
    }

    fn pass(&mut self, from: Side, packet: &[u8], inside: &mut Packets) {
        self.scrubbed.pass(from, packet, inside);
        self.take_over(self.scrubbed.now());
    }
}
