//! Work in steps: however a packet is cut into steps, the octets are those of one call, and a wrong ICV stays wrong.

use crate::packet::{Packet, keymat};

use crypto::{Provider, StepState, SuiteId, Transform};
use crypto_std::{Ring, RustCrypto};
use proptest::prelude::*;

/// Seal in steps of these lengths, over and over.
fn seal(key: &dyn Transform, packet: &mut Packet, steps: &[usize], state: &mut StepState) -> usize {
    for (count, octets) in steps.iter().cycle().enumerate() {
        let mut octets = *octets;
        if key.seal_step(packet.seal_op(), state, &mut octets).unwrap() {
            return count + 1;
        }
    }
    unreachable!()
}

/// Open a packet in steps of random length. What is not authentic yet is as it came.
fn open(key: &dyn Transform, packet: &mut Packet, steps: &[usize], state: &mut StepState) -> (bool, usize) {
    let sealed = packet.data.clone();
    for (count, octets) in steps.iter().cycle().enumerate() {
        let mut octets = *octets;
        if let Some(right) = key.open_step(packet.open_op(false), state, &mut octets).unwrap() {
            return (right, count + 1);
        }
        if !state.is_right {
            assert_eq!(packet.data, sealed, "nothing is decrypted before the ICV was right");
        }
    }
    unreachable!()
}

fn suites() -> Vec<(SuiteId, bool)> {
    let offered = |suite: &SuiteId| RustCrypto.offers(*suite) || Ring.offers(*suite);
    let suites = SuiteId::all().filter(offered);
    suites.flat_map(|suite| [(suite, false), (suite, true)]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn steps_of_any_length_are_one_call(
        blocks in 0_usize..90,
        steps in prop::collection::vec(0_usize..300, 1..5),
        sequence in 1_u64..1 << 34,
        seed in any::<u8>(),
        flip in any::<prop::sample::Index>(),
    ) {
        let mut state = StepState::default();
        for (suite, extended) in suites() {
            for provider in [&RustCrypto as &dyn Provider, &Ring] {
                if !provider.offers(suite) {
                    continue;
                }
                let key = provider.transform(suite, &keymat(suite.keymat_len(), seed), extended).unwrap();
                let data = vec![seed; blocks * suite.block_len()];
                let packet = Packet::new(suite, sequence, data);
                let whole = packet.clone().sealed(key.as_ref());
                let mut stepped = packet.clone();
                seal(key.as_ref(), &mut stepped, &steps, &mut state);
                prop_assert_eq!(&stepped, &whole, "{:?}", suite);
                let mut opened = whole.clone();
                prop_assert!(open(key.as_ref(), &mut opened, &steps, &mut state).0, "{:?}", suite);
                prop_assert_eq!(&opened.data, &packet.data, "{:?}", suite);
                // Forged anywhere, it is refused.
                let mut forged = whole.clone();
                let parts = [&mut forged.iv, &mut forged.data, &mut forged.icv];
                let mut octets = parts.into_iter().flatten().collect::<Vec<_>>();
                let at = flip.index(octets.len());
                *octets[at] ^= 0x10;
                prop_assert!(!open(key.as_ref(), &mut forged, &steps, &mut state).0, "{:?}", suite);
            }
        }
    }
}

/// A slow cipher proceeds block by block, and its MAC alone in fewer steps than it.
#[test]
fn a_slow_cipher_works_in_as_many_steps_as_it_is_told() {
    let suite = SuiteId::all().find(|suite| suite.to_string().contains("3des")).unwrap();
    let key = RustCrypto.transform(suite, &keymat(suite.keymat_len(), 7), false).unwrap();
    let mut state = StepState::default();
    let mut packet = Packet::new(suite, 9, vec![5; 1400]);
    assert_eq!(seal(key.as_ref(), &mut packet, &[48], &mut state), 1400_usize.div_ceil(48));
    let (right, steps) = open(key.as_ref(), &mut packet, &[48], &mut state);
    assert!(right);
    // The MAC takes in 1,400 octets in two steps and a part of a third one, in which the cipher begins.
    assert_eq!(steps, 2 + 1400_usize.div_ceil(48));
}

/// Lengths of another suite end in the first step, and leave the state fresh.
#[test]
fn lengths_of_another_suite_are_refused() {
    let suite = SuiteId::all().find(|suite| suite.to_string().contains("3des")).unwrap();
    let key = RustCrypto.transform(suite, &keymat(suite.keymat_len(), 7), false).unwrap();
    let mut state = StepState::default();
    let mut packet = Packet::new(suite, 9, vec![5; 13]);
    assert!(key.seal_step(packet.seal_op(), &mut state, &mut 100).is_err());
    assert_eq!(packet.data, [0; 13], "nothing secret stays");
    let opened = key.open_step(packet.open_op(false), &mut state, &mut 100);
    assert_eq!(opened, Ok(Some(false)));
    assert!(!state.has_begun && state.hash.words == [0; 8]);
}
