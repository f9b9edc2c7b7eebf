//! Tests of the language of setkey(8): every statement, algorithm and error; the examples of its manual page.

use crypto::custom::{CustomDescription, Primitive};
use crypto::{Cipher, Integrity, SuiteId, Suites};
use proptest::prelude::*;
use sadb::sa::{Encapsulation, SaProtocol};
use sadb::setkey::{
    AddStatement, PolicyAction, PolicyDirection, PolicyLevel, PolicyStatement, SetkeyError, Statement, Upper,
};
use sadb::spd::PortRange;
use sadb::{Mode, Spi};

const ENDS: &str = "add 192.0.2.1 192.0.2.2";

fn parse(text: &str) -> Result<Vec<Statement>, SetkeyError> {
    sadb::setkey::parse(text, &Suites::standard())
}

fn one(text: &str) -> Statement {
    let mut statements = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0)
}

fn add(text: &str) -> AddStatement {
    match one(text) {
        Statement::Add(add) => *add,
        other => panic!("{text}: {other:?}"),
    }
}

fn policy(text: &str) -> PolicyStatement {
    match one(text) {
        Statement::SpdAdd(policy) => *policy,
        other => panic!("{text}: {other:?}"),
    }
}

/// A key of this many octets, in digits.
fn key(len: usize) -> String {
    (0..len).fold("0x".to_owned(), |text, octet| text + &format!("{:02x}", octet % 251 + 1))
}

fn octets(len: usize) -> Vec<u8> {
    (0..len).map(|octet| (octet % 251 + 1) as u8).collect()
}

#[test]
fn every_statement() {
    let text = "flush; flush esp; spdflush; dump; dump ah; spddump; get 192.0.2.1 192.0.2.2 esp 0x1000;\n\
        delete -4 192.0.2.1 192.0.2.2 ah 4096; spddelete 10.0.0.0/8 0.0.0.0/0 any -P out;";
    let statements = parse(text).unwrap();
    assert_eq!(
        statements[..3],
        [
            Statement::Flush { line: 1, protocol: None },
            Statement::Flush { line: 1, protocol: Some(SaProtocol::Esp) },
            Statement::SpdFlush { line: 1 }
        ]
    );
    assert_eq!(statements[3..7], [Statement::Show, Statement::Show, Statement::Show, Statement::Show]);
    assert_eq!(
        statements[7],
        Statement::Delete {
            line: 2,
            src: "192.0.2.1".parse().unwrap(),
            dst: "192.0.2.2".parse().unwrap(),
            protocol: SaProtocol::Ah,
            spi: Spi(4096)
        }
    );
    assert!(
        matches!(&statements[8], Statement::SpdDelete(policy) if policy.direction == PolicyDirection::Out)
    );
    assert_eq!(parse("# only a comment\n\n ;;").unwrap(), []);
}

#[test]
fn every_option_of_add() {
    let text = format!(
        "{ENDS} esp-udp 0xC0DE -m tunnel -r 4 -u 7 -f zero-pad -lh 100 -ls 90 -bh 1000 -bs 900 -E null -A hmac-sha1 {};",
        key(20)
    );
    let add = add(&text);
    assert_eq!((add.spi, add.mode, add.encapsulation), (Spi(0xc0de), Mode::Tunnel, Encapsulation::Udp));
    assert_eq!((add.replay_window, add.unique, add.line), (Some(64), Some(7), 1));
    assert_eq!((add.lifetime.hard.seconds, add.lifetime.soft.seconds), (100, 90));
    assert_eq!((add.lifetime.hard.bytes, add.lifetime.soft.bytes), (1000, 900));
    assert_eq!(add.keymat.expose(), octets(20));
}

#[test]
fn windows_become_powers_of_two() {
    for (octets, packets) in [(0, 0), (1, 64), (8, 64), (9, 128), (32, 256), (8191, 65536), (u32::MAX, 65536)]
    {
        let add = add(&format!("{ENDS} ah 0x1000 -r {octets} -A hmac-sha1 {};", key(20)));
        assert_eq!(add.replay_window, Some(packets));
    }
}

#[test]
fn every_cipher_and_every_length_of_its_key() {
    let table: [(&str, &[Cipher]); 14] = [
        ("null", &[Cipher::Null]),
        ("des-cbc", &[Cipher::DesCbc]),
        ("3des-cbc", &[Cipher::TripleDesCbc]),
        ("aes-cbc", &[Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc]),
        ("rijndael-cbc", &[Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc]),
        ("camellia-cbc", &[Cipher::Camellia128Cbc, Cipher::Camellia192Cbc, Cipher::Camellia256Cbc]),
        ("aes-ctr", &[Cipher::Aes128Ctr, Cipher::Aes192Ctr, Cipher::Aes256Ctr]),
        ("aes-gcm-16", &[Cipher::Aes128Gcm16, Cipher::Aes192Gcm16, Cipher::Aes256Gcm16]),
        ("aes-gcm-12", &[Cipher::Aes128Gcm12, Cipher::Aes192Gcm12, Cipher::Aes256Gcm12]),
        ("aes-gcm-8", &[Cipher::Aes128Gcm8, Cipher::Aes192Gcm8, Cipher::Aes256Gcm8]),
        ("aes-ccm-16", &[Cipher::Aes128Ccm16, Cipher::Aes192Ccm16, Cipher::Aes256Ccm16]),
        ("aes-ccm-12", &[Cipher::Aes128Ccm12, Cipher::Aes192Ccm12, Cipher::Aes256Ccm12]),
        ("aes-ccm-8", &[Cipher::Aes128Ccm8, Cipher::Aes192Ccm8, Cipher::Aes256Ccm8]),
        ("chacha20-poly1305", &[Cipher::ChaCha20Poly1305]),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for (name, members) in table {
        for len in 0..=48 {
            let digits = if len == 0 { String::new() } else { key(len) };
            let member = members.iter().find(|c| c.key_len() + c.salt_len() == len);
            let combined = members[0].is_combined();
            let integrity = if combined { String::new() } else { format!("-A hmac-sha256 {}", key(32)) };
            let answer = parse(&format!("{ENDS} esp 0x1000 -E {name} {digits} {integrity};"));
            let Some(member) = member else {
                let error = answer.unwrap_err();
                assert_eq!(error.line, 1);
                assert!(!error.text.contains("010203"), "{error}");
                continue;
            };
            seen.insert(*member);
            let Ok([Statement::Add(add)]) = answer.as_deref() else { panic!("{name} {len}: {answer:?}") };
            let own = if combined { Integrity::Combined } else { Integrity::HmacSha256 };
            assert_eq!(add.suite, SuiteId::new(*member, own));
            let mut keys = octets(len);
            keys.extend(octets(if combined { 0 } else { 32 }));
            assert_eq!(add.keymat.expose(), keys, "{name}: the cipher's key comes first");
        }
    }
    assert_eq!(seen.len(), Cipher::ALL.len(), "every cipher there is has a name");
}

#[test]
fn every_integrity_algorithm_in_ah_and_in_esp() {
    let table = [
        ("hmac-md5", Integrity::HmacMd5),
        ("hmac-sha1", Integrity::HmacSha1),
        ("hmac-sha2-256", Integrity::HmacSha256),
        ("hmac-sha256", Integrity::HmacSha256),
        ("hmac-sha2-384", Integrity::HmacSha384),
        ("hmac-sha384", Integrity::HmacSha384),
        ("hmac-sha2-512", Integrity::HmacSha512),
        ("hmac-sha512", Integrity::HmacSha512),
        ("aes-xcbc-mac", Integrity::AesXcbc),
        ("aes-cmac", Integrity::AesCmac),
        ("aes-gmac", Integrity::Aes128Gmac),
        ("aes-gmac", Integrity::Aes192Gmac),
        ("aes-gmac", Integrity::Aes256Gmac),
    ];
    for (name, integrity) in table {
        let len = integrity.keymat_len();
        for text in [
            format!("{ENDS} ah 0x1000 -A {name} {};", key(len)),
            format!("{ENDS} esp 0x1000 -A {name} {};", key(len)),
            format!("{ENDS} esp 0x1000 -E null -A {name} {};", key(len)),
        ] {
            let add = add(&text);
            assert_eq!(add.suite, SuiteId::authenticating(integrity), "{text}");
            assert_eq!(add.keymat.expose(), octets(len));
        }
        let error = parse(&format!("{ENDS} ah 0x1000 -A {name} {};", key(len + 1))).unwrap_err();
        assert!(
            error.text.contains(&len.to_string()) && error.text.contains(&(len + 1).to_string()),
            "{error}"
        );
    }
    let named: std::collections::BTreeSet<_> = table.iter().map(|(_, integrity)| *integrity).collect();
    assert_eq!(named.len(), Integrity::ALL.len() - 1, "every one but the ciphers' own has a name");
}

#[test]
fn keys_are_digits_or_what_stands_in_quotes() {
    let add_in = |key: &str| add(&format!("{ENDS} ah 0x1000 -A hmac-md5 {key};"));
    assert_eq!(add_in("\"sixteen; octets#\"").keymat.expose(), b"sixteen; octets#");
    assert_eq!(add_in("0xC0DEc0dec0dec0dec0dec0dec0dec0de").keymat.expose(), [0xc0, 0xde].repeat(8));
    for bad in ["0x", "0x012", "c0dec0dec0dec0dec0dec0dec0dec0de", "0xzz", "0x+1", "word", ""] {
        let error = parse(&format!("{ENDS} ah 0x1000 -A hmac-md5 {bad};")).unwrap_err();
        assert!(!error.text.contains("c0de"), "{error}");
    }
}

#[test]
fn compression() {
    let add = add(&format!("{ENDS} ipcomp 0x1000 -C deflate;"));
    assert_eq!((add.protocol, add.suite, add.keymat.len()), (SaProtocol::IpComp, None, 0));
}

#[test]
fn the_examples_of_the_manual_page() {
    // 8 octets of DES alone: no integrity.
    let refused = [
        (
            "add 3ffe:501:4819::1 3ffe:501:481d::1 esp 123457 -E des-cbc 0x3ffe05014819ffff ;",
            "without integrity",
        ),
        ("add 10.1.10.34 10.1.10.36 tcp 0x1000 -A tcp-md5 \"TCP-MD5 BGP secret\" ;", "no protocol"),
        (
            "add -6 myhost.example.com yourhost.example.com ah 123456 -A hmac-sha1 \"AH SA configuration!\" ;",
            "address",
        ),
        (
            "add 10.0.11.41 10.0.11.33 esp 0x10001 -ctx 1 1 \"system_u:system_r:unconfined_t:SystemLow-SystemHigh\" \
             -E des-cbc 0x3ffe05014819ffff;",
            "\"-ctx\" is no option",
        ),
        (
            "add 10.0.11.41 10.0.11.33 ah 0x10001 -f cyclic-seq -A hmac-sha1 \"AH SA configuration!\";",
            "never begin again",
        ),
        (
            "add 10.0.11.41 10.0.11.33 ah 0x10001 -f pad -A hmac-sha1 \"AH SA configuration!\";",
            "\"pad\" is unknown",
        ),
    ];
    for (text, part) in refused {
        let error = parse(text).unwrap_err();
        assert!(error.text.contains(part), "{error}");
    }
    let ah = add("add -6 2001:db8::1 2001:db8::2 ah 123456 -A hmac-sha1 \"AH SA configuration!\" ;");
    assert_eq!((ah.spi, ah.keymat.expose()), (Spi(123_456), &b"AH SA configuration!"[..]));
    let esp = add(
        "add 10.0.11.41 10.0.11.33 esp 0x10001 -E des-cbc 0x3ffe05014819ffff -A hmac-md5 \"authentication!!\" ;",
    );
    assert_eq!(esp.suite, SuiteId::new(Cipher::DesCbc, Integrity::HmacMd5));
    assert_eq!(esp.keymat.len(), 24);
    assert_eq!(one("get 3ffe:501:4819::1 3ffe:501:481d::1 ah 123456 ;"), Statement::Show);
    assert_eq!(one("dump esp ;"), Statement::Show);
    let policy = policy(
        "spdadd 10.0.11.41/32[21] 10.0.11.33/32[any] any -P out ipsec esp/tunnel/192.168.0.1-192.168.1.2/require ;",
    );
    assert_eq!((policy.src.ports, policy.dst.ports), (PortRange::one(21), PortRange::ANY));
    let PolicyAction::Protect(requests) = policy.action else { panic!() };
    let ends = requests[0].ends.unwrap();
    assert_eq!((ends.0.to_string(), ends.1.to_string()), ("192.168.0.1".into(), "192.168.1.2".into()));
    assert_eq!((requests[0].mode, requests[0].level), (Mode::Tunnel, PolicyLevel::Require));
}

#[test]
fn the_examples_of_the_howto() {
    // The two-host transport example that most documents copy, with algorithms of today.
    let text = "#!/usr/sbin/setkey -f\nflush;\nspdflush;\n\
        # AH\nadd 10.0.0.11 10.0.0.216 ah 15700 -A hmac-sha1 \"12345678901234567890\";\n\
        add 10.0.0.216 10.0.0.11 ah 24500 -A hmac-sha1 \"12345678901234567890\";\n\
        # ESP\nadd 10.0.0.11 10.0.0.216 esp 15701 -E aes-cbc \"1234567890123456\" -A hmac-sha1 \"12345678901234567890\";\n\
        add 10.0.0.216 10.0.0.11 esp 24501 -E 3des-cbc \"123456789012123456789012\" -A hmac-md5 \"1234567890123456\";\n\
        spdadd 10.0.0.216 10.0.0.11 any -P out ipsec\n\tesp/transport//require\n\tah/transport//require;\n\
        spdadd 172.16.1.0/24 172.16.2.0/24 any -P out ipsec esp/tunnel/192.168.1.100-192.168.2.100/require;\n\
        spdadd 172.16.2.0/24 172.16.1.0/24 any -P fwd none;\n\
        spdadd 2001:db8::/32 ::/0 icmp6,128,0 -P in discard;\n";
    let statements = parse(text).unwrap();
    assert_eq!(statements.len(), 10);
    let Statement::SpdAdd(chain) = &statements[6] else { panic!() };
    let PolicyAction::Protect(requests) = &chain.action else { panic!() };
    assert_eq!(requests.iter().map(|r| r.protocol).collect::<Vec<_>>(), [SaProtocol::Esp, SaProtocol::Ah]);
    assert_eq!(chain.line, 10);
    let Statement::SpdAdd(fwd) = &statements[8] else { panic!() };
    assert_eq!((fwd.direction, &fwd.action), (PolicyDirection::Forward, &PolicyAction::Bypass));
    let Statement::SpdAdd(icmp) = &statements[9] else { panic!() };
    assert_eq!(icmp.upper, Upper::Icmp { protocol: 58, kind: 128, code: Some(0) });
}

#[test]
fn upper_layers_and_levels() {
    let upper = |word: &str| policy(&format!("spdadd ::1 ::2 {word} -P in none;")).upper;
    for (word, want) in [
        ("any", Upper::Any),
        ("tcp", Upper::Protocol(6)),
        ("udp", Upper::Protocol(17)),
        ("icmp", Upper::Protocol(1)),
        ("icmp6", Upper::Protocol(58)),
        ("ip4", Upper::Protocol(4)),
        ("sctp", Upper::Protocol(132)),
        ("89", Upper::Protocol(89)),
        ("icmp,3", Upper::Icmp { protocol: 1, kind: 3, code: None }),
        ("icmp6,1,4", Upper::Icmp { protocol: 58, kind: 1, code: Some(4) }),
        // As in an example of setkey(8).
        ("icmp6 135,0", Upper::Icmp { protocol: 58, kind: 135, code: Some(0) }),
        ("ipv6-icmp 136", Upper::Icmp { protocol: 58, kind: 136, code: None }),
        ("1 8,0", Upper::Icmp { protocol: 1, kind: 8, code: Some(0) }),
    ] {
        assert_eq!(upper(word), want, "{word}");
    }
    let level = |word: &str| {
        let policy = policy(&format!("spdadd ::1 ::2 any -P out ipsec ah/transport//{word};"));
        let PolicyAction::Protect(requests) = policy.action else { panic!() };
        requests[0].level
    };
    assert_eq!(level("use"), PolicyLevel::Use);
    assert_eq!((level("require"), level("default")), (PolicyLevel::Require, PolicyLevel::Require));
    assert_eq!(
        (level("unique"), level("unique:12")),
        (PolicyLevel::Unique(None), PolicyLevel::Unique(Some(12)))
    );
}

#[test]
fn every_error_has_its_line_and_no_key() {
    const SECRET: &str = "0xc0ffeec0ffeec0ffeec0ffeec0ffeec0ffee";
    let sha = format!("-A hmac-sha1 {}", key(20));
    let cases: Vec<(String, u32, &str)> = vec![
        ("frobnicate;".into(), 1, "no command"),
        (format!("\n{SECRET};"), 2, "no command"),
        ("\"secret in quotes\";".into(), 1, "no command"),
        ("flush".into(), 1, "semicolon"),
        ("\n\nadd \"half".into(), 3, "closing quote"),
        ("flush esp esp;".into(), 1, "not expected"),
        ("flush gre;".into(), 1, "no protocol"),
        ("deleteall ::1 ::2 esp;".into(), 1, "deleteall"),
        ("add;".into(), 1, "the source is missing"),
        ("add here ::2 esp 1;".into(), 1, "must be an IPv4 or IPv6 address"),
        ("add ::1;".into(), 1, "the destination is missing"),
        ("add ::1 ::2 esp-old 1;".into(), 1, "no replay protection"),
        ("add ::1 ::2 esp 0x100000000;".into(), 1, "32 bits"),
        (format!("add ::1 ::2 esp {SECRET};"), 1, "32 bits"),
        ("add ::1 ::2 esp 4096;".into(), 1, "without integrity"),
        ("add ::1 ::2 ah 4096;".into(), 1, "ah takes -A"),
        (format!("add ::1 ::2 ah 4096 -E null {sha};"), 1, "ah takes -A"),
        (format!("add ::1 ::2 ipcomp 4096 {sha};"), 1, "no keys"),
        (format!("add ::1 ::2 esp 4096 -C deflate {sha};"), 1, "belongs to ipcomp"),
        ("add ::1 ::2 ipcomp 4096 -C lzs;".into(), 1, "known: deflate"),
        ("add ::1 ::2 ipcomp 4096 -C deflate -R;".into(), 1, "-R"),
        (format!("add ::1 ::2 esp 4096 -m any {sha};"), 1, "leaves open"),
        (format!("add ::1 ::2 esp 4096 -m sideways {sha};"), 1, "no mode"),
        (format!("add ::1 ::2 esp 4096\n-r many {sha};"), 2, "must be a number"),
        (format!("add ::1 ::2 esp 4096 {sha} {SECRET};"), 1, "no option"),
        (format!("add ::1 ::2 esp 4096 {sha} \"another secret\";"), 1, "no option"),
        (format!("add ::1 ::2 esp 4096 -E rot13 {SECRET};"), 1, "no algorithm here; known: null, des-cbc"),
        (format!("add ::1 ::2 esp 4096 -E {SECRET};"), 1, "no algorithm here"),
        (format!("add ::1 ::2 esp 4096 -E aes-cbc {SECRET} {sha};"), 1, "16 or 24 or 32 octets"),
        (format!("add ::1 ::2 esp 4096 -E aes-gcm-16 {} {sha};", key(20)), 1, "its own integrity"),
        (
            format!("add ::1 ::2 esp 4096 -E aes-cbc {} -A aes-gmac {};", key(16), key(20)),
            1,
            "does not go with",
        ),
        ("add ::1 ::2 esp 4096 -E aes-cbc;".into(), 1, "the key is missing"),
        ("spdadd ::1 ::2 any;".into(), 1, "-P is missing"),
        ("spdadd ::1 ::2 any -Q in none;".into(), 1, "-P is expected"),
        ("spdadd ::1 ::2 any -P up none;".into(), 1, "no direction"),
        ("spdadd ::1 ::2 any -P out;".into(), 1, "discard, none or ipsec"),
        ("spdadd ::1 ::2 any -P out prio 5 none;".into(), 1, "priorities"),
        ("spdadd ::1 ::2 any -P out encrypt;".into(), 1, "no policy here"),
        ("spdadd ::1 ::2 any -P out none none;".into(), 1, "not expected"),
        ("spdadd ::1 ::2 any -P out ipsec;".into(), 1, "needs at least one"),
        ("spdadd ::1 ::2 any -P out ipsec gre/transport//use;".into(), 1, "no protocol"),
        ("spdadd ::1 ::2 any -P out ipsec esp/sideways//use;".into(), 1, "no mode"),
        ("spdadd ::1 ::2 any -P out ipsec esp/tunnel//use;".into(), 1, "needs its ends"),
        ("spdadd ::1 ::2 any -P out ipsec esp/tunnel/a-b/use;".into(), 1, "no tunnel ends"),
        ("spdadd ::1 ::2 any -P out ipsec esp/transport//often;".into(), 1, "no level"),
        ("spdadd ::1 ::2 any -P out ipsec esp/transport//use/x;".into(), 1, "too many"),
        ("spdadd ::1/129 ::2 any -P out none;".into(), 1, "the source must be"),
        ("spdadd ::1 ::2[70000] any -P out none;".into(), 1, "the destination must be"),
        ("spdadd ::1 ::2[5 any -P out none;".into(), 1, "the destination must be"),
        ("spdadd ::1 ::2 ospf -P out none;".into(), 1, "no upper layer"),
        ("spdadd ::1 ::2 tcp,1 -P out none;".into(), 1, "no upper layer"),
        ("spdadd ::1 ::2 icmp,300 -P out none;".into(), 1, "each from 0 to 255"),
        ("spdadd ::1 ::2 icmp6 300,0 -P out none;".into(), 1, "\"300,0\" is no ICMP type and code"),
        ("spdadd ::1 ::2 icmp6,1,2,3 -P out none;".into(), 1, "each from 0 to 255"),
        ("spdadd ::1 ::2 icmp6,1 2 -P out none;".into(), 1, "-P is expected"),
        ("spdadd ::1 ::2 tcp 1,2 -P out none;".into(), 1, "-P is expected"),
        ("spdadd ::1 ::2 ospf -P in none;".into(), 1, "gre, sctp"),
    ];
    for (text, line, part) in cases {
        let error = parse(&text).expect_err(&text);
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.text.contains(part), "{text}: {error}");
        for secret in ["c0ffee", "secret", "010203"] {
            assert!(!error.to_string().contains(secret), "{text}: {error}");
        }
        assert!(!format!("{error:?}").contains("c0ffee"));
    }
}

/// A word is not shown if it has to be escaped: the escape of a zero octet looks like a digit of what is behind it.
#[test]
fn a_word_that_cannot_be_printed_is_not_repeated() {
    for word in ["aes-\0\x3000102030", "aes-\u{1}", "aes\u{2011}cbc", "aés"] {
        let error = parse(&format!("{ENDS} esp 0x1000 -E {word} 0x00;")).expect_err(word);
        assert!(error.text.starts_with("that word is no algorithm here"), "{error}");
    }
    let error = parse(&format!("{ENDS} esp 0x1000 -E aes_cbc 0x00;")).expect_err("an algorithm");
    assert!(error.text.starts_with("\"aes_cbc\" is no algorithm here"), "{error}");
}

#[test]
fn a_statement_does_not_show_its_key_either() {
    let statement = one(&format!("{ENDS} ah 0x1000 -A hmac-sha1 {};", key(20)));
    assert!(!format!("{statement:?}").contains("1, 2, 3"), "{statement:?}");
}

fn word() -> impl Strategy<Value = String> {
    let words = [
        "add",
        "delete",
        "flush",
        "spdadd",
        "spddelete",
        "spdflush",
        "dump",
        "192.0.2.1",
        "2001:db8::1",
        "10.0.0.0/8[80]",
        "::/0[any]",
        "esp",
        "ah",
        "esp-udp",
        "ipcomp",
        "0x1000",
        "70000",
        "-m",
        "tunnel",
        "transport",
        "-E",
        "-A",
        "-C",
        "aes-cbc",
        "aes-gcm-16",
        "hmac-sha1",
        "deflate",
        "null",
        "-P",
        "in",
        "out",
        "ipsec",
        "none",
        "any",
        "tcp",
        "icmp,8,0",
        "esp/transport//require",
        "esp/tunnel/192.0.2.1-192.0.2.2/unique:3",
        "-r",
        "-u",
        "-lh",
        "4",
        ";",
        "\n",
        "#",
        "\"",
    ];
    prop_oneof![
        8 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => (1usize..40).prop_map(key),
        1 => "\\PC{0,12}",
    ]
}

proptest! {
    #[test]
    fn nothing_panics(text in "\\PC{0,200}", words in proptest::collection::vec(word(), 0..30)) {
        let _ = parse(&text);
        let text = words.join(" ");
        if let Err(error) = parse(&text) {
            prop_assert!(error.line >= 1 && error.line as usize <= text.lines().count().max(1));
            prop_assert!(!error.text.is_empty());
        }
    }

    #[test]
    fn what_is_written_is_read(
        src: std::net::Ipv4Addr, dst: std::net::Ipv6Addr, spi in 256u32.., hex: bool, key in proptest::collection::vec(any::<u8>(), 36),
        unique: Option<u32>, seconds: u64,
    ) {
        let digits: String = key.iter().map(|octet| format!("{octet:02x}")).collect();
        let number = if hex { format!("{spi:#x}") } else { spi.to_string() };
        let unique_option = unique.map_or_else(String::new, |n| format!("-u {n}"));
        let text = format!("add {src} {dst} esp {number} {unique_option} -lh {seconds} -E aes-gcm-16 0x{digits} ;");
        let add = add(&text);
        prop_assert_eq!((add.src, add.dst, add.spi), (src.into(), dst.into(), Spi(spi)));
        prop_assert_eq!((add.unique, add.lifetime.hard.seconds), (unique, seconds));
        prop_assert_eq!(add.keymat.expose(), &key[..]);
        prop_assert_eq!(add.suite, SuiteId::new(Cipher::Aes256Gcm16, Integrity::Combined));
    }
}

#[test]
fn ciphers_of_ones_own_are_named_by_cipher_and_mode() {
    let description = |name: &str, primitive| CustomDescription {
        name: name.to_owned(),
        version: "1".to_owned(),
        vendor: "test".to_owned(),
        primitive,
        key_len: 64,
        max_octets: None,
    };
    let mut suites = Suites::standard();
    suites.register(&description("maes512", Primitive::Block { block_len: 16 }), 40_000, true).unwrap();
    suites.register(&description("flow", Primitive::Stream), 40_004, false).unwrap();
    suites.register(&description("box1", Primitive::Aead { tag_len: 16 }), 40_008, false).unwrap();
    let mac = format!(" -A hmac-sha2-256 {}", key(32));
    for (name, octets, behind, want) in [
        ("maes512-ctr", 68, mac.as_str(), "maes512ctr-sha256"),
        ("maes512-cbc", 64, mac.as_str(), "maes512cbc-sha256"),
        ("maes512-gcm", 68, "", "maes512gcm"),
        ("maes512-ctr-aes256gcm", 104, "", "maes512ctr-aes256gcm"),
        ("flow", 68, mac.as_str(), "flow-sha256"),
        ("flow-aes256gcm", 104, "", "flow-aes256gcm"),
    ] {
        let text = format!("{ENDS} esp 4096 -E {name} {}{behind};", key(octets));
        let statements =
            sadb::setkey::parse(&text, &suites).unwrap_or_else(|error| panic!("{text}: {error}"));
        let Statement::Add(add) = &statements[0] else { panic!("{statements:?}") };
        let suite = add.suite.unwrap();
        assert_eq!(suite.to_string(), want);
        assert_eq!(add.keymat.len(), suite.keymat_len(), "{name}");
        let short = format!("{ENDS} esp 4096 -E {name} {}{behind};", key(octets - 1));
        let refused = sadb::setkey::parse(&short, &suites).unwrap_err().to_string();
        assert!(refused.contains(&format!("{octets} octets, salt included")), "{refused}");
        // Without the configuration of the cipher it is not known.
        assert!(parse(&text).unwrap_err().to_string().contains("is no algorithm here"));
    }
    // It rests on the cipher alone, which its configuration does not allow.
    let text = format!("{ENDS} esp 4096 -E box1 {};", key(68));
    let refused = sadb::setkey::parse(&text, &suites).unwrap_err().to_string();
    assert!(refused.contains("known: ") && refused.contains("maes512-ctr, ") && !refused.contains(", box1"));
}
