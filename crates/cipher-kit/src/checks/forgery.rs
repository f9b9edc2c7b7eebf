//! What was changed on its way does not open.

use cipher_loader::subject::Subject;
use crypto::custom::{AeadKey, AeadOp, CustomKey, NONCE_LEN};

use crate::calls::{AAD, LENIENT, Lengths, Octets, Verdict, failed, set};

/// A packet as it is on its way.
#[derive(Clone)]
struct Packet {
    nonce: [u8; NONCE_LEN],
    aad: Vec<u8>,
    data: Vec<u8>,
    tag: Vec<u8>,
}

impl Packet {
    fn opens(mut self, key: &dyn AeadKey) -> Result<bool, String> {
        let Packet { nonce, aad, data, tag } = &mut self;
        let mut ops = [AeadOp { nonce, aad, data, tag, ok: false }];
        key.open_batch(&mut ops).map_err(failed)?;
        let [AeadOp { ok, .. }] = ops;
        Ok(ok)
    }
}

/// One bit of this part is changed, or octets are cut off.
type Change = (&'static str, fn(&mut Packet) -> &mut [u8]);

pub(super) fn forgery(subject: &Subject<'_>) -> Verdict {
    let cipher = subject.in_form(LENIENT);
    let lengths = Lengths::of(&cipher);
    let mut octets = Octets::new(10);
    let CustomKey::Aead(key) = set(&cipher, &octets.take(lengths.key))? else {
        return Ok(
            "does not apply: the cipher has no tag; check `esp` forges packets before the host's integrity"
                .to_owned(),
        );
    };
    let parts: [Change; 4] = [
        ("tag", |packet| &mut packet.tag),
        ("associated data", |packet| &mut packet.aad),
        ("nonce", |packet| &mut packet.nonce),
        ("ciphertext", |packet| &mut packet.data),
    ];
    let mut forged = 0u32;
    for len in [0, 1, 15, 16, 17, 64, 200] {
        let mut packet = Packet {
            nonce: octets.array(),
            aad: AAD.to_vec(),
            data: octets.take(len),
            tag: vec![0; lengths.tag],
        };
        let Packet { nonce, aad, data, tag } = &mut packet;
        key.seal_batch(&mut [AeadOp { nonce, aad, data, tag, ok: false }]).map_err(failed)?;
        if !packet.clone().opens(&*key)? {
            return Err("what was sealed does not open".to_owned());
        }
        for (name, part) in parts {
            for bit in 0..part(&mut packet).len() * 8 {
                let mut changed = packet.clone();
                if let Some(octet) = part(&mut changed).get_mut(bit / 8) {
                    *octet ^= 1 << (bit % 8);
                }
                forged += 1;
                if changed.opens(&*key)? {
                    return Err(format!(
                        "a packet of {len} octets opens with bit {bit} of its {name} changed"
                    ));
                }
            }
        }
        for kept in 0..lengths.tag {
            let mut short = packet.clone();
            let cut = short.tag.get_mut(kept..).unwrap_or_default();
            let is_zero = cut.iter().all(|octet| *octet == 0);
            cut.fill(0);
            forged += 1;
            if !is_zero && short.opens(&*key)? {
                return Err(format!(
                    "a packet of {len} octets opens with {kept} octets of its tag and zeros"
                ));
            }
        }
        if len > 0 {
            let mut short = packet.clone();
            short.data.pop();
            let mut long = packet.clone();
            long.aad.push(0);
            forged += 2;
            if short.opens(&*key)? || long.opens(&*key)? {
                return Err(format!("a packet of {len} octets opens with another length"));
            }
        }
    }
    Ok(format!(
        "{forged} forged packets: each bit of tag, associated data, nonce and ciphertext, and cut tags"
    ))
}
