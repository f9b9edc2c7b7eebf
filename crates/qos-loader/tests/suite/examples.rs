//! The two examples: what they are for, and that they keep the rules.

use qos::behaviour::foreign::{Answer, Call, Instance, Maker, PacketView};
use qos_loader::Component;

use crate::lab::Folder;

fn judge(instance: &mut dyn Instance, now_ns: u64, random: u64, seen: PacketView) -> Answer {
    let mut answers = [Answer::NONE];
    instance.judge(&Call { now_ns, random }, &[seen], &mut answers).unwrap();
    answers[0]
}

fn make(component: &Component, parameters: &str, ports: u32) -> Box<dyn Instance> {
    component.make(parameters, ports, 7, 1_000_000).unwrap()
}

const MS: u64 = 1_000_000;
const PASS: Answer = Answer { action: 0, value: 0, changes: 0, colour: 0, dscp: 0, reserved: 0 };
const POLICED: Answer = Answer { action: 2, value: 1, ..PASS };
const EARLY: Answer = Answer { action: 2, value: 2, ..PASS };

#[test]
fn the_example_in_c_gives_each_user_a_quota() {
    let folder = Folder::quota();
    let component = folder.load().unwrap();
    assert_eq!((component.name(), component.version()), ("quota", "1.0"));
    assert_eq!((component.digest(), component.path()), (folder.digest(), &*folder.library()));
    let mut quota = make(&component, "packets=3 window=1000", 0);
    let mut of = |user, ms: u64| {
        judge(&mut *quota, ms * MS, 0, PacketView { user, packets: 1, ..PacketView::default() })
    };
    assert_eq!([of(1, 5), of(1, 6), of(2, 6), of(1, 7)], [PASS; 4]);
    assert_eq!([of(1, 8), of(1, 1004)], [POLICED; 2]);
    assert_eq!([of(2, 9), of(1, 1005)], [PASS; 2]);
    // A super-packet is as many as its pieces.
    let mut large =
        |packets| judge(&mut *quota, 5 * MS, 0, PacketView { user: 9, packets, ..PacketView::default() });
    assert_eq!([large(4), large(3)], [POLICED, PASS]);
    for (parameters, ports, excess) in [
        ("packets=1 window=1 excess=red", 0, Answer { changes: 1, colour: 2, ..PASS }),
        ("excess=port packets=1 window=1", 1, Answer { action: 3, ..PASS }),
    ] {
        let mut quota = make(&component, parameters, ports);
        assert_eq!(judge(&mut *quota, 0, 0, PacketView { user: 1, ..PacketView::default() }), PASS);
        assert_eq!(judge(&mut *quota, 0, 0, PacketView { user: 1, ..PacketView::default() }), excess);
    }
    let why = component.make("packets=1 window=1 excess=port", 0, 0, 0).err().unwrap();
    assert_eq!(why, "excess=port needs a port: write ports = [\"CLASS\"] in the graph");
    assert_eq!(
        component.make("packets=0", 0, 0, 0).err().unwrap(),
        "packets is a number from 1 to 1000000000"
    );
    assert_eq!(component.make("", 0, 0, 0).err().unwrap(), "write packets=N and window=MS");
    let tried = folder.tried("packets=10 window=100 excess=port", 1).unwrap();
    assert!(tried.packets >= 5_000 && tried.passed > 0 && tried.moved > 0, "{tried:?}");
    assert_eq!(tried.packets, tried.passed + tried.moved);
}

#[test]
fn the_example_in_rust_drops_at_random_beyond_a_rate() {
    let folder = Folder::gentle();
    let component = folder.load().unwrap();
    assert_eq!(component.name(), "gentle");
    let mut gentle = make(&component, "low=8000 high=16000 most=50", 0);
    let mut random = 1_u64;
    let mut second = |at: u64, octets: u32, ecn: u8| {
        let answers = (0..1_000).map(|ms| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            judge(
                &mut *gentle,
                (at * 1_000 + ms) * MS,
                random,
                PacketView { octets, ecn, ..PacketView::default() },
            )
        });
        answers.filter(|answer| *answer != PASS).collect::<Vec<_>>()
    };
    // A packet each millisecond: 7.2 Mbit/s, then 24 Mbit/s.
    assert_eq!(second(0, 900, 0), []);
    second(1, 3_000, 0);
    let dropped = second(2, 3_000, 0);
    assert!(dropped.iter().all(|answer| *answer == EARLY));
    assert!((400..600).contains(&dropped.len()), "{}", dropped.len());
    assert!(second(3, 3_000, 2).iter().all(|answer| *answer == Answer { action: 1, ..PASS }));
    assert_eq!(
        component.make("low=2 high=1", 0, 0, 0).err().unwrap(),
        "low is below high, and high at most 1000000000"
    );
    let tried = folder.tried("low=8 high=16 most=50", 0).unwrap();
    assert!(tried.dropped > 0 && tried.marked > 0 && tried.passed > 0, "{tried:?}");
}
