//! What a library does beside computing: threads, contexts, what belongs to the host, copies of keys.

use std::sync::Arc;

use cipher_loader::subject::{Job, Leftover, Subject};
use cipher_loader::{Form, LoadedCipher};
use crypto::custom::{AeadOp, CbcOp, CtrOp, CustomKey, NONCE_LEN, StreamOp};

use crate::calls::{AAD, LENIENT, Lengths, Octets, Verdict, failed, open, seal, set};

/// Messages of each thread.
const ROUNDS: usize = 20_000;
/// Octets of such a message.
const LEN: usize = 256;

/// Several threads with one key, and no memory of the library's own that calls write.
pub(super) fn reentrancy(subject: &Subject<'_>) -> Verdict {
    let cipher = subject.in_form(LENIENT);
    let lengths = Lengths::of(&cipher);
    let mut octets = Octets::new(7);
    let shared = Arc::new(set(&cipher, &octets.take(lengths.key))?);
    let other = Arc::new(set(&cipher, &octets.take(lengths.key))?);
    // Three threads with one key, and one with another.
    let mut jobs: Vec<Job> = Vec::new();
    for key in [&shared, &shared, &other, &shared] {
        let key = Arc::clone(key);
        let nonce = octets.array::<NONCE_LEN>();
        let plain = octets.take(LEN);
        let (mut want, mut want_tag) = (plain.clone(), vec![0; lengths.tag]);
        seal(&key, &nonce, &mut want, &mut want_tag)?;
        jobs.push(Box::new(move || {
            let wrong = || "with several threads at once it computes something else".to_owned();
            let (mut data, mut tag) = (plain.clone(), want_tag.clone());
            for _ in 0..ROUNDS {
                seal(&key, &nonce, &mut data, &mut tag)?;
                if data != want || tag != want_tag {
                    return Err(wrong());
                }
                if !open(&key, &nonce, &mut data, &mut tag)? || data != plain {
                    return Err(wrong());
                }
            }
            Ok(())
        }));
    }
    subject.together(jobs)?;
    let before = subject.own_memory()?;
    every_call(&shared, lengths, &mut || Ok(()))?;
    if subject.own_memory()? != before {
        let why = "a call writes memory of the library's own, which the calls of all threads share; what a call \
                   needs belongs on its stack";
        return Err(why.to_owned());
    }
    Ok(format!(
        "4 threads, {ROUNDS} messages each, 3 of them with one key; no call writes the library's own memory"
    ))
}

/// The context is read-only, and what belongs to the host stays as it is.
pub(super) fn immutability(subject: &Subject<'_>) -> Verdict {
    for form in [Form::default(), Form { plain: true, ..Form::default() }] {
        let cipher = subject.in_form(form);
        let lengths = Lengths::of(&cipher);
        let undisturbed = |when: &str| match subject.disturbed() {
            Some(what) => Err(format!("it changed {what} {when}, which belongs to the host")),
            None => Ok(()),
        };
        let key = subject.watched_key(&cipher, &Octets::new(8).take(lengths.key))?;
        undisturbed("in setkey")?;
        every_call(&key, lengths, &mut || undisturbed("in a call"))?;
    }
    Ok("every function with a context that can only be read; control words, direction and blocked signals stay"
        .to_owned())
}

/// Every function of a key, with messages of several lengths. `behind` is called behind each.
pub(super) fn every_call(
    key: &CustomKey,
    lengths: Lengths,
    behind: &mut dyn FnMut() -> Result<(), String>,
) -> Result<(), String> {
    let mut octets = Octets::new(9);
    let nonce = octets.array::<NONCE_LEN>();
    for count in [1, 2, 3, 4, 7, 8, 9, 16, 31, 90] {
        // A box has its octets and no more, so that a program that watches memory sees what is read behind them.
        let mut data = octets.take(count * lengths.unit).into_boxed_slice();
        let mut tag = vec![0; lengths.tag].into_boxed_slice();
        match key {
            CustomKey::Block(key) => {
                key.encrypt_blocks(&mut data).map_err(failed)?;
                behind()?;
                key.decrypt_blocks(&mut data).map_err(failed)?;
                behind()?;
                if lengths.unit != 16 {
                    continue;
                }
                let mut odd = octets.take(count * 16 - count % 16).into_boxed_slice();
                key.ctr_xor_batch(&mut [CtrOp { counter: octets.array(), data: &mut odd }])
                    .map_err(failed)?;
                behind()?;
                key.cbc_encrypt_batch(&mut [CbcOp { iv: octets.array(), data: &mut data }])
                    .map_err(failed)?;
                behind()?;
            }
            CustomKey::Stream(key) => {
                let offset = (count * 13) as u64;
                key.xor_batch(&mut [StreamOp { nonce: &nonce, offset, data: &mut data }]).map_err(failed)?;
                behind()?;
            }
            CustomKey::Aead(key) => {
                let op = |data, tag| AeadOp { nonce: &nonce, aad: AAD, data, tag, ok: false };
                key.seal_batch(&mut [op(&mut data, &mut tag)]).map_err(failed)?;
                behind()?;
                let mut ops = [AeadOp { nonce: &nonce, aad: AAD, data: &mut data, tag: &mut tag, ok: false }];
                key.open_batch(&mut ops).map_err(failed)?;
                behind()?;
                let [AeadOp { ok, .. }] = ops;
                if !ok {
                    return Err("what was sealed does not open".to_owned());
                }
                tag.iter_mut().take(1).for_each(|octet| *octet ^= 1);
                let mut ops = [AeadOp { nonce: &nonce, aad: AAD, data: &mut data, tag: &mut tag, ok: false }];
                key.open_batch(&mut ops).map_err(failed)?;
                behind()?;
            }
        }
    }
    Ok(())
}

/// No copy of a key is left when the key is gone.
pub(super) fn wipe(subject: &Subject<'_>) -> Verdict {
    let cipher: LoadedCipher = subject.in_form(LENIENT);
    let lengths = Lengths::of(&cipher);
    let fill = |number: u64, octets: &mut [u8]| Octets::new(1000 + number).fill(octets);
    let found = subject.leftovers(&cipher, &fill, &|key| every_call(key, lengths, &mut || Ok(())))?;
    let place = match found.as_slice() {
        places if places.contains(&Leftover::Library) => "in memory of the library's own",
        places if places.contains(&Leftover::Heap) => "in memory that was allocated",
        _ => "",
    };
    if !place.is_empty() {
        return Err(format!("a copy of the key, or of its context, is left {place} when the key is gone"));
    }
    Ok(if found.contains(&Leftover::Stack) {
        "no copy in the library's own memory or on the heap; one is left on the stack, where later calls write over it"
    } else {
        "no copy in the library's own memory, on the heap or on the stack"
    }
    .to_owned())
}
