//! Profiles of users from the text of a graph to the packets that leave: weight, limit and class, in simulated time.

use std::collections::BTreeMap;

use qos::graph::description::{Description, HookPoint};
use qos::graph::kinds::Kind;
use qos::graph::{House, PRESETS, check, print, read};
use qos::{Amount, Cause, Meta};
use wire::AppId;

use crate::running::{BE, US, Works, graph, house_of, of_dscp, of_preset};

const MS: u64 = 1_000 * US;
pub const SECOND: u64 = 1_000 * MS;

/// A gateway that knows three applications, on which a packet costs 10 us and a nanosecond for each octet.
pub fn house() -> House {
    let applications = [("web", 1), ("backup", 2), ("phone", 3)];
    let applications = applications.map(|(name, number)| (name.to_owned(), number)).to_vec();
    House { applications, ..house_of(10 * US, 8) }
}

/// Who sends packets of this size, and how much of the processor it asks for.
#[derive(Clone, Copy)]
pub struct Sender {
    pub app: u16,
    octets: u64,
    /// The time between two packets.
    every: u64,
}

impl Sender {
    /// A sender that asks for ten times the processor.
    pub fn flood(app: u16, octets: u64) -> Sender {
        Sender { app, octets, every: (10 * US + octets) / 10 }
    }

    pub fn meta(self) -> Meta {
        let amount = Amount { packets: 1, octets: self.octets, ns: 10 * US + self.octets };
        let number = u32::from(self.app);
        Meta { amount, app: AppId(self.app), association: number, user: number, ..of_dscp(BE, 0) }
    }
}

/// The nanoseconds of the processor that each sender got in this time.
fn served(works: &mut Works, senders: &[Sender], time: u64) -> BTreeMap<u16, u64> {
    served_as(works, senders, time, Sender::meta)
}

/// The same for senders whose packets are these.
pub fn served_as(
    works: &mut Works,
    senders: &[Sender],
    time: u64,
    meta: impl Fn(Sender) -> Meta,
) -> BTreeMap<u16, u64> {
    let mut next: Vec<u64> = senders.iter().map(|sender| works.now + sender.every).collect();
    let mut served = BTreeMap::new();
    let end = works.now + time;
    while works.now < end {
        for (sender, next) in senders.iter().zip(&mut next) {
            while *next <= works.now {
                works.offer(*next, meta(*sender));
                *next += sender.every;
            }
        }
        works.forward();
        match works.given.first() {
            Some(given) => {
                *served.entry(given.meta.app.0).or_insert(0) += given.budget.ns;
                works.finish(0);
            }
            None => works.now = next.iter().copied().min().unwrap(),
        }
    }
    served
}

pub fn near(found: u64, expected: u64, percent: u64) -> bool {
    found.abs_diff(expected) <= expected * percent / 100
}

/// A graph of one class whose users are applications.
fn fair(profiles: &str) -> String {
    format!(
        "[class.rest]\nmatch = \"rest\"\nlimit = {{ packets = 300, time = \"20ms\" }}\n\
         fair = \"application\"\nprofiles = [{profiles}]\n\
         [class.low]\nmatch = \"named\"\nlimit = {{ packets = 300, time = \"20ms\" }}\nfair = \"application\"\n"
    )
}

#[test]
fn users_of_weights_one_two_and_four_get_shares_one_two_and_four_of_the_processor() {
    let text = fair(
        "{ name = \"gold\", users = [\"phone\"], weight = 4 }, { name = \"silver\", users = [\"backup\"], weight = 2 }",
    );
    let mut works = Works::new(graph(&text, &house()));
    // The packets of each cost another time, and the octets of the shares are far from one to two to four.
    let senders = [Sender::flood(1, 1_400), Sender::flood(2, 100), Sender::flood(3, 700)];
    let served = served(&mut works, &senders, SECOND);
    for (app, weight) in [(1, 1), (2, 2), (3, 4)] {
        assert!(near(served[&app], SECOND * weight / 7, 2), "{served:?}");
    }
    assert!(works.ended.iter().all(|ended| ended.cause == Cause::QueueFull));
}

#[test]
fn without_profiles_users_have_equal_shares_of_the_processor() {
    let preset = of_preset("fair", &house());
    let plain = graph(&fair(""), &house());
    for graph in [preset, plain] {
        let mut works = Works::new(graph);
        let senders = [Sender::flood(1, 1_400), Sender::flood(2, 100), Sender::flood(3, 40)];
        let served = served(&mut works, &senders, SECOND / 2);
        assert!(served.values().all(|ns| near(*ns, SECOND / 6, 2)), "{served:?}");
    }
}

#[test]
fn a_user_with_a_limit_gets_its_rate_and_no_more_and_others_are_untouched() {
    let limit = "limit = { rate = \"20%\", burst = \"1ms\" }";
    let text = fair(&format!("{{ name = \"capped\", users = [\"backup\"], {limit} }}"));
    let mut works = Works::new(graph(&text, &house()));
    // The one with the limit floods; another one takes half of the processor, and the rest is idle.
    let calm = Sender { app: 3, octets: 200, every: 2 * 10_200 };
    let senders = [Sender::flood(2, 1_000), calm];
    let served = served(&mut works, &senders, SECOND);
    assert!(served[&2] <= SECOND / 5 + MS && near(served[&2], SECOND / 5, 1), "{served:?}");
    assert!(near(served[&3], SECOND / 2, 1), "{served:?}");
    assert!(works.ended.iter().all(|ended| ended.cause == Cause::Policed && ended.meta.app == AppId(2)));
    assert!(!works.ended.is_empty());
}

#[test]
fn a_limit_in_bits_counts_octets_of_each_user_alone() {
    let limit = "limit = { rate = \"80Mbit\", burst = \"15kB\" }";
    let mut works = Works::new(graph(&fair(&format!("{{ name = \"each\", {limit} }}")), &house()));
    let senders =
        [Sender { app: 1, octets: 1_000, every: 30 * US }, Sender { app: 9, octets: 500, every: 30 * US }];
    served(&mut works, &senders, SECOND);
    let octets = |app: u16| -> u64 {
        let left = works.left.iter().filter(|(_, meta)| meta.app == AppId(app));
        left.map(|(_, meta)| meta.amount.octets).sum()
    };
    // Ten million octets a second are less than the first two of them send together, and each has as many.
    assert!(near(octets(1), 10_000_000, 1) && near(octets(9), 10_000_000, 1), "{} {}", octets(1), octets(9));
}

#[test]
fn what_is_beyond_a_limit_goes_to_another_class() {
    let limit = "limit = { rate = \"10%\", burst = \"1ms\", excess = \"low\" }";
    let mut works = Works::new(graph(&fair(&format!("{{ name = \"each\", {limit} }}")), &house()));
    let senders = [Sender { app: 1, octets: 1_000, every: 22 * US }];
    let served = served(&mut works, &senders, SECOND);
    assert!(near(served[&1], SECOND / 2, 1), "{served:?}");
    let low = works.class("low");
    let beyond = works.left.iter().filter(|(_, meta)| meta.aggregate == low).count() as u64;
    assert!(near(beyond * 11 * US, SECOND * 2 / 5, 1), "{beyond}");
    assert!(works.ended.is_empty());
}

#[test]
fn a_profile_gives_weight_limit_and_class_at_once() {
    let limit = "limit = { rate = \"50%\", burst = \"2ms\" }";
    let gold =
        format!("{{ name = \"gold\", users = [\"phone\", \"77\"], weight = 3, {limit}, class = \"low\" }}");
    let text = fair(&gold);
    let description = check(&text, &house()).unwrap();
    assert!(print(&description).contains(&gold), "{}", print(&description));
    assert_eq!(read(&print(&description)).as_ref(), Ok(&description));
    let mut works = Works::new(graph(&text, &house()));
    let low = works.class("low");
    for (ticket, app) in (0..).zip([1, 3, 77]) {
        works.offer(ticket, Sender::flood(app, 100).meta());
    }
    works.drain();
    let mut left: Vec<(u64, u16, bool)> =
        works.left.iter().map(|(ticket, meta)| (*ticket, meta.weight.get(), meta.aggregate == low)).collect();
    left.sort_unstable();
    assert_eq!(left, [(0, 1, false), (1, 3, true), (2, 3, true)]);
    let served = served(&mut works, &[Sender::flood(3, 100)], SECOND);
    assert!(near(served[&3], SECOND / 2, 1), "{served:?}");
}

/// The points at which users are told apart.
pub fn points(description: &Description) -> Vec<HookPoint> {
    let is_users = |hook: &&qos::graph::description::Hook| {
        hook.chain.iter().any(|component| component.kind.value == Kind::Users)
    };
    description.hooks.iter().filter(is_users).map(|hook| hook.at.value).collect()
}

#[test]
fn profiles_of_associations_stand_behind_the_look_up() {
    let text = |stages: &str, profiles: &str| {
        format!("{stages}[class.rest]\nmatch = \"rest\"\nfair = \"association\"\n{profiles}")
    };
    let heavy = "profiles = [{ name = \"site\", users = [\"0x3\"], weight = 4 }]\n";
    let point = |text: &str| points(&check(text, &house()).unwrap_or_else(|faults| panic!("{faults:#?}")));
    assert_eq!(point(&text("", "")), [HookPoint::In1a]);
    assert_eq!(point(&text("", heavy)), [HookPoint::In3a]);
    assert_eq!(point(&text("stages = [1, 3, 5]\n", heavy)), [HookPoint::In3a]);
    let mut works = Works::new(graph(&text("", heavy), &house()));
    let served = served(&mut works, &[Sender::flood(1, 1_400), Sender::flood(3, 100)], SECOND / 2);
    assert!(near(served[&1], SECOND / 10, 2) && near(served[&3], SECOND * 2 / 5, 2), "{served:?}");
}

#[test]
fn no_preset_has_profiles() {
    for (name, text) in PRESETS {
        let description = read(text).unwrap();
        let mut parts = description.hooks.iter().flat_map(|hook| &hook.chain);
        assert!(parts.all(|component| component.profiles().is_empty()), "{name}");
    }
}
