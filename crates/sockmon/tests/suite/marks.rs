//! Marks in other bits than the standard ones (docs/design/0016): everything that a mark says is said there, others keep theirs.
//! Needs root.

use crate::common;

use common::packets::*;
use common::*;
use sockmon::SockmonError;
use wire::Marks;

const PROOF: u32 = 0x8000_0000;
const FULL: u32 = PROOF | 0x0300_0000;
/// Ten bits for numbers, above them the flags; the rest is of others.
const MASK: u32 = 0x000f_fff0;

fn world_with(name: &str, mask: u32) -> World {
    let mut world = World::new(name);
    let marks = Marks::new(mask).unwrap();
    world.attach_with(move |options| options.marks = marks);
    world.load(&usual(), &usual_orders());
    world
}

#[test]
fn a_mark_says_in_other_bits_what_it_says() {
    let mut world = world_with("marks", MASK);
    world.wire();
    let mark = Marks::new(MASK).unwrap().stamp(0, STRICT, 0);
    let mut program = world.start("strict");
    program.run(&["open s udp4", "open t tcp4"]);
    assert_eq!(program.ask("mark s"), format!("{mark:#x}"));
    // Bits of others stay; ours cannot be set by anybody.
    assert_eq!(program.ask(&format!("setmark s {:#x}", mark | 0x4000_0001)), "ok");
    for wrong in [0, mark | 0x80, mark ^ 0x4000] {
        assert_eq!(program.ask(&format!("setmark s {wrong:#x}")), "EPERM", "{wrong:#x}");
    }
    let mut other = world.start("unnamed");
    other.run(&["open s udp4", &format!("setmark s {:#x}", !MASK)]);
    assert_eq!(other.ask(&format!("setmark s {mark:#x}")), "EPERM");
    // What looks like ours in the standard layout is not.
    other.run(&["setmark s 0x30000000", "sendto s 10.99.0.2:9 20"]);
    assert_eq!(world.wire().len(), 1);

    // Records have the standard layout.
    program.run(&["sendto s 10.99.0.2:53 40"]);
    let seen = world.drain();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].mark, stamp(STRICT));
    assert_eq!(program.ask("connect t 10.99.0.2:80"), "EINPROGRESS");
    assert_eq!(world.seen_within(SOON).unwrap().mark, stamp(STRICT));
    world.drain();

    // Proof is taken from the TUN, in our bits, and from nowhere else.
    program.run(&["open u udp4", "bind u 0.0.0.0:7001"]);
    let packet = udp((BOB, 9), (ALICE, 7001), b"hello");
    world.inject(FULL | u32::from(STRICT.0), &packet);
    assert_eq!(program.ask("recv u 2000"), "5");
    world.inject(FULL | u32::from(OTHER.0), &packet);
    world.bob_sends(&packet);
    assert_eq!(program.ask("recv u 100"), "ETIMEDOUT");
    assert_eq!((world.counter("ingress_other_app"), world.counter("ingress_no_proof")), (1, 1));
    let sums = world.traffic(STRICT);
    assert_eq!(
        (sums.in_encrypted.packets, sums.in_authenticated.packets, sums.in_refused.packets),
        (1, 0, 2)
    );
    // The kernel's own answer to a protected packet goes back under protection.
    world.inject(FULL, &tcp((BOB, 9), (ALICE, 7009), 1, 0, SYN));
    let reset = world.seen_within(SOON).expect("a RST on the TUN");
    assert_eq!(reset.mark & PROOF, PROOF, "{:#x}", reset.mark);
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

#[test]
fn other_bits_need_a_fresh_start_and_numbers_must_fit() {
    let mut world = world_with("marks-again", MASK);
    let mut options = world.options();
    let error = world.alice.run(move || sockmon::Sockmon::attach(&options)).unwrap_err();
    assert!(matches!(error, SockmonError::OtherMarks { found: MASK, .. }), "{error}");
    assert!(error.remedy().contains("mark_mask = 0x000ffff0"), "{}", error.remedy());
    options = world.options();
    options.marks = Marks::new(MASK).unwrap();
    world.alice.run(move || sockmon::Sockmon::attach(&options)).unwrap();

    let mut spd = usual();
    let last = Marks::new(MASK).unwrap().last_app();
    assert_eq!(last, 1022);
    spd.insert(wire::AppId(last + 1), spd.get(STRICT).unwrap().clone());
    let subjects = sockmon::Subjects::default();
    let error = world.sockmon().load_policy(&spd, &subjects, &[]).unwrap_err();
    assert!(matches!(error, SockmonError::NoRoomInMark { last: 1022, .. }), "{error}");
}
