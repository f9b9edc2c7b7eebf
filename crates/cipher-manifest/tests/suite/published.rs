//! Published answers, as tests of a vector file, with filling tests that another program could have made.

use std::fmt::Write as _;

use aes::Aes256;
use cipher::{BlockCipherEncrypt, KeyInit};

/// A vector file for a cipher with these tests and enough others of the same mode.
pub fn file(cipher: &str, tests: &[String]) -> String {
    let mut text = format!("{{\"cipher\":\"{cipher}\",\"tests\":[");
    for (at, test) in tests.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(text, "{comma}{{\"tcId\":{},{test}}}", at + 1).unwrap();
    }
    text + "]}"
}

pub fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |text, octet| text + &format!("{octet:02x}"))
}

/// Tests of blocks of AES-256, each of two blocks.
pub fn filling(count: u8) -> Vec<String> {
    (0..count)
        .map(|number| {
            let (key, msg) = ([number; 32], [number ^ 0x5a; 32]);
            let mut ct = msg;
            let aes = Aes256::new(&key.into());
            ct.as_chunks_mut::<16>().0.iter_mut().for_each(|block| aes.encrypt_block(block.into()));
            format!(
                r#""mode":"block","key":"{}","msg":"{}","ct":"{}","result":"valid""#,
                hex(&key),
                hex(&msg),
                hex(&ct)
            )
        })
        .collect()
}

/// FIPS 197 appendix C.3.
pub const FIPS_197: &str = r#""mode":"block",
    "key":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
    "msg":"00112233445566778899aabbccddeeff","ct":"8ea2b7ca516745bfeafc49904b496089","result":"valid""#;

/// NIST SP 800-38A section F.5.5 (CTR-AES256.Encrypt).
pub const CTR: &str = r#""mode":"ctr","key":"603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
    "iv":"f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
    "msg":"6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
    "ct":"601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5","result":"valid""#;

/// NIST SP 800-38A section F.2.5 (CBC-AES256.Encrypt).
pub const CBC: &str = r#""mode":"cbc","key":"603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
    "iv":"000102030405060708090a0b0c0d0e0f",
    "msg":"6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
    "ct":"f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d","result":"valid""#;

/// The Galois/Counter Mode of Operation (McGrew and Viega), test case 16.
pub const GCM: &str = r#""mode":"gcm","key":"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
    "iv":"cafebabefacedbaddecaf888","aad":"feedfacedeadbeeffeedfacedeadbeefabaddad2",
    "msg":"d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    "ct":"522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
    "tag":"76fc6ece0f4e1768cddf8853bb2d551b","result":"valid""#;

/// RFC 8439 section 2.4.2; the message begins in block 1 of the key stream.
pub const CHACHA20: &str = r#""mode":"stream","key":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
    "iv":"000000000000004a00000000","offset":64,
    "msg":"4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f756c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73637265656e20776f756c642062652069742e",
    "ct":"6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0bf91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab77937365af90bbf74a35be6b40b8eedf2785e42874d","result":"valid""#;

/// RFC 8439 section 2.8.2.
pub const AEAD: &str = r#""mode":"aead","key":"808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
    "iv":"070000004041424344454647","aad":"50515253c0c1c2c3c4c5c6c7",
    "msg":"4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f756c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73637265656e20776f756c642062652069742e",
    "ct":"d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b6116",
    "tag":"1ae10b594f09e26a7e902ecbd0600691","result":"valid""#;
