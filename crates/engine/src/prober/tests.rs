use super::*;

/// A path, its peer and the owner of a prober, in a time of their own.
struct World {
    prober: Prober,
    now: Time,
    /// The longest packet that does not vanish, in octets.
    carries: u16,
    in_force: u16,
    configured: u16,
    floor: u16,
    /// Whether long packets are sent, and whether something comes back.
    sends: (bool, bool),
    /// Whether the peer is one of ours.
    answers: bool,
    round_trip: Duration,
    under_way: Vec<(Time, u64)>,
    tokens: u64,
    /// All probes that were sent, and all path MTUs in force, one after the other.
    probes: Vec<(Time, u16)>,
    used: Vec<(Time, u16)>,
}

impl World {
    fn new(carries: u16, v6: bool) -> World {
        World {
            prober: Prober::default(),
            now: Time::from_secs(100),
            carries,
            in_force: 1500,
            configured: 1500,
            floor: if v6 { 1280 } else { 576 },
            sends: (true, true),
            answers: true,
            round_trip: Duration::from_millis(20),
            under_way: Vec::new(),
            tokens: 0,
            probes: Vec::new(),
            used: Vec::new(),
        }
    }

    fn turn(&mut self) {
        let arrived: Vec<u64> =
            self.under_way.iter().filter(|(at, _)| *at <= self.now).map(|(_, token)| *token).collect();
        self.under_way.retain(|(at, _)| *at > self.now);
        for token in arrived {
            self.prober.answered(token, self.now);
        }
        let (long, back) = self.sends;
        let (in_force, configured, floor) = (self.in_force, self.configured, self.floor);
        let seen = PathReport { in_force, configured, floor, lengths: (60, 4), long, back };
        let tokens = &mut self.tokens;
        let mut token = || {
            *tokens += 1;
            *tokens
        };
        for act in self.prober.turn(self.now, &seen, &mut token) {
            match act {
                Act::Send { token, size } => {
                    self.probes.push((self.now, size));
                    if self.answers && size <= self.carries {
                        self.under_way.push((self.now + self.round_trip, token));
                    }
                }
                Act::Use(mtu) => {
                    if mtu != self.in_force {
                        self.used.push((self.now, mtu));
                    }
                    self.in_force = mtu;
                }
            }
        }
    }

    /// Advance by so many seconds, as the owner does: half a second from turn to turn, less where one is due.
    fn pass(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.turn();
            let next = self.prober.next_turn(self.now).unwrap_or(Time(u64::MAX));
            self.now = next.min(self.now + Duration::from_millis(500));
        }
    }

    fn sent(&self) -> usize {
        self.probes.len()
    }
}

#[test]
fn a_path_that_carries_all_is_left_alone_and_asked_now_and_then() {
    let mut world = World::new(1500, false);
    world.pass(60);
    assert_eq!((world.in_force, world.prober.eaten_since()), (1500, None));
    assert!(world.prober.is_answered());
    // Three probes every two seconds.
    assert!((60..=93).contains(&world.sent()), "{}", world.sent());
    // Nobody sends anything long: silence.
    let before = world.sent();
    world.sends = (false, true);
    world.pass(600);
    assert_eq!(world.sent(), before);
}

#[test]
fn a_black_hole_is_left_within_two_seconds_and_its_size_found() {
    for (carries, v6) in [(1400, false), (1281, true), (1499, true), (1300, false), (1280, true)] {
        let mut world = World::new(1500, v6);
        world.pass(20);
        assert_eq!(world.in_force, 1500);
        // From now on; the sender hears no more of what it sends.
        let begun = world.now;
        (world.carries, world.sends) = (carries, (true, false));
        world.pass(10);
        let (first, mtu) = world.used[0];
        assert!(mtu <= carries && first.since(begun) <= Duration::from_secs(2), "{:?}", world.used);
        assert!(world.in_force <= carries && world.in_force + NEAR >= carries, "{:?}", world.used);
        assert_eq!(world.prober.eaten_since(), None, "it is found");
        // It is larger again.
        (world.carries, world.sends) = (1500, (true, true));
        world.pass(60);
        assert_eq!(world.in_force, 1500, "{:?}", world.used);
    }
}

#[test]
fn a_path_narrower_than_its_base_is_found_over_ipv4() {
    for carries in [576, 600, 1000, 1279] {
        let mut world = World::new(carries, false);
        world.pass(30);
        assert!(world.in_force <= carries && world.in_force + NEAR >= carries, "{carries}: {:?}", world.used);
        assert_eq!(world.prober.eaten_since(), None);
    }
}

#[test]
fn what_no_size_passes_is_said_until_it_does() {
    for (carries, v6) in [(1200, true), (300, false)] {
        let mut world = World::new(1500, v6);
        world.pass(20);
        world.carries = carries;
        world.sends = (true, false);
        world.pass(20);
        let since = world.prober.eaten_since().expect("nothing long arrives");
        assert!(since.since(Time::from_secs(120)) <= Duration::from_secs(5));
        assert_eq!(world.in_force, world.floor);
        // Said until it is so no longer.
        world.pass(100);
        assert_eq!(world.prober.eaten_since(), Some(since));
        world.carries = 1500;
        world.pass(8);
        assert_eq!((world.prober.eaten_since(), world.in_force), (None, 1500));
    }
}

#[test]
fn whoever_gave_up_is_told_nothing() {
    let mut world = World::new(1500, true);
    world.pass(5);
    world.carries = 1000;
    world.pass(20);
    assert!(world.prober.eaten_since().is_some());
    world.sends = (false, false);
    world.pass(299);
    assert!(world.prober.eaten_since().is_some());
    world.pass(20);
    assert_eq!(world.prober.eaten_since(), None);
}

#[test]
fn a_peer_that_does_not_answer_is_left_alone_and_nothing_is_learned_of_its_path() {
    let mut world = World::new(1300, false);
    world.answers = false;
    world.pass(3600);
    assert_eq!((world.in_force, world.prober.eaten_since()), (1500, None));
    // 2, 4, 8 seconds and so on up to ten minutes, three probes each.
    assert!(world.sent() <= 3 * 15, "{}", world.sent());
    // A new route is no reason to ask more often.
    let before = world.sent();
    (world.in_force, world.configured) = (9000, 9000);
    world.pass(300);
    assert!(world.sent() <= before + 3);
}

#[test]
fn a_peer_that_is_down_loses_nothing_of_its_path() {
    let mut world = World::new(1500, false);
    world.pass(20);
    world.answers = false;
    world.pass(100);
    assert_eq!((world.in_force, world.prober.eaten_since(), world.used.len()), (1500, None, 0));
}

#[test]
fn lost_packets_are_no_black_hole_as_long_as_one_long_one_in_three_arrives() {
    let mut world = World::new(1500, false);
    world.pass(11);
    for _ in 0..20 {
        // Two rounds lose the long one, the third does not.
        let sent = world.sent();
        world.carries = 1400;
        while world.sent() < sent + 6 {
            world.pass(1);
            if world.sent() >= sent + 3 {
                break;
            }
        }
        world.carries = 1500;
        world.pass(12);
    }
    assert_eq!(world.in_force, 1500, "{:?}", world.used);
}

#[test]
fn what_an_error_lowered_is_tried_again_and_later_each_time() {
    let mut world = World::new(1400, false);
    world.in_force = 1400;
    world.pass(3600);
    // What is between is not larger by much.
    assert!(world.in_force >= 1400 - NEAR && world.in_force <= 1400);
    let tries: Vec<Time> = world.probes.iter().filter(|(_, size)| *size == 1500).map(|(at, _)| *at).collect();
    assert!((6..=14).contains(&tries.len()), "{tries:?}");
    let waits: Vec<Duration> = tries.windows(2).map(|two| two[1].since(two[0])).collect();
    assert!(waits.windows(2).all(|two| two[0] <= two[1] + Duration::from_secs(1)), "{waits:?}");
    world.carries = 1500;
    world.pass(1300);
    assert_eq!(world.in_force, 1500);
}

#[test]
fn the_route_or_another_association_change_the_path_under_it() {
    let mut world = World::new(1300, false);
    world.pass(20);
    let found = world.in_force;
    assert!((1284..=1300).contains(&found));
    // One that was added since has the route's: it gets what was found at once, without another search.
    let sent = world.sent();
    world.in_force = 1500;
    world.turn();
    assert_eq!((world.in_force, world.sent()), (found, sent));
    // Another route: all begins again.
    (world.in_force, world.configured, world.carries) = (9000, 9000, 9000);
    world.pass(20);
    assert_eq!(world.in_force, 9000);
    world.carries = 4000;
    world.sends = (true, false);
    world.pass(20);
    assert!((4000 - NEAR..=4000).contains(&world.in_force), "{:?}", world.used);
}

#[test]
fn what_is_forgotten_while_nobody_sends_stays_forgotten() {
    let mut world = World::new(1300, false);
    world.pass(20);
    assert!(world.in_force <= 1300);
    world.sends = (false, false);
    world.pass(20);
    world.in_force = 1500;
    let sent = world.sent();
    world.pass(60);
    assert_eq!((world.in_force, world.sent()), (1500, sent));
    // Whoever sends then finds the narrow place anew.
    world.sends = (true, false);
    world.pass(10);
    assert!(world.in_force <= 1300, "{:?}", world.used);
}

#[test]
fn answers_that_are_late_or_foreign_say_nothing() {
    let mut world = World::new(1500, false);
    world.turn();
    let sent = world.sent();
    assert_eq!(sent, 3);
    world.under_way.clear();
    world.prober.answered(77, world.now);
    world.now = world.now + Duration::from_secs(2);
    world.turn();
    assert!(!world.prober.is_answered());
    // Of the round that is over.
    world.prober.answered(1, world.now);
    assert!(!world.prober.is_answered() && world.in_force == 1500);
}
