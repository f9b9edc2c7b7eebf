//! A million iterations, each on the result of the one before: a path that is wrong once in 2^20 calls is met.
//!
//! In 1000 rounds of 1000 iterations. The first key has the octets 00 01 02 and so on; the first text is zeros.
//!
//! - BLOCK: the text is a block, and an iteration encrypts it.
//! - STREAM: the text has 64 octets. An iteration XORs the key stream from octet 0 on into it; the nonce is its first 12
//!   octets as they were.
//! - AEAD: the text has 64 octets. An iteration seals it with its first 12 octets as the nonce and no associated data,
//!   and XORs the tag into its first octets.
//!
//! Behind a round the octets of the key are XORed with the text, which is repeated as often as it must be. A key that
//! the cipher refuses as weak has its first octet XORed with 1 until it is taken. The value is the last text.

use cipher_loader::subject::Subject;
use crypto::custom::{AeadOp, CustomCipher, CustomKey, NONCE_LEN, SetKeyError, StreamOp};
use zeroize::Zeroizing;

use crate::calls::{LENIENT, Lengths, Verdict, failed};

const ROUNDS: usize = 1000;
/// Octets of the text of a stream cipher and of an AEAD.
const TEXT: usize = 64;
/// Changes of a weak key.
const MOST_WEAK: usize = 3;

/// The value of a cipher.
pub(super) fn value(cipher: &dyn CustomCipher) -> Result<Vec<u8>, String> {
    let lengths = Lengths::of(cipher);
    let mut secret: Zeroizing<Vec<u8>> = Zeroizing::new((0..=u8::MAX).cycle().take(lengths.key).collect());
    let mut text = vec![0; if lengths.unit == 1 { TEXT } else { lengths.unit }];
    let mut tag = vec![0; lengths.tag];
    for _ in 0..ROUNDS {
        let key = strong(cipher, &mut secret)?;
        for _ in 0..ROUNDS {
            let nonce = *text.first_chunk::<NONCE_LEN>().unwrap_or(&[0; NONCE_LEN]);
            match &key {
                CustomKey::Block(key) => key.encrypt_blocks(&mut text),
                CustomKey::Stream(key) => {
                    key.xor_batch(&mut [StreamOp { nonce: &nonce, offset: 0, data: &mut text }])
                }
                CustomKey::Aead(key) => {
                    let op = AeadOp { nonce: &nonce, aad: b"", data: &mut text, tag: &mut tag, ok: false };
                    let sealed = key.seal_batch(&mut [op]);
                    text.iter_mut().zip(&tag).for_each(|(to, from)| *to ^= from);
                    sealed
                }
            }
            .map_err(failed)?;
        }
        secret.iter_mut().zip(text.iter().cycle()).for_each(|(to, from)| *to ^= from);
    }
    Ok(text)
}

fn strong(cipher: &dyn CustomCipher, secret: &mut [u8]) -> Result<CustomKey, String> {
    for _ in 0..MOST_WEAK {
        match cipher.set_key(secret) {
            Err(SetKeyError::Weak) => secret.iter_mut().take(1).for_each(|octet| *octet ^= 1),
            made => return made.map_err(|error| error.to_string()),
        }
    }
    Err("the cipher refuses one key after another as weak".to_owned())
}

pub(super) fn montecarlo(subject: &Subject<'_>) -> Verdict {
    let got = hex(&value(&subject.in_form(LENIENT))?);
    match subject.vectors().montecarlo().map(hex) {
        Some(want) if want == got => Ok(format!("10^6 iterations give {got}, as the vector file says")),
        Some(want) => Err(format!("10^6 iterations give {got}, and the vector file says {want}")),
        None => Ok(format!(
            "10^6 iterations give {got}: a new value, compared with nothing. To have it compared from now on, write \
             \"montecarlo\": \"{got}\" beside \"cipher\" in the vector file"
        )),
    }
}

fn hex(octets: impl AsRef<[u8]>) -> String {
    octets.as_ref().iter().map(|octet| format!("{octet:02x}")).collect()
}
