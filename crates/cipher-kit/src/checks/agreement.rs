//! Two implementations compute the same: the reference beside the manifest, mAES-512 as it is compiled in, the functions
//! that a library may leave out beside those that it must have.

use cipher_loader::Form;
use cipher_loader::subject::Subject;
use crypto::custom::{AeadOp, CbcOp, CtrOp, CustomCipher, CustomKey, NONCE_LEN};
use crypto_maes::Maes512;

use crate::calls::{AAD, LENIENT, Lengths, Octets, Verdict, failed, open, seal, set};

/// The names under which mAES-512 is brought as a library: that of the compiled-in form, and of the example in C.
const MAES: [&str; 2] = [Maes512::NAME, "maes512c"];

/// The vectors that the child was handed are those that `reference.py` has just made.
pub(super) fn with_reference(subject: &Subject<'_>) -> Verdict {
    let counts = subject.run_vectors(LENIENT)?;
    let own = compared(subject)?;
    Ok(format!("{} new tests that reference.py made; {own}", counts.total()))
}

/// The comparisons that need no reference.
pub(super) fn agreement(subject: &Subject<'_>) -> Verdict {
    let own = compared(subject)?;
    Ok(format!("{own}; there is no reference.py beside the manifest"))
}

/// What the library computes beside what other forms of it compute.
fn compared(subject: &Subject<'_>) -> Verdict {
    let cipher = subject.in_form(LENIENT);
    let mut what = Vec::new();
    if MAES.contains(&cipher.description().name.as_str()) {
        same(&cipher, &Maes512::new(), "the compiled-in mAES-512")?;
        what.push("the compiled-in mAES-512");
    }
    if cipher.has_optional_functions() {
        subject.short("batch", LENIENT)?;
        let plain = subject.in_form(Form { plain: true, ..LENIENT });
        same(&cipher, &plain, "what the host makes of its mandatory functions")?;
        what.push("its optional functions with what the host makes of the others");
    }
    if cipher.works_in_place() {
        same(&cipher, &subject.in_form(Form { apart: true, ..LENIENT }), "the same with two places")?;
        what.push("source and destination in one place with two");
    }
    if what.is_empty() {
        return Ok("nothing was compared: the library has one implementation of everything".to_owned());
    }
    Ok(format!("compared: {}", what.join(", ")))
}

/// Both compute the same for keys and messages that look random.
fn same(one: &dyn CustomCipher, two: &dyn CustomCipher, name: &str) -> Result<(), String> {
    let lengths = Lengths::of(one);
    let mut octets = Octets::new(12);
    for round in 0..1000usize {
        let secret = octets.take(lengths.key);
        let keys = [set(one, &secret)?, set(two, &secret)?];
        let (nonce, counter) = (octets.array::<NONCE_LEN>(), octets.array::<16>());
        let plain = octets.take(lengths.unit * (round % 90));
        let message = octets.take(round);
        let mut made = Vec::new();
        for key in &keys {
            made.push(everything(key, lengths, &nonce, counter, &plain, &message)?);
        }
        if let [first, second] = made.as_slice()
            && let Some((what, _)) =
                first.iter().zip(second).find(|(one, two)| one != two).map(|(one, _)| one)
        {
            return Err(format!(
                "{what} is not the same as by {name}, for a message of {round} octets or blocks"
            ));
        }
    }
    Ok(())
}

/// What a key makes of a message in each way.
fn everything(
    key: &CustomKey,
    lengths: Lengths,
    nonce: &[u8; NONCE_LEN],
    counter: [u8; 16],
    plain: &[u8],
    message: &[u8],
) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
    let (mut data, mut tag) = (plain.to_vec(), vec![0; lengths.tag]);
    seal(key, nonce, &mut data, &mut tag)?;
    let mut made = vec![("the ciphertext", data.clone()), ("the tag", tag.clone())];
    open(key, nonce, &mut data, &mut tag)?;
    made.push(("the plaintext", data));
    match key {
        CustomKey::Block(key) if lengths.unit == 16 => {
            let mut packets = [message.to_vec(), plain.to_vec(), message.to_vec()];
            let mut ops = packets.iter_mut().map(|data| CtrOp { counter, data }).collect::<Vec<_>>();
            key.ctr_xor_batch(&mut ops).map_err(failed)?;
            made.push(("counter mode", packets.concat()));
            let mut chained = plain.to_vec();
            let mut previous = counter;
            if !key.cbc_encrypt_batch(&mut [CbcOp { iv: counter, data: &mut chained }]).map_err(failed)? {
                for block in chained.as_chunks_mut::<16>().0 {
                    block.iter_mut().zip(previous).for_each(|(to, from)| *to ^= from);
                    key.encrypt_blocks(block).map_err(failed)?;
                    previous = *block;
                }
            }
            made.push(("CBC", chained));
        }
        CustomKey::Aead(key) => {
            let mut packets = [(message.to_vec(), tag.clone()), (plain.to_vec(), tag)];
            let mut ops = packets
                .iter_mut()
                .map(|(data, tag)| AeadOp { nonce, aad: AAD, data, tag, ok: false })
                .collect::<Vec<_>>();
            key.seal_batch(&mut ops).map_err(failed)?;
            let all = packets.into_iter().flat_map(|(data, tag)| [data, tag]).collect::<Vec<_>>();
            made.push(("a batch", all.concat()));
        }
        _ => {}
    }
    Ok(made)
}
