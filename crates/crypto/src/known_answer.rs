//! Known-answer tests: what a provider must compute before any key is given to it.
//!
//! One published vector a suite. Sources: McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, test
//! cases 4 and 16; RFC 8439 section 2.8.2.

use crate::{Aead, CryptoError, NONCE_LEN, OpenOp, Provider, SealOp, Secret, SuiteId, TAG_LEN};

struct Answer {
    key: &'static [u8],
    nonce: [u8; NONCE_LEN],
    aad: &'static [u8],
    plain: &'static [u8],
    cipher: &'static [u8],
    tag: [u8; TAG_LEN],
}

const GCM_AAD: [u8; 20] = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
const GCM_NONCE: [u8; NONCE_LEN] = hex("cafebabefacedbaddecaf888");
const GCM_PLAIN: [u8; 60] = hex(concat!(
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72",
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
));

const AES_128_GCM: Answer = Answer {
    key: &hex::<16>("feffe9928665731c6d6a8f9467308308"),
    nonce: GCM_NONCE,
    aad: &GCM_AAD,
    plain: &GCM_PLAIN,
    cipher: &hex::<60>(concat!(
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e",
        "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
    )),
    tag: hex("5bc94fbc3221a5db94fae95ae7121a47"),
};

const AES_256_GCM: Answer = Answer {
    key: &hex::<32>("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"),
    nonce: GCM_NONCE,
    aad: &GCM_AAD,
    plain: &GCM_PLAIN,
    cipher: &hex::<60>(concat!(
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa",
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
    )),
    tag: hex("76fc6ece0f4e1768cddf8853bb2d551b"),
};

const CHACHA20_POLY1305: Answer = Answer {
    key: &hex::<32>("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"),
    nonce: hex("070000004041424344454647"),
    aad: &hex::<12>("50515253c0c1c2c3c4c5c6c7"),
    plain: b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
             sunscreen would be it.",
    cipher: &hex::<114>(concat!(
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6",
        "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36",
        "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc",
        "3ff4def08e4b7a9de576d26586cec64b6116"
    )),
    tag: hex("1ae10b594f09e26a7e902ecbd0600691"),
};

fn answer(suite: SuiteId) -> &'static Answer {
    match suite {
        SuiteId::Aes128Gcm => &AES_128_GCM,
        SuiteId::Aes256Gcm => &AES_256_GCM,
        SuiteId::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    }
}

/// Put a provider through the known answer of every suite it claims: sealing gives the published octets, opening gives
/// them back, a changed tag, ciphertext or associated octet is refused, in a batch as well as alone, and a key of the wrong
/// length is refused.
///
/// # Errors
/// [`CryptoError::SelfTest`] for the first suite that fails.
pub fn check(provider: &dyn Provider) -> Result<(), CryptoError> {
    for &suite in provider.suites() {
        if !passes(provider, suite) {
            return Err(CryptoError::SelfTest { provider: provider.name(), suite });
        }
    }
    Ok(())
}

fn passes(provider: &dyn Provider, suite: SuiteId) -> bool {
    let answer = answer(suite);
    let Ok(aead) = provider.aead(suite, &Secret::new(answer.key.to_vec())) else { return false };
    let short = answer.key.get(1..).unwrap_or_default();
    let refuses_short = matches!(
        provider.aead(suite, &Secret::new(short.to_vec())),
        Err(CryptoError::KeyLength { suite: named, .. }) if named == suite
    );
    refuses_short
        && seals(aead.as_ref(), answer)
        && opens(aead.as_ref(), answer)
        && batches(aead.as_ref(), answer)
}

fn seals(aead: &dyn Aead, answer: &Answer) -> bool {
    let (mut data, mut tag) = (answer.plain.to_vec(), [0; TAG_LEN]);
    aead.seal(SealOp { nonce: answer.nonce, aad: answer.aad, data: &mut data, tag: &mut tag });
    data == answer.cipher && tag == answer.tag
}

fn opens(aead: &dyn Aead, answer: &Answer) -> bool {
    let open = |cipher: &[u8], aad: &[u8], tag| {
        let mut data = cipher.to_vec();
        let ok = aead.open(OpenOp { nonce: answer.nonce, aad, data: &mut data, tag, ok: false });
        ok.then_some(data)
    };
    let flipped = |octets: &[u8]| {
        let mut octets = octets.to_vec();
        if let Some(last) = octets.last_mut() {
            *last ^= 1;
        }
        octets
    };
    let mut wrong_tag = answer.tag;
    wrong_tag[TAG_LEN - 1] ^= 0x80;
    open(answer.cipher, answer.aad, answer.tag).as_deref() == Some(answer.plain)
        && open(answer.cipher, answer.aad, wrong_tag).is_none()
        && open(&flipped(answer.cipher), answer.aad, answer.tag).is_none()
        && open(answer.cipher, &flipped(answer.aad), answer.tag).is_none()
}

/// Two packets in one batch, of which only the second is genuine when they come back.
fn batches(aead: &dyn Aead, answer: &Answer) -> bool {
    let (mut first, mut second) = (answer.plain.to_vec(), answer.plain.to_vec());
    let (mut first_tag, mut second_tag) = ([0; TAG_LEN], [0; TAG_LEN]);
    let mut other_nonce = answer.nonce;
    other_nonce[NONCE_LEN - 1] ^= 1;
    aead.seal_batch(&mut [
        SealOp { nonce: other_nonce, aad: answer.aad, data: &mut first, tag: &mut first_tag },
        SealOp { nonce: answer.nonce, aad: answer.aad, data: &mut second, tag: &mut second_tag },
    ]);
    if first == second || second != answer.cipher || second_tag != answer.tag {
        return false;
    }
    // `ok` starts as the opposite of what it must become.
    let mut ops = [
        OpenOp { nonce: answer.nonce, aad: answer.aad, data: &mut first, tag: first_tag, ok: true },
        OpenOp { nonce: answer.nonce, aad: answer.aad, data: &mut second, tag: second_tag, ok: false },
    ];
    aead.open_batch(&mut ops);
    let [forged, genuine] = ops.map(|op| op.ok);
    !forged && genuine && second == answer.plain
}

/// Octets written in hexadecimal; anything else does not compile.
const fn hex<const N: usize>(text: &str) -> [u8; N] {
    const fn digit(c: u8) -> u8 {
        match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'f' => c - b'a' + 10,
            _ => panic!("not a hexadecimal digit"),
        }
    }
    let text = text.as_bytes();
    assert!(text.len() == 2 * N, "as many octets as asked for");
    let mut out = [0; N];
    let mut at = 0;
    while at < N {
        out[at] = digit(text[2 * at]) << 4 | digit(text[2 * at + 1]);
        at += 1;
    }
    out
}
