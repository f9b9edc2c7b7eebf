//! Libraries without a fault, and what was hashed is what runs.

use cipher_loader::{Loaded, Trust, examine};
use crypto::custom::{BlockKey, CbcOp, CtrOp, CustomCipher, CustomKey, SetKeyError};

use crate::lab::{Folder, Toy, trial};

/// The key of a block cipher.
fn key(cipher: &dyn CustomCipher, octets: &[u8]) -> Box<dyn BlockKey> {
    match cipher.set_key(octets) {
        Ok(CustomKey::Block(key)) => key,
        Ok(_) => panic!("another kind"),
        Err(error) => panic!("{error}"),
    }
}

/// The arguments of compilers that give a library with all functions, with few, in place and not.
const FORMS: [&[&str]; 6] = [
    &[],
    &["-DNOT_IN_PLACE"],
    &["-DFLAGS=3"],
    &["-DCTR=12"],
    &["-DCTR=12", "-DFLAGS=3"],
    &["-DCTR=12", "-DCTR_NOT_IN_PLACE"],
];

#[test]
fn a_good_library_is_loaded_and_computes_what_its_second_form_does() {
    for form in FORMS {
        let folder = Folder::with(form);
        let loaded = folder.load().unwrap_or_else(|error| panic!("{form:?}: {error}"));
        assert_eq!((loaded.counts.block, loaded.counts.ctr, loaded.counts.total()), (120, 20, 140));
        assert_eq!(loaded.cipher.description(), &loaded.manifest.description);
        let octets = [0x42; 32];
        let key = key(&*loaded.cipher, &octets);
        let toy = Toy::new(&octets);
        // More than is copied at once.
        let plain: Vec<u8> = (0..5008u32).map(|at| (at * 7 % 251) as u8).collect();
        let mut data = plain.clone();
        key.encrypt_blocks(&mut data).unwrap();
        let mut want = plain.clone();
        want.as_chunks_mut::<16>().0.iter_mut().for_each(|block| toy.encrypt(block));
        assert_eq!(data, want);
        key.decrypt_blocks(&mut data).unwrap();
        assert_eq!(data, plain);
        // What is behind the last whole block stays.
        let mut ragged = plain[..20].to_vec();
        key.encrypt_blocks(&mut ragged).unwrap();
        assert_eq!((&ragged[..16], &ragged[16..]), (&want[..16], &plain[16..20]));
    }
}

#[test]
fn counter_mode_and_cbc_are_the_same_in_every_form() {
    let mut made: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for form in FORMS {
        let loaded = Folder::with(form).load().unwrap();
        let key = key(&*loaded.cipher, &[9; 32]);
        // 40 packets are more than are handed over at once.
        let mut packets: Vec<Vec<u8>> = (0..40usize).map(|n| vec![n as u8; n * 130]).collect();
        let counter = |n: usize| (u128::MAX - 3 - n as u128).to_be_bytes();
        let op = |(n, data)| CtrOp { counter: counter(n), data };
        let mut ops: Vec<CtrOp<'_>> = packets.iter_mut().map(Vec::as_mut_slice).enumerate().map(op).collect();
        key.ctr_xor_batch(&mut ops).unwrap();
        let mut chained: Vec<u8> = vec![5; 4096];
        if !key.cbc_encrypt_batch(&mut [CbcOp { iv: [6; 16], data: &mut chained }]).unwrap() {
            let mut previous = [6; 16];
            for block in chained.as_chunks_mut::<16>().0 {
                block.iter_mut().zip(previous).for_each(|(to, from)| *to ^= from);
                key.encrypt_blocks(block).unwrap();
                previous = *block;
            }
        }
        made.push((packets.concat(), chained));
    }
    assert!(made.iter().all(|packets| packets == &made[0]));
    assert_ne!(made[0].0[200], 1);
}

#[test]
fn keys_of_other_lengths_are_refused_and_many_keys_live_together() {
    let loaded = Folder::with(&[]).load().unwrap();
    assert_eq!(loaded.cipher.set_key(&[1; 31]).err(), Some(SetKeyError::Length));
    let keys: Vec<Box<dyn BlockKey>> = (0..60).map(|n| key(&*loaded.cipher, &[n; 32])).collect();
    std::thread::scope(|scope| {
        for (n, key) in (0..).zip(&keys) {
            scope.spawn(move || {
                let (mut block, mut want) = ([n; 16], [n; 16]);
                Toy::new(&[n; 32]).encrypt(&mut want);
                key.encrypt_blocks(&mut block).unwrap();
                assert_eq!(block, want);
            });
        }
    });
    let weak = Folder::with(&["-DIN_SETKEY=if(key[0]==7)return RAVELIN_CIPHER_WEAK_KEY"]).load().unwrap();
    assert_eq!(weak.cipher.set_key(&[7; 32]).err(), Some(SetKeyError::Weak));
}

#[test]
fn a_library_exchanged_after_it_was_hashed_changes_nothing() {
    let folder = Folder::with(&[]);
    let request = folder.request();
    let examined = examine(&request.manifest, request.sha256, Trust::Caller).unwrap();
    // Another library, in the same file: what was read before runs, in the trial and here.
    folder.compile(&["-DINCLUDES", "-DCONSTRUCTOR=_exit(3)"]);
    let loaded = Loaded::after_trial(examined, &trial()).unwrap();
    assert_eq!(loaded.counts.total(), 140);
    // Read anew, it is refused before any of it runs.
    assert!(folder.refused().contains("toy.so: its SHA-256 is "));
}

#[test]
fn memory_is_bounded_in_the_trial() {
    // Two gibibytes are twice what the trial may have. Where it was loaded for good they may be had.
    let greedy = "-DCONSTRUCTOR=if(malloc(2ul<<30)&&getenv(\"RAVELIN_CIPHER_TRIAL\"))abort()";
    assert!(Folder::with(&["-DINCLUDES", greedy]).load().is_ok());
}

#[test]
fn two_libraries_are_two_even_if_the_first_is_gone() {
    let first = Folder::with(&[]).load().unwrap();
    drop(first);
    // This one has a name of its own, which the first one's code does not know.
    let second = Folder::named("toycipher2").load().unwrap();
    assert_eq!(second.counts.total(), 140);
}
