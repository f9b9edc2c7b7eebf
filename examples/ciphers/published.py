"""Published test vectors: (source, mode, fields) for each cipher. The fields are those of the vector files."""

COUNTING = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
DOUBLES = "00112233445566778899aabbccddeeff"

# NIST SP 800-38A appendix F: one plaintext and one AES-256 key for all modes.
SP800_KEY = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
SP800_MSG = (
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)

GOST_KEY = "8899aabbccddeeff0011223344556677fedcba98765432100123456789abcdef"
GOST_MSG = (
    "1122334455667700ffeeddccbbaa998800112233445566778899aabbcceeff0a"
    "112233445566778899aabbcceeff0a002233445566778899aabbcceeff0a0011"
)

SUNSCREEN = (
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
    b"sunscreen would be it."
).hex()

VECTORS = {
    "aes256c": [
        ("FIPS-197 C.3", "block", {"key": COUNTING, "msg": DOUBLES, "ct": "8ea2b7ca516745bfeafc49904b496089"}),
        (
            "SP 800-38A F.1.5",
            "block",
            {
                "key": SP800_KEY,
                "msg": SP800_MSG,
                "ct": "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870"
                "b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7",
            },
        ),
        (
            "SP 800-38A F.2.5",
            "cbc",
            {
                "key": SP800_KEY,
                "iv": COUNTING[:32],
                "msg": SP800_MSG,
                "ct": "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"
                "39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
            },
        ),
        (
            "SP 800-38A F.5.5",
            "ctr",
            {
                "key": SP800_KEY,
                "iv": "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
                "msg": SP800_MSG,
                "ct": "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
                "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
            },
        ),
        (
            "RFC 3686 section 6, test vector 7",
            "ctr",
            {
                "key": "776beff2851db06f4c8a0542c8696f6c6a81af1eec96b4d37fc1d689e6c1c104",
                "iv": "00000060db5672c97aa8f0b200000001",
                "msg": b"Single block msg".hex(),
                "ct": "145ad01dbf824ec7560863dc71e3e0c0",
            },
        ),
        (
            "RFC 3686 section 6, test vector 8",
            "ctr",
            {
                "key": "f6d66d6bd52d59bb0796365879eff886c66dd51a5b6a99744b50590c87a23884",
                "iv": "00faac24c1585ef15a43d87500000001",
                "msg": COUNTING,
                "ct": "f05e231b3894612c49ee000b804eb2a9b8306b508f839d6a5530831d9344af1c",
            },
        ),
        (
            "GCM specification (McGrew, Viega), test case 16",
            "gcm",
            {
                "key": "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
                "iv": "cafebabefacedbaddecaf888",
                "aad": "feedfacedeadbeeffeedfacedeadbeefabaddad2",
                "msg": "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
                "ct": "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
                "tag": "76fc6ece0f4e1768cddf8853bb2d551b",
            },
        ),
    ],
    "maes512c": [
        (
            "the definition, docs/maes.md",
            "block",
            {
                "key": bytes(range(64)).hex(),
                "msg": DOUBLES,
                "ct": "1b5ab3c7353951a68330d7db8de9190b",
            },
        ),
    ],
    "kuznyechik": [
        (
            "RFC 7801 section 5 and GOST R 34.13-2015 A.1.1",
            "block",
            {
                "key": GOST_KEY,
                "msg": GOST_MSG,
                "ct": "7f679d90bebc24305a468d42b9d4edcdb429912c6e0032f9285452d76718d08b"
                "f0ca33549d247ceef3f5a5313bd4b157d0b09ccde830b9eb3a02c4c5aa8ada98",
            },
        ),
        (
            "GOST R 34.13-2015 A.1.2",
            "ctr",
            {
                "key": GOST_KEY,
                "iv": "1234567890abcef00000000000000000",
                "msg": GOST_MSG,
                "ct": "f195d8bec10ed1dbd57b5fa240bda1b885eee733f6a13e5df33ce4b33c45dee4"
                "a5eae88be6356ed3d5e877f13564a3a5cb91fab1f20cbab6d1c6d15820bdba73",
            },
        ),
    ],
    "sm4rs": [
        (
            "GB/T 32907-2016 appendix A.1",
            "block",
            {
                "key": "0123456789abcdeffedcba9876543210",
                "msg": "0123456789abcdeffedcba9876543210",
                "ct": "681edf34d206965e86b3e94f536e4246",
            },
        ),
        (
            "RFC 8998 appendix A.1",
            "gcm",
            {
                "key": "0123456789abcdeffedcba9876543210",
                "iv": "00001234567800000000abcd",
                "aad": "feedfacedeadbeeffeedfacedeadbeefabaddad2",
                "msg": "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd"
                "eeeeeeeeeeeeeeeeffffffffffffffffeeeeeeeeeeeeeeeeaaaaaaaaaaaaaaaa",
                "ct": "17f399f08c67d5ee19d0dc9969c4bb7d5fd46fd3756489069157b282bb200735"
                "d82710ca5c22f0ccfa7cbf93d496ac15a56834cbcf98c397b4024a2691233b8d",
                "tag": "83de3541e4c2b58177e065a9bf7b62ec",
            },
        ),
    ],
    "aria256rs": [
        ("RFC 5794 appendix A.3", "block", {"key": COUNTING, "msg": DOUBLES, "ct": "f92bd7c79fb72e2f2b8f80c1972d24fc"}),
    ],
    "camellia256rs": [
        (
            "RFC 3713 appendix A",
            "block",
            {
                "key": "0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff",
                "msg": "0123456789abcdeffedcba9876543210",
                "ct": "9acc237dff16d76c20ef7c919e3a7509",
            },
        ),
        (
            "RFC 5528 section 4, test vector 7",
            "ctr",
            {
                "key": "776beff2851db06f4c8a0542c8696f6c6a81af1eec96b4d37fc1d689e6c1c104",
                "iv": "00000060db5672c97aa8f0b200000001",
                "msg": b"Single block msg".hex(),
                "ct": "3401f9c8247effcebd6994714c1bbb11",
            },
        ),
    ],
    "chacha20cpp": [
        (
            "RFC 8439 section 2.3.2",
            "stream",
            {
                "key": COUNTING,
                "iv": "000000090000004a00000000",
                "offset": 64,
                "msg": "00" * 64,
                "ct": "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
                "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
            },
        ),
        (
            "RFC 8439 section 2.4.2",
            "stream",
            {
                "key": COUNTING,
                "iv": "000000000000004a00000000",
                "offset": 64,
                "msg": SUNSCREEN,
                "ct": "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
                "f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8"
                "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
                "5af90bbf74a35be6b40b8eedf2785e42874d",
            },
        ),
    ],
    "chachapolyrs": [
        (
            "RFC 8439 section 2.8.2",
            "aead",
            {
                "key": bytes(range(0x80, 0xA0)).hex(),
                "iv": "070000004041424344454647",
                "aad": "50515253c0c1c2c3c4c5c6c7",
                "msg": SUNSCREEN,
                "ct": "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
                "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
                "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
                "3ff4def08e4b7a9de576d26586cec64b6116",
                "tag": "1ae10b594f09e26a7e902ecbd0600691",
            },
        ),
        (
            "RFC 7634 appendix A: the AEAD of an ESP packet",
            "aead",
            {
                "key": bytes(range(0x80, 0xA0)).hex(),
                "iv": "a0a1a2a31011121314151617",
                "aad": "0102030400000005",
                "msg": "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec10"
                "0007362708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223"
                "2425262728292a2b2c2d2e2f303132333435363701020204",
                "ct": "24039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c6"
                "14ee8099d52844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3"
                "cbec163fac469b502773f6fb94e664da9165b82829f641e0",
                "tag": "76aaa8266b7fb0f7b11b369907e1ad43",
            },
        ),
    ],
}
