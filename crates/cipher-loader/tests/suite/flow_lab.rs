//! Folders with the ciphers of `flow.c`.

use std::fmt::Write as _;
use std::fs;

use crate::lab::{Folder, hex};

/// The ciphers of `flow.c`, written a second time.
pub struct Flow([u64; 4]);

fn word(octets: &[u8]) -> u64 {
    u64::from_le_bytes(octets[..8].try_into().unwrap())
}

fn mix(x: u64, k: u64) -> u64 {
    x.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(k).rotate_left(23) ^ x.rotate_left(7)
}

impl Flow {
    pub fn new(key: &[u8; 32]) -> Flow {
        Flow(std::array::from_fn(|at| word(&key[8 * at..])))
    }

    pub fn xor(&self, nonce: &[u8; 12], offset: u64, data: &mut [u8]) {
        for (octet, at) in data.iter_mut().zip(offset..) {
            let start = at / 8;
            let round = |sum: u64, k: &u64| mix(sum.wrapping_add(word(nonce)), *k) ^ word(&nonce[4..]);
            *octet ^= (self.0.iter().fold(start, round) >> (8 * (at % 8))) as u8;
        }
    }

    pub fn seal(&self, nonce: &[u8; 12], aad: &[u8], data: &mut [u8]) -> [u8; 16] {
        self.xor(nonce, 8, data);
        let k = self.0;
        let add = |k| move |sum: u64, octet: &u8| mix(sum.wrapping_add(u64::from(*octet)), k);
        let first = aad.iter().fold(mix(word(nonce), k[0]).wrapping_add(aad.len() as u64), add(k[2]));
        let second =
            data.iter().fold(mix(word(&nonce[4..]), k[1]).wrapping_add(data.len() as u64), add(k[3]));
        let first = first.wrapping_add(mix(second, k[0]));
        let second = second.wrapping_add(mix(first, k[1]));
        [first.to_le_bytes(), second.to_le_bytes()].concat().try_into().unwrap()
    }
}

/// A folder with the library of these arguments, a manifest and 110 vectors, of which ten are invalid for an AEAD.
pub fn folder(aead: bool, arguments: &[&str]) -> Folder {
    let folder = Folder::new();
    let mut all = arguments.to_vec();
    if aead {
        all.push("-DAEAD");
    }
    folder.compile_source("flow.c", &all);
    let mut text = "{\"cipher\":\"toyflow\",\"tests\":[".to_owned();
    for number in 1..=110u8 {
        let (key, nonce, offset) = ([number; 32], [number ^ 0x33; 12], u64::from(number) * 1_000_003);
        let msg = vec![number; usize::from(number)];
        let (mut ct, mut more) = (msg.clone(), String::new());
        let invalid = aead && number > 100;
        if aead {
            let mut tag = Flow::new(&key).seal(&nonce, &msg[1..], &mut ct);
            tag[0] ^= u8::from(invalid);
            write!(more, "\"aad\":\"{}\",\"tag\":\"{}\"", hex(&msg[1..]), hex(&tag)).unwrap();
        } else {
            Flow::new(&key).xor(&nonce, offset, &mut ct);
            write!(more, "\"offset\":{offset}").unwrap();
        }
        let comma = if number == 1 { "" } else { "," };
        write!(
            text,
            "{comma}{{\"tcId\":{number},\"mode\":\"{}\",\"key\":\"{}\",\"iv\":\"{}\",{more},\"msg\":\"{}\",\"ct\":\"{}\",\
             \"result\":\"{}\"}}",
            if aead { "aead" } else { "stream" },
            hex(&key),
            hex(&nonce),
            hex(&msg),
            hex(&ct),
            if invalid { "invalid" } else { "valid" }
        )
        .unwrap();
    }
    fs::write(folder.path("vectors.json"), text + "]}").unwrap();
    let lengths = if aead { "\"nonce\":12,\"tag\":16" } else { "\"nonce\":12" };
    let kind = if aead { "\"kind\":\"aead\"" } else { "\"kind\":\"stream\"" };
    folder.manifest(&[
        ("\"toycipher\"", "\"toyflow\""),
        ("\"block\":16", lengths),
        ("\"kind\":\"block\"", kind),
    ]);
    folder
}

/// A block of 8 octets, encrypted by the second form.
fn eight(key: &[u8; 32], block: &mut [u8; 8]) {
    let round = |x: u64, k: u64| (x ^ k).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    *block = Flow::new(key).0.into_iter().fold(word(block), round).to_le_bytes();
}

/// A folder with the cipher whose blocks have 8 octets.
pub fn eight_folder() -> Folder {
    let folder = Folder::new();
    folder.compile_source("flow.c", &["-DEIGHT"]);
    let mut text = "{\"cipher\":\"toyflow\",\"tests\":[".to_owned();
    for number in 1..=120u8 {
        let (key, iv, msg) = ([number; 32], [number ^ 0x77; 8], [number.wrapping_mul(59); 40]);
        let (mut ct, mut previous) = (msg, [0; 8]);
        let chained = number > 110;
        if chained {
            previous = iv;
        }
        for block in ct.as_chunks_mut::<8>().0 {
            if chained {
                block.iter_mut().zip(previous).for_each(|(to, from)| *to ^= from);
            }
            eight(&key, block);
            previous = *block;
        }
        let mode = if chained { format!("\"cbc\",\"iv\":\"{}\"", hex(&iv)) } else { "\"block\"".to_owned() };
        let comma = if number == 1 { "" } else { "," };
        let (key, msg, ct) = (hex(&key), hex(&msg), hex(&ct));
        write!(
            text,
            "{comma}{{\"tcId\":{number},\"mode\":{mode},\"key\":\"{key}\",\"msg\":\"{msg}\",\"ct\":\"{ct}\",\
             \"result\":\"valid\"}}"
        )
        .unwrap();
    }
    fs::write(folder.path("vectors.json"), text + "]}").unwrap();
    folder.manifest(&[("\"toycipher\"", "\"toyflow\""), ("\"block\":16", "\"block\":8")]);
    folder
}
