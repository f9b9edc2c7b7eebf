//! A key leaves nothing of itself in the memory that it gives back, nor on the stack where it was made.
//!
//! Two different keys must leave the same words behind, addresses aside: whatever differs was made of the key.

#[path = "../../crypto-std/tests/suite/packet/looking.rs"]
#[allow(dead_code, reason = "what looks at keys of whole suites is for providers")]
mod looking;
#[path = "../../crypto-std/tests/suite/packet.rs"]
mod packet;
#[path = "../../crypto-std/tests/suite/packet/stack.rs"]
#[allow(dead_code, reason = "what looks at keys of whole suites is for providers")]
mod stack;

use crypto::custom::{BlockKey, CtrOp, CustomCipher, CustomKey};
use crypto_maes::{KEY_LEN, Maes512};
use looking::left_by;
use stack::{different, left_by as left_on_stack};

fn secret(seed: u8) -> [u8; KEY_LEN] {
    std::array::from_fn(|i| (i as u8).wrapping_mul(5) ^ seed)
}

fn key(secret: &[u8]) -> Box<dyn BlockKey> {
    match Maes512::new().set_key(secret) {
        Ok(CustomKey::Block(key)) => key,
        _ => panic!("a key of a block cipher was expected"),
    }
}

#[test]
fn a_key_leaves_nothing_of_itself() {
    looking::sees();
    stack::sees();

    let [one, two] = [1, 0xc7].map(|seed| {
        let key = key(&secret(seed));
        let (mut blocks, mut data) = ([7; 16 * 99], [5; 1400]);
        key.encrypt_blocks(&mut blocks).unwrap();
        key.decrypt_blocks(&mut blocks).unwrap();
        key.ctr_xor_batch(&mut [CtrOp { counter: [3; 16], data: &mut data }]).unwrap();
        left_by(key)
    });
    assert!(one.len() > 2 * 15 * 2, "at least the round keys of both cores were seen");
    assert_eq!(different(&one, &two), 0, "heap");

    // A warm-up, so that what is looked up once is looked up.
    key(&secret(9));
    let [one, two] = [1, 0xc7].map(|seed| {
        let secret = secret(seed);
        left_on_stack(|| key(&secret))
    });
    assert_eq!(different(&one, &two), 0, "stack");
    // A key that is refused as weak leaves nothing either.
    let [one, two] =
        [[1; KEY_LEN], [0xc7; KEY_LEN]].map(|weak| left_on_stack(|| Maes512::new().set_key(&weak).err()));
    assert_eq!(different(&one, &two), 0, "stack, weak key");
}
