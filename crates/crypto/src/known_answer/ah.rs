//! The test of one algorithm of AH.

use super::answers::AH_ANSWERS;
use super::input::{keymat, unhex};
use crate::{Authenticator, CryptoError, Integrity, Provider};

const SEQUENCE: u64 = 0x5_0000_0007;

/// A packet in pieces: lengths that are no multiple of any block, and an empty one. The last are the upper half of the
/// sequence number.
fn parts() -> [Vec<u8>; 5] {
    [(0..20).collect(), vec![], (100..147).collect(), (200..216).collect(), vec![0, 0, 0, 5]]
}

pub(super) fn passes(provider: &dyn Provider, integrity: Integrity) -> bool {
    let want = integrity.keymat_len();
    let refuses = |got: usize| {
        let refused = provider.authenticator(integrity, &keymat(got)).err();
        refused == Some(CryptoError::AuthenticatorKeyLength { integrity, want, got })
    };
    let answer = AH_ANSWERS.iter().find(|answer| answer.integrity == integrity.name());
    let (Some(icv), Ok(key)) =
        (answer.and_then(|a| unhex(a.icv)), provider.authenticator(integrity, &keymat(want)))
    else {
        return false;
    };
    refuses(want - 1) && refuses(want + 1) && answers(key.as_ref(), &icv)
}

fn answers(key: &dyn Authenticator, icv: &[u8]) -> bool {
    let packet = parts();
    let sign = |sequence, packet: &[Vec<u8>]| {
        let mut out = vec![0xff; key.len()];
        key.sign(sequence, &packet.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut out);
        out
    };
    let verify = |packet: &[Vec<u8>], icv: &[u8]| {
        key.verify(&packet.iter().map(Vec::as_slice).collect::<Vec<_>>(), icv)
    };
    let changed = |octets: &[u8], at: usize| {
        let mut octets = octets.to_vec();
        octets.iter_mut().skip(at).take(1).for_each(|octet| *octet ^= 0x80);
        octets
    };
    let longer = [icv, &[0]].concat();
    sign(SEQUENCE, &packet) == icv
        && verify(&packet, icv)
        // Where the pieces are cut does not matter.
        && verify(&[packet.concat()], icv)
        && (0..icv.len()).all(|at| !verify(&packet, &changed(icv, at)))
        && (0..icv.len()).all(|len| !icv.get(..len).is_some_and(|short| verify(&packet, short)))
        && !verify(&packet, &longer)
        && (0..packet.concat().len()).step_by(15).all(|at| !verify(&[changed(&packet.concat(), at)], icv))
}
