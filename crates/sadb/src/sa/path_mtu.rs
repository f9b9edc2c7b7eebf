//! The path MTU of an outbound association. Its upper bound is what the operator allows and the route to the peer
//! takes. Below that lies soft state that ICMP errors lower and time raises again (RFC 4301 section 8.2, RFC 1191
//! section 6.3, RFC 8201 section 5.3).
//!
//! This module only handles errors that are believed; the decision whether to believe one is made elsewhere.

use std::time::Duration;

use wire::Time;

/// The least path MTU over IPv4, in octets: every host takes datagrams of this size (RFC 791 section 3.1).
pub const MIN_PATH_MTU_V4: u16 = 576;
/// The least path MTU over IPv6, in octets (RFC 8200 section 5).
pub const MIN_PATH_MTU_V6: u16 = 1280;

/// The MTUs of common links in octets, largest first (RFC 1191 table 7-1, as far as it lies above the floor). They
/// serve for routers that do not say their MTU.
const PLATEAUS: [u16; 8] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 576];

/// The bounds of what may be learned about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtuLimits {
    /// The least path MTU over IPv4 in octets; 576 or more.
    pub floor_v4: u16,
    /// The time for which a learned MTU is believed.
    pub age: Duration,
}

impl Default for PathMtuLimits {
    /// The defaults: 576 octets, ten minutes (RFC 1191 section 6.3).
    fn default() -> PathMtuLimits {
        PathMtuLimits { floor_v4: MIN_PATH_MTU_V4, age: Duration::from_secs(600) }
    }
}

/// The result of taking in an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMtuUpdate {
    /// The error said a smaller MTU than the one in force.
    Lowered,
    /// The error confirmed the MTU in force, which is believed for longer.
    Confirmed,
    /// The error said nothing new: the path was known to be as narrow already.
    Nothing,
    /// The error contradicts itself: the packet would have fitted, or no link is as narrow.
    Implausible,
}

/// The path MTU of one association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// The largest MTU that the operator allows.
    most: u16,
    /// The MTU of the route to the peer; [`u16::MAX`]: nobody has said.
    route: u16,
    in_force: u16,
    /// The time at which the value in force was last confirmed; `None`: it is the configured one.
    learned: Option<Time>,
}

impl PathMtu {
    /// A path about which nothing is learned and whose route is not known; the operator allows `most` octets.
    pub fn new(most: u16) -> PathMtu {
        PathMtu { most, route: u16::MAX, in_force: most, learned: None }
    }

    /// The size in octets of the largest outer packet at present.
    pub fn in_force(&self) -> u16 {
        self.in_force
    }

    /// The MTU where nothing is learned: that of the route, if the operator allows as much.
    pub fn configured(&self) -> u16 {
        self.most.min(self.route)
    }

    /// The largest MTU that the operator allows; [`u16::MAX`]: whatever the route takes.
    pub fn most(&self) -> u16 {
        self.most
    }

    /// Take in that the route to the peer carries `mtu` octets from now on. What was learned about another way is
    /// forgotten. Returns whether the value in force changes.
    pub fn follow(&mut self, mtu: u16, v4: bool) -> bool {
        let mtu = mtu.max(if v4 { MIN_PATH_MTU_V4 } else { MIN_PATH_MTU_V6 });
        if mtu == self.route {
            return false;
        }
        let before = self.in_force;
        self.route = mtu;
        self.forget();
        self.in_force != before
    }

    /// The time at which the value in force was last confirmed; `None`: nothing is learned.
    pub fn learned(&self) -> Option<Time> {
        self.learned
    }

    /// Take in an error: a packet of `packet` octets did not fit, and only `mtu` octets go through. An `mtu` of zero
    /// means that the error does not say. `v4` tells that the outer packets are of IPv4.
    pub fn hear(
        &mut self,
        now: Time,
        mtu: u32,
        packet: usize,
        v4: bool,
        limits: &PathMtuLimits,
    ) -> PathMtuUpdate {
        let packet = u32::try_from(packet).unwrap_or(u32::MAX);
        let mtu = match mtu {
            0 if v4 => match PLATEAUS.iter().map(|mtu| u32::from(*mtu)).find(|mtu| *mtu < packet) {
                Some(mtu) => mtu,
                None => return PathMtuUpdate::Implausible,
            },
            said => said,
        };
        // RFC 791 section 3.2, RFC 8201 section 4.
        let least = if v4 { 68 } else { u32::from(MIN_PATH_MTU_V6) };
        if mtu < least || mtu >= packet {
            return PathMtuUpdate::Implausible;
        }
        let floor = if v4 { limits.floor_v4.max(MIN_PATH_MTU_V4) } else { MIN_PATH_MTU_V6 };
        // A path that is narrower than the floor is one that the operator does not believe in.
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX).max(floor);
        match mtu.cmp(&self.in_force) {
            std::cmp::Ordering::Less => {
                (self.in_force, self.learned) = (mtu, Some(now));
                PathMtuUpdate::Lowered
            }
            std::cmp::Ordering::Equal if self.learned.is_some() => {
                self.learned = Some(now);
                PathMtuUpdate::Confirmed
            }
            // Never raised by an error (RFC 8201 section 4).
            _ => PathMtuUpdate::Nothing,
        }
    }

    /// Take in the proof of our probes that packets of `mtu` octets arrive, and that longer ones are not known to (RFC
    /// 8899). This raises and lowers the value in force, never beyond what is configured nor below the floor. A value
    /// that is said again is believed for longer. Returns whether the value in force changes.
    pub fn prove(&mut self, now: Time, mtu: u16, v4: bool, limits: &PathMtuLimits) -> bool {
        let floor = if v4 { limits.floor_v4.max(MIN_PATH_MTU_V4) } else { MIN_PATH_MTU_V6 };
        let before = self.in_force;
        self.in_force = mtu.max(floor).min(self.configured());
        self.learned = (self.in_force < self.configured()).then_some(now);
        self.in_force != before
    }

    /// Forget what was learned too long before `now`; returns whether there was such.
    pub fn age(&mut self, now: Time, limits: &PathMtuLimits) -> bool {
        let old = self.learned.is_some_and(|at| now.since(at) >= limits.age);
        if old {
            self.forget();
        }
        old
    }

    /// Forget what was learned.
    pub fn forget(&mut self) {
        (self.in_force, self.learned) = (self.configured(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PathMtuLimits = PathMtuLimits { floor_v4: 576, age: Duration::from_secs(600) };
    const AT: Time = Time::from_secs(50);

    #[test]
    fn it_falls_at_once_and_comes_back_after_its_time() {
        let mut path = PathMtu::new(1500);
        assert_eq!(path.hear(AT, 1400, 1500, true, &LIMITS), PathMtuUpdate::Lowered);
        assert_eq!((path.in_force(), path.configured(), path.learned()), (1400, 1500, Some(AT)));
        assert_eq!(path.hear(AT, 1300, 1400, true, &LIMITS), PathMtuUpdate::Lowered);
        // Heard again a second before its end: it counts from there.
        let later = Time::from_secs(649);
        assert!(!path.age(later, &LIMITS));
        assert_eq!(path.hear(later, 1300, 1500, true, &LIMITS), PathMtuUpdate::Confirmed);
        assert!(!path.age(Time::from_secs(1248), &LIMITS));
        assert!(path.age(Time::from_secs(1249), &LIMITS));
        assert_eq!(path, PathMtu::new(1500));
        assert!(!path.age(Time::from_secs(9999), &LIMITS), "there is nothing to forget");
    }

    #[test]
    fn it_follows_the_route_within_what_is_allowed() {
        let mut path = PathMtu::new(u16::MAX);
        assert!(path.follow(1500, true) && !path.follow(1500, true));
        assert_eq!((path.in_force(), path.configured(), path.most()), (1500, 1500, u16::MAX));
        // Another way: what was learned about the one before is nothing worth.
        assert_eq!(path.hear(AT, 1300, 1500, true, &LIMITS), PathMtuUpdate::Lowered);
        assert!(path.follow(9000, true));
        assert_eq!((path.in_force(), path.learned()), (9000, None));
        assert!(path.follow(1280, true));
        assert_eq!(path.hear(AT, 1300, 1500, true, &LIMITS), PathMtuUpdate::Nothing);
        // Never narrower than any link of the family is.
        assert!(path.follow(100, true) && path.in_force() == 576);
        assert!(path.follow(1200, false) && path.in_force() == 1280);
        let mut path = PathMtu::new(1400);
        assert!(!path.follow(1500, true) && path.follow(1300, true) && path.follow(9000, true));
        assert_eq!((path.in_force(), path.configured(), path.most()), (1400, 1400, 1400));
    }

    #[test]
    fn probes_raise_and_lower_it_within_its_bounds() {
        let mut path = PathMtu::new(1500);
        assert!(path.prove(AT, 1280, true, &LIMITS));
        assert_eq!((path.in_force(), path.learned()), (1280, Some(AT)));
        // Said again: it counts from there.
        let later = Time::from_secs(649);
        assert!(!path.prove(later, 1280, true, &LIMITS));
        assert!(!path.age(Time::from_secs(1248), &LIMITS));
        assert!(path.prove(later, 1400, true, &LIMITS) && path.in_force() == 1400);
        assert!(path.prove(later, 9000, true, &LIMITS));
        assert_eq!(
            (path.in_force(), path.learned()),
            (1500, None),
            "all that is configured: nothing is learned"
        );
        assert!(path.prove(AT, 100, true, &LIMITS) && path.in_force() == 576);
        let mut path = PathMtu::new(1500);
        assert!(path.prove(AT, 100, false, &LIMITS) && path.in_force() == 1280);
        // What is configured is less than the floor.
        let mut path = PathMtu::new(500);
        assert!(!path.prove(AT, 576, true, &LIMITS) && path.in_force() == 500);
    }

    #[test]
    fn an_error_never_raises_it() {
        let mut path = PathMtu::new(1400);
        assert_eq!(path.hear(AT, 1450, 1500, true, &LIMITS), PathMtuUpdate::Nothing);
        assert_eq!(path.hear(AT, 1400, 1500, true, &LIMITS), PathMtuUpdate::Nothing);
        assert_eq!(path.hear(AT, 1300, 1400, true, &LIMITS), PathMtuUpdate::Lowered);
        assert_eq!(path.hear(AT, 1399, 1400, true, &LIMITS), PathMtuUpdate::Nothing);
        assert_eq!(path.in_force(), 1300);
    }

    #[test]
    fn the_impossible_is_refused_and_the_narrow_stops_at_the_floor() {
        let mut path = PathMtu::new(1500);
        for mtu in [1, 67, 1500, 1501, 70_000] {
            assert_eq!(path.hear(AT, mtu, 1500, true, &LIMITS), PathMtuUpdate::Implausible, "{mtu}");
        }
        for mtu in [0, 68, 1279, 1500] {
            assert_eq!(path.hear(AT, mtu, 1500, false, &LIMITS), PathMtuUpdate::Implausible, "{mtu}");
        }
        assert_eq!(path, PathMtu::new(1500));
        assert_eq!(path.hear(AT, 68, 1500, true, &LIMITS), PathMtuUpdate::Lowered);
        assert_eq!(path.in_force(), 576);
        let mut path = PathMtu::new(1500);
        let limits = PathMtuLimits { floor_v4: 1200, ..LIMITS };
        assert_eq!(path.hear(AT, 600, 1500, true, &limits), PathMtuUpdate::Lowered);
        assert_eq!(path.in_force(), 1200);
        let mut path = PathMtu::new(1500);
        assert_eq!(path.hear(AT, 1280, 1500, false, &limits), PathMtuUpdate::Lowered);
        assert_eq!(path.in_force(), 1280);
    }

    #[test]
    fn routers_that_say_nothing_are_guessed_at() {
        let mut path = PathMtu::new(1500);
        for (packet, want) in [(1500, 1492), (1492, 1006), (1000, 576)] {
            assert_eq!(path.hear(AT, 0, packet, true, &LIMITS), PathMtuUpdate::Lowered);
            assert_eq!(path.in_force(), want);
        }
        assert_eq!(path.hear(AT, 0, 576, true, &LIMITS), PathMtuUpdate::Implausible);
    }
}
