//! A packet under a key of mAES-512 allocates nothing.

#[path = "../../crypto-std/tests/suite/packet/counting.rs"]
#[allow(dead_code, reason = "what counts packets of whole suites is for providers")]
mod counting;
#[path = "../../crypto-std/tests/suite/packet.rs"]
mod packet;

use counting::{counted, counts};
use crypto::custom::{CtrOp, CustomCipher, CustomKey};
use crypto_maes::Maes512;

#[test]
fn no_packet_allocates() {
    counts();
    let secret: Vec<u8> = (0..64).collect();
    let Ok(CustomKey::Block(key)) = Maes512::new().set_key(&secret) else {
        panic!("a key of a block cipher was expected")
    };
    for len in [0, 1, 16, 64, 1400, 1408, 8192, 65536] {
        let mut packets = vec![vec![3; len]; 19];
        let mut ops: Vec<_> = packets.iter_mut().map(|data| CtrOp { counter: [9; 16], data }).collect();
        counted(&format!("counter mode, {len}"), || key.ctr_xor_batch(&mut ops).unwrap());
        let packet = &mut packets[0];
        counted(&format!("encryption, {len}"), || key.encrypt_blocks(packet).unwrap());
        counted(&format!("decryption, {len}"), || key.decrypt_blocks(packet).unwrap());
    }
}
