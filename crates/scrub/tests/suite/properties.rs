//! Properties that hold for any packets: a scrubber that observes changes nothing, and a scrubbed packet is not changed
//! again.

use crate::packet;

use packet::{Bench, DF, datagram4, datagram6, fragment_body, icmp, summed, v4, v6};
use proptest::prelude::*;
use proptest::sample::Index;
use scrub::{Outcome, Profile, Rule, Side};
use std::time::Duration;
use wire::ip::Headers;
use wire::ipv4::Ipv4;

/// Packets that are right or nearly so, which are then made wrong.
fn base(which: u8) -> Vec<u8> {
    let echo = |kind| summed(v4(1, &icmp(kind, 0, 7 << 16, b"ping")).bytes());
    match which % 20 {
        0 => datagram4(100).bytes(),
        1 => datagram4(100).piece(0, 48),
        2 => datagram4(100).piece(48, 108),
        3 => datagram6(100).bytes(),
        4 => datagram6(100).piece(9, 0, 48),
        5 => datagram6(100).piece(9, 48, 108),
        6 => datagram6(16).header(0, &[5, 2, 0, 0, 0x3e, 0]).bytes(),
        7 => datagram6(16).header(60, &[1, 4, 0, 0, 0, 0]).header(44, &fragment_body(0, false, 3)).bytes(),
        8 => echo(8),
        9 => echo(0),
        10 => datagram4(16).with(|p| p.options = vec![1, 1, 148, 4, 0, 0, 0, 0]).bytes(),
        11 => summed(v4(1, &icmp(3, 3, 0, &datagram4(100).back().bytes())).bytes()),
        12 => summed(v6(58, &icmp(2, 0, 1300, &datagram6(1400).back().bytes()[..200])).bytes()),
        13 => datagram4(100).back().bytes(),
        14 => datagram6(1400).back().bytes(),
        15 => summed(v6(58, &icmp(128, 0, 7 << 16, b"ping")).bytes()),
        16 => v6(132, &[0x30, 0x39, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0, 10, 0, 0, 4]).bytes(),
        17 => datagram4(1400).with(|p| p.flags = DF).bytes(),
        18 => datagram4(1400).bytes(),
        _ => v6(59, b"rest").bytes(),
    }
}

#[derive(Clone, Debug)]
struct Step {
    bytes: Vec<u8>,
    from: Side,
    link: u32,
    wait: u64,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let change = prop::collection::vec((any::<Index>(), any::<u8>()), 0..3);
    let tail = prop::collection::vec(any::<u8>(), 0..4);
    let step = (any::<u8>(), change, tail, any::<[bool; 4]>(), 0..40_u64, any::<bool>());
    let step = step.prop_map(|(which, changes, tail, [inside, link, sum, cut], wait, late)| {
        let mut bytes = base(which);
        for (at, value) in &changes {
            *at.get_mut(&mut bytes) = *value;
        }
        if cut && changes.len() == 2 {
            bytes.truncate(changes[0].0.index(bytes.len()));
        }
        // Most changes are to be looked at behind the checksums.
        if sum && let Ok(mut view) = Ipv4::new_checked(&mut bytes[..]) {
            view.fill_checksum();
        }
        if sum && let Ok(headers) = Headers::parse(&bytes) {
            let _ = wire::checksum::complete_transport(&mut bytes, &headers);
        }
        if !sum {
            bytes.extend(tail);
        }
        let from = if inside { Side::Inside } else { Side::Outside };
        Step { bytes, from, link: u32::from(link && late), wait: if late { wait } else { 0 } }
    });
    prop::collection::vec(step, 1..most)
}

/// The steps behind a scrubber for one step: the packet, or its fragments.
fn behind(bench: &mut Bench, step: &Step) -> Vec<Step> {
    bench.wait(Duration::from_secs(step.wait));
    bench.link = step.link;
    let out = bench.pass_from(step.from, &step.bytes);
    let cut = [Rule::V4Reassemble.id(), Rule::V6FragmentLength.id()];
    let own = bench.own().into_iter().filter(|(_, why, _)| cut.contains(why)).map(|(_, _, bytes)| bytes);
    let whole = (out.outcome == Outcome::Forward).then_some(out.bytes);
    whole.into_iter().chain(own).map(|bytes| Step { bytes, wait: 0, ..step.clone() }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn who_observes_changes_nothing(steps in steps(20)) {
        let mut bench = Bench::profile(Profile::Observe);
        for step in &steps {
            bench.wait(Duration::from_secs(step.wait));
            bench.link = step.link;
            let out = bench.pass_from(step.from, &step.bytes);
            prop_assert_eq!((out.outcome, &out.bytes, out.acted.len()), (Outcome::Forward, &step.bytes, 0));
            prop_assert!(bench.own().is_empty());
        }
    }

    #[test]
    fn what_was_scrubbed_is_not_changed_again(steps in steps(20), strict: bool) {
        let mut config = scrub::Config::new(if strict { Profile::Strict } else { Profile::Standard });
        config.mtu = [1300; 2];
        let (mut first, mut second) = (Bench::new(config.clone()), Bench::new(config));
        for step in &steps {
            second.wait(Duration::from_secs(step.wait));
            let scrubbed = behind(&mut first, step);
            let again: Vec<_> = scrubbed.iter().flat_map(|step| behind(&mut second, step)).collect();
            for step in &scrubbed {
                let headers = Headers::parse(&step.bytes).expect("what goes on is a packet");
                prop_assert_eq!(headers.total_len, step.bytes.len());
                prop_assert!(wire::ip::checksum_ok(&step.bytes, &headers));
            }
            let bytes = |steps: &[Step]| steps.iter().map(|step| step.bytes.clone()).collect::<Vec<_>>();
            prop_assert_eq!(bytes(&scrubbed), bytes(&again));
        }
    }

    #[test]
    fn no_octets_are_too_odd(packets in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..120)), 0..8)) {
        let mut bench = Bench::standard();
        for (v6, mut bytes) in packets {
            if let Some(first) = bytes.first_mut() {
                *first = if v6 { 0x60 } else { 0x45 };
            }
            bench.pass(&bytes);
        }
    }
}
