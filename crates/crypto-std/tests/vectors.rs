//! Published vectors through the registry that the daemon uses.
//!
//! McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B; draft-mcgrew-gcm-test-01 section 4 (whole ESP
//! packets under RFC 4106: salt, IV, SPI and sequence number as there); RFC 7634 appendix A; RFC 8439 section 2.8.2 and
//! appendix A.5; RFC 4231 (HMAC-SHA256).

use crypto::{Aead, Fingerprint, OpenOp, Registry, SealOp, Secret, SuiteId};
use crypto_std::KeyedFingerprint;

/// (suite, key, nonce, aad, plaintext, ciphertext, tag)
type Vector = (SuiteId, &'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap() as u8).collect();
    assert_eq!(digits.len() % 2, 0);
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn key(registry: &Registry, suite: SuiteId, key: &[u8]) -> Box<dyn Aead> {
    registry.aead(suite, &Secret::new(key.to_vec())).unwrap()
}

/// Seal, open, and open with each octet of tag, ciphertext and associated data changed in turn.
fn both_ways((suite, k, nonce, aad, plain, cipher, tag): &Vector) {
    let registry = crypto_std::registry().unwrap();
    let aead = key(&registry, *suite, &hex(k));
    let (nonce, aad, plain, cipher) = (hex(nonce).try_into().unwrap(), hex(aad), hex(plain), hex(cipher));
    let want_tag: [u8; 16] = hex(tag).try_into().unwrap();

    let (mut data, mut made) = (plain.clone(), [0; 16]);
    aead.seal(SealOp { nonce, aad: &aad, data: &mut data, tag: &mut made });
    assert_eq!(data, cipher, "{suite} {k}");
    assert_eq!(made, want_tag, "{suite} {k}");

    let open = |cipher: &[u8], aad: &[u8], tag| {
        let mut data = cipher.to_vec();
        aead.open(OpenOp { nonce, aad, data: &mut data, tag, ok: false }).then_some(data)
    };
    assert_eq!(open(&cipher, &aad, want_tag), Some(plain), "{suite} {k}");
    for at in 0..16 {
        let mut tag = want_tag;
        tag[at] ^= 1 << (at % 8);
        assert_eq!(open(&cipher, &aad, tag), None, "{suite} {k}: octet {at} of the tag");
    }
    for at in 0..cipher.len() {
        let mut cipher = cipher.clone();
        cipher[at] ^= 0x10;
        assert_eq!(open(&cipher, &aad, want_tag), None, "{suite} {k}: octet {at} of the ciphertext");
    }
    for at in 0..aad.len() {
        let mut aad = aad.clone();
        aad[at] ^= 0x01;
        assert_eq!(open(&cipher, &aad, want_tag), None, "{suite} {k}: octet {at} of the associated data");
    }
}

const A128: SuiteId = SuiteId::Aes128Gcm;
const A256: SuiteId = SuiteId::Aes256Gcm;
const FEFF: &str = "feffe9928665731c6d6a8f9467308308";
const FEFF2: &str = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
const ZERO16: &str = "00000000000000000000000000000000";
const ZERO32: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const ZERO12: &str = "000000000000000000000000";
const CAFE: &str = "cafebabefacedbaddecaf888";
const FEED: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
const P64: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                   1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255";
const P60: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                   1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";

/// Test cases 1 to 4 and 13 to 16: those with a 96-bit IV and a 128- or 256-bit key.
const GCM: [Vector; 8] = [
    (A128, ZERO16, ZERO12, "", "", "", "58e2fccefa7e3061367f1d57a4e7455a"),
    (
        A128,
        ZERO16,
        ZERO12,
        "",
        ZERO16,
        "0388dace60b6a392f328c2b971b2fe78",
        "ab6e47d42cec13bdf53a67b21257bddf",
    ),
    (
        A128,
        FEFF,
        CAFE,
        "",
        P64,
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
        "4d5c2af327cd64a62cf35abd2ba6fab4",
    ),
    (
        A128,
        FEFF,
        CAFE,
        FEED,
        P60,
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        "5bc94fbc3221a5db94fae95ae7121a47",
    ),
    (A256, ZERO32, ZERO12, "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
    (
        A256,
        ZERO32,
        ZERO12,
        "",
        ZERO16,
        "cea7403d4d606b6e074ec5d3baf39d18",
        "d0d1c8a799996bf0265b98b5d48ab919",
    ),
    (
        A256,
        FEFF2,
        CAFE,
        "",
        P64,
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
         8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
        "b094dac5d93471bdec1a502270e3cc6c",
    ),
    (
        A256,
        FEFF2,
        CAFE,
        FEED,
        P60,
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
         8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
        "76fc6ece0f4e1768cddf8853bb2d551b",
    ),
];

/// The cases of draft-mcgrew-gcm-test-01 that encrypt under a 128- or 256-bit key: plaintexts are IP packets with ESP
/// trailers, associated data SPI and sequence number (with extended numbers where it has 12 octets).
const ESP_GCM: [Vector; 13] = [
    (
        A128,
        "4c80cdefbb5d10da906ac73c3613a634",
        "2e443b684956ed7e3b244cfe",
        "000043218765432100000000",
        "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000
         00000000045f736970045f756470037369700963796265726369747902646b00
         0021000101020201",
        "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34
         cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce
         61bc17d768fd9732",
        "459018148f6cbe722fd04796562dfdb4",
    ),
    (
        A128,
        FEFF,
        CAFE,
        "0000a5f80000000a",
        "4500003e698f000080114dccc0a80102c0a801010a980035002a2343b2d00100
         0001000000000000037369700963796265726369747902646b00000100010001",
        "deb22cd9b07c72c16e3a65beeb8df304a5a5897d33ae530f1ba76d5d114d2a5c
         3de81827c10e9a4f51330d0eec416642cfbb85a5b47e48a4ec3b9ba95d918bd1",
        "83b70d3aa8bc6ee4c309e9d85a41ad4a",
    ),
    (
        A256,
        "abbccddef00112233445566778899aababbccddef00112233445566778899aab",
        "112233440102030405060708",
        "4a2cbfe300000002",
        "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee000000000
         7002400020bf0000020405b40101040201020201",
        "ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763
         748a637985771d347f0545659f14e99def842d8e",
        "b335f4eecfdbf831824b4c4915956c96",
    ),
    (
        A128,
        ZERO16,
        ZERO12,
        "0000000000000001",
        "4500003c99c500008001cb7a40679318010101010800075c0200440061626364
         65666768696a6b6c6d6e6f707172737475767761626364656667686901020201",
        "4688daf2f973a392732909c331d56d60f694abaa414b5e7ff5fdcdfff5e9a284
         456476492719ffb64de7d9dca1e1d894bc3bd57873ed4d181d19d4d5c8c18af3",
        "f821d496eeb096e98ad2b69e4799c71d",
    ),
    (
        A128,
        "3de09874b388e6491988d0c3607eae1f",
        "57690e434e280000a2fca1a3",
        "42f67e3f1010101010101010",
        "4500003c99c300008001cb7c40679318010101010800085c0200430061626364
         65666768696a6b6c6d6e6f707172737475767761626364656667686901020201",
        "fba2caa4853cf9f0f22cb10d86dd83b0fec75691cf1a04b00d1138ec9c357917
         65acbd8701ad79845bf9fe3fba487bc91755e6662b4c8d0d1f5e22739530320a",
        "e0d731cc978ecafaeae88f00e80d6e48",
    ),
    (
        A128,
        "3de09874b388e6491988d0c3607eae1f",
        "57690e434e280000a2fca1a3",
        "42f67e3f1010101010101010",
        "4500001c42a200008001441f406793b6e00000020a00f5ff01020201",
        "fba2ca845e5df9f0f22c3e6e86dd831e1fc65792cd1af9130e1379ed",
        "369f071f35e034be95f112e4e7d05d35",
    ),
    (
        A128,
        "abbccddef00112233445566778899aab",
        "decaf888cafedebaceface74",
        "000001000000000000000001",
        "4500004933ba00007f119106c3fb1d10c2b1d326c02831ce0035dd7b800302d5
         00004e20001e8c18d75b81dc91baa0476b91b924b280389d92c963bac046ec95
         9b6266c04722b14923010101",
        "18a6fd42f72cbf4ab2a2ea901f73d814e3e7f243d95412e1c349c1d2fbec168f
         9190feebaf2cb01984e65863965d7472b79da345e0e780191f0d2f0e0f496c22
         6f2127b27db35724e7845d68",
        "651f57e65f354f75ff17015769623436",
    ),
    (
        A256,
        "abbccddef00112233445566778899aababbccddef00112233445566778899aab",
        "73616c74616e640169766563",
        "17405e67156f3126dd0db99b",
        "45080028732c00004006e9f90a0106120a01038f06b88023dd6bafbecb712602
         50101f646d540001",
        "f2d69ecdbd5a0d5b8d5ef38bad4da58d1f278fde98ef67549d524a3018d9a57f
         f4d3a31ce673119e",
        "451626c2415771e3b7eebca614c89b35",
    ),
    (
        A128,
        "3de09874b388e6491988d0c3607eae1f",
        "57690e434e280000a2fca1a3",
        "42f67e3f1010101010101010",
        "45000049333e00007f119182c3fb1d10c2b1d326c02831ce0035cb458003025b
         000001e0001e8c18d65759d52284a0352c71475c8880391c764d6e5ee0496b32
         5ae270c03899493915010101",
        "fba2cad12fc1f9f00d3cebf305410db83d7784b607323d220f24b0a97d541828
         00cadb0f68d99ef0e0c0c89ae9bea8884e52d65bc1afd0740f742444747b5b39
         ab533163aad4550ee5160975",
        "cdb608c5769189609763b8e18caa81e2",
    ),
    (
        A256,
        "abbccddef00112233445566778899aababbccddef00112233445566778899aab",
        "73616c74616e640169766563",
        "17405e67156f3126dd0db99b",
        "636973636f0172756c657301746865016e6574776501646566696e6501746865
         746563686e6f6c6f67696573017468617477696c6c01646566696e65746f6d6f
         72726f7701020201",
        "d4b7ed86a1777f2ea13d6973d324c69e7b43f826fb56831226508bebd2dceb18
         d0a6df10e5487df074113e14c641024e3e6773d91a62ee429b043a10e3efe6b0
         12a49363412364f8",
        "c0cac587f249e56b11e24f30e44ccc76",
    ),
    (
        A128,
        "7d773d00c144c525ac619d18c84a3f47",
        "d966426743457e9182443bc6",
        "335467aeffffffff",
        "01020201",
        "437f866b",
        "cb3f699fe9b0822bac961c4504bef270",
    ),
    (
        A128,
        "abbccddef00112233445566778899aab",
        "decaf888cafedebaceface74",
        "000001000000000000000001",
        "746f016265016f72016e6f7401746f0162650001",
        "29c9fc69a197d038ccdd14e2ddfcaa0543332164",
        "412503524303ed3c6c5f283843af8c3e",
    ),
    (
        A256,
        "6c6567616c697a656d6172696a75616e61616e64646f69746265666f72656961",
        "7475726e333021696765746d",
        "796b6963ffffffffffffffff",
        "45000030da3a00008001df3bc0a80005c0a800010800c6cd0200070061626364
         65666768696a6b6c6d6e6f707172737401020201",
        "f97ab2aa356d8edce17644ac8c78e25dd24dedbb29ebf1b64a274b39b49c3a86
         4cd3d78ca4ae68a32b42458fb57dbe821dcc63b9",
        "d0937ba2945f669368661a329fb4c053",
    ),
];

/// RFC 7634 appendix A: the keying material's first 32 octets, salt and IV, SPI and sequence number 5.
const ESP_CHACHA: Vector = (
    SuiteId::ChaCha20Poly1305,
    "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
    "a0a1a2a31011121314151617",
    "0102030400000005",
    "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec10
     0007362708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223
     2425262728292a2b2c2d2e2f303132333435363701020204",
    "24039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c6
     14ee8099d52844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3
     cbec163fac469b502773f6fb94e664da9165b82829f641e0",
    "76aaa8266b7fb0f7b11b369907e1ad43",
);

/// RFC 8439 section 2.8.2 and appendix A.5.
const CHACHA: [Vector; 2] = [
    (
        SuiteId::ChaCha20Poly1305,
        "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
        "070000004041424344454647",
        "50515253c0c1c2c3c4c5c6c7",
        "4c616469657320616e642047656e746c656d656e206f662074686520636c6173
         73206f66202739393a204966204920636f756c64206f6666657220796f75206f
         6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73
         637265656e20776f756c642062652069742e",
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6
         3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36
         92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
         3ff4def08e4b7a9de576d26586cec64b6116",
        "1ae10b594f09e26a7e902ecbd0600691",
    ),
    (
        SuiteId::ChaCha20Poly1305,
        "1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0",
        "000000000102030405060708",
        "f33388860000000000004e91",
        "496e7465726e65742d4472616674732061726520647261667420646f63756d65
         6e74732076616c696420666f722061206d6178696d756d206f6620736978206d
         6f6e74687320616e64206d617920626520757064617465642c207265706c6163
         65642c206f72206f62736f6c65746564206279206f7468657220646f63756d65
         6e747320617420616e792074696d652e20497420697320696e617070726f7072
         6961746520746f2075736520496e7465726e65742d4472616674732061732072
         65666572656e6365206d6174657269616c206f7220746f206369746520746865
         6d206f74686572207468616e206173202fe2809c776f726b20696e2070726f67
         726573732e2fe2809d",
        "64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb2
         4c6cfc18755d43eea09ee94e382d26b0bdb7b73c321b0100d4f03b7f355894cf
         332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c855
         9797a06ef4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4
         b9166c767b804d46a59b5216cde7a4e99040c5a40433225ee282a1b0a06c523e
         af4534d7f83fa1155b0047718cbc546a0d072b04b3564eea1b422273f548271a
         0bb2316053fa76991955ebd63159434ecebb4e466dae5a1073a6727627097a10
         49e617d91d361094fa68f0ff77987130305beaba2eda04df997b714d6c6f2c29
         a6ad5cb4022b02709b",
        "eead9d67890cbb22392336fea1851f38",
    ),
];

#[test]
fn gcm_specification() {
    GCM.iter().for_each(both_ways);
}

#[test]
fn esp_packets_under_gcm() {
    ESP_GCM.iter().for_each(both_ways);
}

#[test]
fn esp_packet_under_chacha20_poly1305() {
    both_ways(&ESP_CHACHA);
}

#[test]
fn chacha20_poly1305_specification() {
    CHACHA.iter().for_each(both_ways);
}

#[test]
fn hmac_sha256() {
    // RFC 4231 test cases have keys of 4, 20, 25 and 131 octets; case 1's key extended with zeros to 32 is the same key,
    // since HMAC pads with zeros to the block (RFC 2104 section 2).
    let mut key = vec![0x0b; 20];
    key.resize(32, 0);
    let fingerprint = KeyedFingerprint::new(&Secret::new(key)).unwrap();
    let want = hex("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_eq!(fingerprint.of(b"Hi There").to_vec(), want);
    let mut key = b"Jefe".to_vec();
    key.resize(32, 0);
    let fingerprint = KeyedFingerprint::new(&Secret::new(key)).unwrap();
    let want = hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    assert_eq!(fingerprint.of(b"what do ya want for nothing?").to_vec(), want);
    for len in [0, 31, 33] {
        assert!(KeyedFingerprint::new(&Secret::new(vec![1; len])).is_err(), "{len}");
    }
}
