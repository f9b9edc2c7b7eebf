//! Tables of configurations: what is read, and which faults are reported where.

use std::path::{Path, PathBuf};

use super::*;

fn parse(text: &str) -> Result<Config, Report> {
    match Config::parse(Path::new("/etc/ravelin/ravelin.toml"), text) {
        Ok(config) => Ok(config),
        Err(ConfigError::Bad(report)) => Err(report),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_shortest_file_takes_every_default() {
    let config = parse("policy = \"ravelin.policy\"\n").unwrap();
    assert_eq!(
        config,
        Config {
            file: PathBuf::from("/etc/ravelin/ravelin.toml"),
            instance: "main".into(),
            policy: PathBuf::from("/etc/ravelin/ravelin.policy"),
            translation: Translation::Compiled,
            control_socket: PathBuf::from("/run/ravelin/main/control.sock"),
            uplinks: None,
            cgroup: None,
            marks: wire::Marks::default(),
            socket_requests: true,
            tun: TunConfig { name: "rvl0".into(), queue: 512 },
            enc: Some("rvle0".into()),
            esp: EspConfig { port: 4500, path_mtu: None, keepalive: 20 },
            icmp: IcmpConfig::default(),
            gateway: None,
            audit: None,
            flows: None,
            names: NamesConfig::default(),
            outer: OuterIo::Udp,
            tunnels_from: Default::default(),
            scrub: ScrubConfig::default(),
            crypto: crate::CryptoConfig::default(),
            qos: None,
            log: LogLevel::Info,
        }
    );
}

#[test]
fn the_audit_log_has_a_file_a_size_and_a_rate() {
    let audit = |lines: &str| parse(&format!("policy = \"p\"\n[audit]\n{lines}"));
    let file = PathBuf::from("/var/log/ravelin/audit.jsonl");
    let shortest = audit("file = \"/var/log/ravelin/audit.jsonl\"").unwrap().audit;
    assert_eq!(
        shortest,
        Some(AuditConfig { file: file.clone(), size: 16 << 20, per_second: 32, remote: None })
    );
    let all = audit("file = \"/var/log/ravelin/audit.jsonl\"\nsize = 1\nper_second = 0").unwrap().audit;
    assert_eq!(all, Some(AuditConfig { file, size: 1 << 20, per_second: 0, remote: None }));
    for (lines, text) in [
        ("", "names no file"),
        ("size = 1", "names no file"),
        ("file = \"\"", "is not a path"),
        ("file = 3", "must be a string"),
        ("file = \"f\"\nsize = 0", "from 1 to 4096"),
        ("file = \"f\"\nper_second = -1", "from 0 to 10000"),
        ("file = \"f\"\nrate = 1", "unknown key `rate`"),
    ] {
        let report = audit(lines).unwrap_err().to_string();
        assert!(report.contains(text), "{lines}: {report}");
    }
}

#[test]
fn flows_are_counted_if_the_table_is_there() {
    let flows = |lines: &str| parse(&format!("policy = \"p\"\n[flows]\n{lines}"));
    assert_eq!(flows("").unwrap().flows, Some(FlowsConfig::default()));
    let all = "log = \"f\"\nsize = 1\nfiles = 2\nunpoliced = true\nidle = 5\ninterval = 30";
    let want = FlowsConfig {
        log: Some("/etc/ravelin/f".into()),
        size: 1 << 20,
        files: 2,
        unpoliced: true,
        idle: std::time::Duration::from_secs(5),
        interval: std::time::Duration::from_secs(30),
    };
    assert_eq!(flows(all).unwrap().flows, Some(want));
    for (lines, text) in [
        ("log = \"\"", "is not a path"),
        ("unpoliced = 1", "must be true or false"),
        ("files = 0", "from 1 to 64"),
        ("idle = 1", "from 2 to 3600"),
        ("every = 1", "unknown key `every`"),
    ] {
        let report = flows(lines).unwrap_err().to_string();
        assert!(report.contains(text), "{lines}: {report}");
    }
}

#[test]
fn every_key_is_read() {
    let config = parse(
        "instance = \"alice\"\npolicy = \"/srv/p\"\nlog = \"debug\"\ncontrol_socket = \"c.sock\"\n\
         uplinks = [\"eth0\", \"eth1\"]\ncgroup = \"/sys/fs/cgroup/apps\"\nmark_mask = 0x003fffff\n\
         enc = true\nenc_name = \"clear7\"\n[tun]\nname = \"rvl7\"\nqueue = 1_00\n[esp]\nport = 0x1195\npath_mtu = 1400\n",
    )
    .unwrap();
    assert_eq!(config.instance, "alice");
    assert_eq!(config.policy, Path::new("/srv/p"));
    assert_eq!(config.log, LogLevel::Debug);
    assert_eq!(config.control_socket, Path::new("/etc/ravelin/c.sock"));
    assert_eq!(config.run_dir(), Path::new("/run/ravelin-state/alice"));
    assert_eq!(config.uplinks, Some(vec!["eth0".into(), "eth1".into()]));
    assert_eq!(config.marks.mask(), 0x003f_ffff);
    assert_eq!(config.cgroup, Some(PathBuf::from("/sys/fs/cgroup/apps")));
    assert_eq!(config.tun, TunConfig { name: "rvl7".into(), queue: 100 });
    assert_eq!(config.esp, EspConfig { port: 4501, path_mtu: Some(1400), keepalive: 20 });
    assert_eq!(config.enc.as_deref(), Some("clear7"));
    let text = "policy = \"p\"\n[gateway]\ninside = [\"lan0\", \"lan1\"]\ndefault = \"bypass\"\nrules = \"site.rules\"\nicmp = [\"icmp/3/4\", \"icmpv6/2\"]";
    let gateway = GatewayConfig {
        inside: vec!["lan0".into(), "lan1".into()],
        bypass_the_rest: true,
        rules: Some("/etc/ravelin/site.rules".into()),
        icmp: Some(engine::IcmpPolicy::default().accept),
    };
    assert_eq!(parse(text).unwrap().gateway, Some(gateway));
    assert_eq!(parse("policy = \"p\"\n[io]\nouter = \"af_packet\"").unwrap().outer, OuterIo::Packet);
    let from = parse("policy = \"p\"\n[ipip]\nfrom = [\"192.0.2.9\", \"2001:db8::9\"]").unwrap().tunnels_from;
    assert_eq!(from, ["192.0.2.9", "2001:db8::9"].map(|text| text.parse().unwrap()).into());
    assert!(!parse("policy = \"p\"\nsocket_requests = false").unwrap().socket_requests);
    for off in ["enc = false", "enc = false\nenc_name = \"clear7\""] {
        assert_eq!(parse(&format!("policy = \"p\"\n{off}")).unwrap().enc, None);
    }
}

#[test]
fn icmp_and_keepalives_are_the_operators() {
    let config = parse(
        "policy = \"p\"\n[esp]\nkeepalive = 7\n[icmp]\naccept = [\"icmp/3/4\", \"icmp/3/1\", \"icmpv6/2\"]\ninner = []\n\
         quoted = \"unmatched\"\nper_second = 0\npmtu_floor = 1200\npmtu_age = 30\nrefusals = 9\n\
         probe = false\n",
    )
    .unwrap();
    assert_eq!(config.esp.keepalive, 7);
    let IcmpConfig { outer, inner, probe } = config.icmp;
    assert!(!probe);
    let kinds: Vec<_> = outer.accept.iter().map(|one| (one.version, one.kind, one.code)).collect();
    assert_eq!(kinds, [(4, 3, Some(4)), (4, 3, Some(1)), (6, 2, None)]);
    assert_eq!((outer.per_second, outer.path.floor_v4, outer.path.age.as_secs()), (0, 1200, 30));
    assert_eq!(outer.refusals, 9);
    assert_eq!((inner.accept.len(), inner.check), (0, engine::QuotedCheck::Unmatched));
    // RFC 4301 section 6.1.1: by default only what path MTU discovery needs.
    let IcmpConfig { outer, inner, probe } = parse("policy = \"p\"").unwrap().icmp;
    assert!(probe);
    let kinds: Vec<_> = outer.accept.iter().map(|one| (one.version, one.kind, one.code)).collect();
    assert_eq!(kinds, [(4, 3, Some(4)), (6, 2, None)]);
    assert_eq!(inner.check, engine::QuotedCheck::Always);
}

#[test]
fn the_socket_follows_the_instance() {
    let config = parse("policy = \"p\"\ninstance = \"bob\"").unwrap();
    assert_eq!(config.control_socket, Path::new("/run/ravelin/bob/control.sock"));
}

/// (text, line, column, a part of the message, a part of the remedy)
const FAULTS: [(&str, usize, usize, &str, &str); 50] = [
    ("policy = \"p\"\n[icmp]\nprobe = 1", 3, 9, "`probe` must be true or false", "probe = false"),
    ("policy = \"p\"\nmark_mask = 0x1ff", 2, 13, "the lower 3 of which", "no other program"),
    ("policy = \"p\"\nmark_mask = -1", 2, 13, "from 0 to 4294967295", "0x003fffff"),
    ("policy = \"p\"\n[esp]\nkeepalive = 0", 3, 13, "`keepalive` must be a number from 1 to 3600", "20"),
    ("policy = \"p\"\n[icmp]\naccept = \"icmp/3\"", 3, 10, "`accept` must be a list", "[] for none"),
    ("policy = \"p\"\n[icmp]\naccept = [\"icmp/8\"]", 3, 11, "\"icmp/8\" names no ICMP error", "icmp/TYPE"),
    ("policy = \"p\"\n[icmp]\ninner = [\"icmpv6/2/x\"]", 3, 10, "names no ICMP error", "icmpv6"),
    ("policy = \"p\"\n[icmp]\nquoted = \"some\"", 3, 10, "`quoted` cannot be \"some\"", "always"),
    ("policy = \"p\"\n[icmp]\npmtu_floor = 500", 3, 14, "`pmtu_floor` must be a number from 576", "1280"),
    ("policy = \"p\"\n[icmp]\npmtu_aeg = 1", 3, 1, "unknown key `pmtu_aeg` in [icmp]", "`pmtu_age`"),
    (
        "policy = \"p\"\n[io]\nouter = \"dpdk\"",
        3,
        9,
        "no way for outer packets is called \"dpdk\"",
        "use one of: udp, af_packet, af_xdp",
    ),
    ("policy = \"p\"\n[ipip]\nfrom = [\"bob\"]", 3, 9, "not the address of a host", "from = ["),
    ("policy = \"p\"\n[ipip]\nfrom = [\"224.0.0.1\"]", 3, 9, "not the address of a host", "from = ["),
    ("policy = \"p\"\n[ipip]\nfrom = \"192.0.2.9\"", 3, 8, "must be a list", "from = ["),
    (
        "policy = \"p\"\n[io]\nouter = \"af_packet\"\n[ipip]\nfrom = [\"192.0.2.9\"]",
        5,
        8,
        "[io] leaves deaf",
        "or [ipip]",
    ),
    ("policy = \"p\"\n[io]\nouter = \"af_paket\"", 3, 9, "no way for outer", "did you mean \"af_packet\"?"),
    ("policy = \"p\"\n[gateway]\nrules = \"r\"", 2, 1, "`inside` is missing", "inside = [\"lan0\"]"),
    ("policy = \"p\"\n[gateway]\ninside = \"lan0\"", 3, 10, "must be a list", "inside = [\"lan0\"]"),
    ("policy = \"p\"\n[gateway]\ninside = [\"lo\"]", 3, 11, "no network behind", "inside = "),
    (
        "policy = \"p\"\nuplinks = [\"a\", \"b\"]\n[gateway]\ninside = [\"b\"]",
        4,
        11,
        "inside and an uplink",
        "take it from one list",
    ),
    (
        "policy = \"p\"\n[gateway]\ninside = [\"a\"]\ndefault = \"bypas\"",
        4,
        11,
        "packets without a rule",
        "did you mean \"bypass\"?",
    ),
    (
        "policy = \"p\"\n[gateway]\ninside = [\"a\"]\ninsde = 1",
        4,
        1,
        "unknown key `insde`",
        "did you mean `inside`?",
    ),
    ("", 1, 1, "`policy` is missing", "policy = \"FILE\""),
    ("policy = \"p\"\npolcy = 1", 2, 1, "unknown key `polcy`", "did you mean `policy`?"),
    ("policy = \"p\"\nzzzzzz = 1", 2, 1, "unknown key `zzzzzz`", "known at the top: instance, policy"),
    ("policy = 7", 1, 10, "must be a string, not integer", "policy = \"...\""),
    ("policy = \"\"", 1, 10, "not a path", "name a file"),
    ("policy = \"p\"\ninstance = \"a/b\"", 2, 12, "cannot name an instance", "letters"),
    ("policy = \"p\"\ninstance = \"\"", 2, 12, "cannot name an instance", "letters"),
    ("policy = \"p\"\nlog = \"wran\"", 2, 7, "no log level is called \"wran\"", "did you mean \"warn\"?"),
    ("policy = \"p\"\nlog = 3", 2, 7, "must be a string", "log = "),
    ("policy = \"p\"\nuplinks = \"eth0\"", 2, 11, "must be a list", "uplinks = [\"eth0\"]"),
    ("policy = \"p\"\nuplinks = []", 2, 11, "must be a list of one or more", "default routes"),
    ("policy = \"p\"\nuplinks = [\"eth0\",\n  \"eth0\"]", 3, 3, "named twice", "remove"),
    ("policy = \"p\"\nuplinks = [\"lo\"]", 2, 12, "not an uplink", "other hosts"),
    ("policy = \"p\"\nuplinks = [\"a234567890123456\"]", 2, 12, "cannot name an interface", "15"),
    ("policy = \"p\"\ncgroup = \"apps\"", 2, 10, "not an absolute path", "/sys/fs/cgroup"),
    ("policy = \"p\"\nenc = \"rvle0\"", 2, 7, "must be true or false, not string", "enc_name"),
    ("policy = \"p\"\nenc_name = \"rvl0\"", 2, 12, "is another device", "rvle0"),
    ("policy = \"p\"\nenc_name = \"lo\"", 2, 12, "is another device", "rvle0"),
    ("policy = \"p\"\ntun = \"rvl0\"", 2, 7, "must be a table", "[tun]"),
    ("policy = \"p\"\n[tun]\nqueue = 0", 3, 9, "number from 1 to 1000", "512"),
    ("policy = \"p\"\n[tun]\nname = \"r v\"", 3, 8, "cannot name an interface", "white space"),
    ("policy = \"p\"\n[tun]\nquue = 1", 3, 1, "unknown key `quue` in [tun]", "did you mean `queue`?"),
    ("policy = \"p\"\n[esp]\nport = 70000", 3, 8, "number from 1 to 65535", "4500"),
    ("policy = \"p\"\n[esp]\npath_mtu = 100", 3, 12, "number from 576 to 65535", "MTU"),
    ("policy = \"p\"\n[esp\nport = 1", 2, 5, "", "toml.io"),
    ("policy = \"p\"\npolicy = \"q\"", 2, 1, "duplicate key", "toml.io"),
    ("policy = \"p\"\nkeymat = \"00\"", 2, 1, "RFC 4106", "ravelin sa add"),
    ("policy = \"p\"\n[[sa]]\nspi = 5", 2, 1, "not configured in a file", "ravelin sa add"),
];

#[test]
fn every_fault_has_a_place_and_a_remedy() {
    for (text, line, column, message, remedy) in FAULTS {
        let report = parse(text).expect_err(text);
        let found = &report.findings()[0];
        assert_eq!((found.line, found.column), (line, column), "{text:?}\n{report}");
        assert!(found.message.contains(message), "{text:?}\n{report}");
        assert!(found.remedy.contains(remedy), "{text:?}\n{report}");
        let head = format!("/etc/ravelin/ravelin.toml:{line}:{column}: error: ");
        assert!(report.to_string().starts_with(&head), "{report}");
    }
}

#[test]
fn a_key_of_a_counter_mode_suite_is_refused_at_its_line_and_not_shown() {
    let key = "000102030405060708090a0b0c0d0e0f10111213";
    for suite in crypto::SuiteId::all().filter(|suite| suite.nonce_is_counter()) {
        let text = format!("policy = \"p\"\n\n[[sa]]\nspi = 4096\nsuite = \"{suite}\"\nkey = \"{key}\"\n");
        let report = parse(&text).unwrap_err();
        assert_eq!(report.findings().len(), 1, "{report}");
        let found = &report.findings()[0];
        assert_eq!((found.line, found.column), (6, 1));
        for part in [&suite.to_string() as &str, "RFC 4106", "RFC 3686"] {
            assert!(found.message.contains(part), "{report}");
        }
        assert!(found.remedy.contains("ravelin sa add"));
        assert!(!report.to_string().contains(&key[..16]), "{report}");
    }
}

#[test]
fn faults_are_reported_together_in_the_order_of_the_file() {
    let report =
        parse("log = 1\nuplinks = [\"lo\", \"lo\"]\n[esp]\nport = -1\n[tun]\nqueue = \"x\"\n").unwrap_err();
    let lines: Vec<usize> = report.findings().iter().map(|f| f.line).collect();
    // Line 1 twice: the missing policy and the log level.
    assert_eq!(lines, [1, 1, 2, 2, 4, 6], "{report}");
}

#[test]
fn the_report_shows_the_line_and_points_into_it() {
    let report = parse("policy = \"p\"\n[tun]\n\tquue = 1\n").unwrap_err();
    assert_eq!(
        report.to_string(),
        "/etc/ravelin/ravelin.toml:3:2: error: unknown key `quue` in [tun]\n 3 | \tquue = 1\n   | \t^^^^\n   = help: \
         did you mean `queue`?"
    );
}

#[test]
fn units_and_legacy_suites_are_chosen_here() {
    let config = parse(
        "policy = \"p\"\n[crypto]\nlegacy = true\nunit = \"ring\"\n[crypto.units]\n\"aes256cbc-sha256\" = \"rustcrypto\"\n",
    )
    .unwrap();
    assert!(config.crypto.legacy);
    assert_eq!(config.crypto.unit.as_deref(), Some("ring"));
    assert_eq!(config.crypto.units, [("aes256cbc-sha256".parse().unwrap(), "rustcrypto".to_owned())]);
    assert_eq!(parse("policy = \"p\"\n").unwrap().crypto, crate::CryptoConfig::default());
    for (text, word) in [
        ("legacy = 1", "true or false"),
        ("units = 3", "must be a table"),
        ("[crypto.units]\nrot13 = \"ring\"", "rot13"),
        ("[crypto.units]\naes128gcm = \"ring\"\naes128gcm16 = \"ring\"", "aes128gcm is named twice"),
        ("aes = true", "unknown key `aes`"),
    ] {
        let report = parse(&format!("policy = \"p\"\n[crypto]\n{text}\n")).unwrap_err().to_string();
        assert!(report.contains(word), "{report}");
    }
}

#[test]
fn a_translation_is_chosen_here() {
    use std::time::Duration;
    let chosen = |text: &str| parse(&format!("policy = \"p\"\n{text}\n")).map(|config| config.translation);
    let seconds = Duration::from_secs;
    assert_eq!(chosen("").unwrap(), Translation::Compiled);
    assert_eq!(chosen("translation = \"compiled\"").unwrap(), Translation::Compiled);
    let usual = Translation::PerSocket { ttl: seconds(60), time_wait: seconds(60) };
    assert_eq!(chosen("translation = \"per-socket\"").unwrap(), usual);
    let own = Translation::PerSocket { ttl: seconds(5), time_wait: seconds(7) };
    let text = "translation = \"per-socket\"\n[per_socket]\nttl = 5\ntime_wait = 7";
    assert_eq!(chosen(text).unwrap(), own);
    for (text, word) in [
        ("translation = \"per-sock\"", "did you mean \"per-socket\"?"),
        ("translation = 3", "translation"),
        ("[per_socket]\nttl = 5", "without the translation that it is for"),
        ("translation = \"per-socket\"\n[per_socket]\nttl = 1", "ttl"),
        ("translation = \"per-socket\"\n[per_socket]\ntll = 9", "did you mean `ttl`?"),
    ] {
        let report = chosen(text).unwrap_err().to_string();
        assert!(report.contains(word), "{report}");
    }
}

#[test]
fn names_have_servers_and_times() {
    let names = |lines: &str| parse(&format!("policy = \"p\"\n[names]\n{lines}\n"));
    let all = "resolvers = [\"192.0.2.53\", \"[2001:db8::53]:5353\"]\nobserve = false\ntimeout = 2\nmin_ttl = 1\nmax_ttl = 60\ngrace = 0";
    let all = names(all).unwrap().names;
    let servers = ["192.0.2.53:53", "[2001:db8::53]:5353"].map(|server| server.parse().unwrap());
    assert_eq!((&all.resolvers[..], all.observe, all.timeout.as_secs()), (&servers[..], false, 2));
    let limits = all.limits;
    assert_eq!((limits.floor.as_secs(), limits.ceiling.as_secs(), limits.grace.as_secs()), (1, 60, 0));
    assert_eq!(names("").unwrap().names, NamesConfig::default());
    for (lines, text) in [
        ("resolvers = \"192.0.2.53\"", "must be a list"),
        ("resolvers = [\"dns.example\"]", "no address of a name server"),
        ("resolvers = [\"192.0.2.53:0\"]", "no address of a name server"),
        ("observe = 1", "must be true or false"),
        ("timeout = 0", "from 1 to 60"),
        ("min_ttl = 100\nmax_ttl = 60", "below `min_ttl`"),
        ("grace = -1", "from 0 to 86400"),
        ("servers = []", "unknown key `servers`"),
    ] {
        let report = names(lines).unwrap_err().to_string();
        assert!(report.contains(text), "{lines}: {report}");
    }
}

/// A folder of this test's own with a manifest in it, gone at the end.
struct Manifests(PathBuf);

impl Manifests {
    fn new(name: &str) -> Manifests {
        let folder = std::env::temp_dir().join(format!("ravelin-ciphers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Manifests(folder)
    }

    /// Write the manifest of a cipher; its path and its digest.
    fn write(&self, file: &str, name: &str, transform_id: u16) -> (String, String) {
        let digest = "00".repeat(32);
        let text = format!(
            r#"{{"name":"{name}","version":"1","vendor":"test","kind":"block","block":16,"key":32,"constant_time":true,
                "transform_id":{transform_id},"library":{{"file":"a.so","sha256":"{digest}"}},
                "vectors":{{"file":"v.json","sha256":"{digest}"}},"source":"here","licence":"none"}}"#
        );
        let path = self.0.join(file);
        std::fs::write(&path, &text).unwrap();
        (path.display().to_string(), cipher_manifest::Digest::of(text.as_bytes()).to_string())
    }
}

impl Drop for Manifests {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn ciphers_of_ones_own_bring_their_suites() {
    let manifests = Manifests::new("good");
    let (path, digest) = manifests.write("gost.json", "gost", 50_000);
    let config = parse(&format!(
        "policy = \"p\"\n[[cipher]]\nbuiltin = \"maes512\"\nalone = true\n[[cipher]]\nmanifest = \"{path}\"\nsha256 = \
         \"{digest}\"\nisolation = \"none\"\n[crypto.units]\n\"gostctr-sha256\" = \"gost\"\n"
    ))
    .unwrap();
    assert!(config.crypto.ciphers.refused.is_empty() && config.crypto.ciphers.has_built_in("maes512"));
    let isolation = |line: &str| {
        let text =
            format!("policy = \"p\"\n[[cipher]]\nmanifest = \"{path}\"\nsha256 = \"{digest}\"\n{line}\n");
        match &parse(&text).unwrap().crypto.ciphers.tables[0].source {
            CipherSource::Library { isolation, .. } => *isolation,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(isolation(""), Isolation::Worker);
    assert_eq!(isolation("isolation = \"worker\""), Isolation::Worker);
    assert_eq!(isolation("isolation = \"none\""), Isolation::None);
    assert_eq!(config.crypto.ciphers.tables.len(), 2);
    let names: Vec<_> = config.crypto.ciphers.suites.own().map(|cipher| cipher.name.clone()).collect();
    assert_eq!(names, ["maes512", "gost"]);
    let find = |name: &str| config.crypto.ciphers.suites.find(name);
    assert!(find("maes512gcm").is_ok() && find("maes512ctr-sha256").is_ok());
    assert!(find("gostctr-aes256gcm").is_ok() && find("gostgcm").is_err());
    assert_eq!(config.crypto.units, [(find("gostctr-sha256").unwrap(), "gost".to_owned())]);
    // Whoever checks a policy gets the same catalogue, whatever else is in the file.
    let file = manifests.0.join("ravelin.toml");
    std::fs::write(&file, "unknown = 3\n[[cipher]]\nbuiltin = \"maes512\"\n").unwrap();
    let loaded = Config::load_ciphers(&file).unwrap();
    assert!(loaded.suites.find("maes512ctr-sha256").is_ok());
    std::fs::write(&file, "[[cipher]]\nbuiltin = \"maes5\"\n").unwrap();
    assert!(Config::load_ciphers(&file).unwrap_err().to_string().contains("did you mean \"maes512\"?"));
}

#[test]
fn a_manifest_that_is_not_there_stops_nothing() {
    let manifests = Manifests::new("gone");
    let (path, digest) = manifests.write("gost.json", "gost", 50_000);
    let table = |path: &str, digest: &str| {
        format!(
            "policy = \"p\"\n[[cipher]]\nmanifest = \"{path}\"\nsha256 = \"{digest}\"\nisolation = \"none\"\n\
             [crypto.units]\n\"gostctr-sha256\" = \"gost\"\n"
        )
    };
    let folder = manifests.0.display().to_string();
    let (broken, broken_digest) = manifests.write("broken.json", "Gost", 50_000);
    for (path, digest, why) in [
        (format!("{path}.gone"), digest.as_str(), "cannot be read"),
        (path.clone(), &"11".repeat(32), "and the configuration wants 1111"),
        (folder, digest.as_str(), "no regular file"),
        (broken, broken_digest.as_str(), "Gost"),
    ] {
        let config = parse(&table(&path, digest)).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(config.crypto.ciphers.suites, crypto::Suites::standard());
        assert_eq!(config.crypto.ciphers.refused.len(), 1);
        let told = config.crypto.ciphers.refused[0].to_string();
        assert!(told.contains(why) && told.starts_with(&path), "{told}");
        // The unit of a suite that is not there is no reason to stay away either.
        assert!(config.crypto.units.is_empty());
    }
    assert_eq!(parse(&table(&path, &digest)).unwrap().crypto.ciphers.refused, []);
}

#[test]
fn tables_of_ciphers_that_contradict_are_faults() {
    let manifests = Manifests::new("bad");
    let (path, digest) = manifests.write("gost.json", "gost", 50_000);
    let (same_id, same_id_digest) = manifests.write("other.json", "other", 50_002);
    let (same_name, same_name_digest) = manifests.write("maes.json", "maes512", 51_000);
    let loaded = |path: &str, digest: &str| {
        format!("[[cipher]]\nmanifest = \"{path}\"\nsha256 = \"{digest}\"\nisolation = \"none\"\n")
    };
    let good = loaded(&path, &digest);
    for (text, line, word) in [
        ("cipher = 3\n".to_owned(), 2, "[[cipher]], in two brackets"),
        ("[cipher]\nbuiltin = \"maes512\"\n".to_owned(), 2, "[[cipher]], in two brackets"),
        ("[[cipher]]\n".to_owned(), 2, "neither `builtin` nor `manifest`"),
        ("[[cipher]]\nbuiltin = \"rot13\"\n".to_owned(), 3, "compiled in: maes512"),
        ("[[cipher]]\nbuiltin = \"maes512\"\nmanifest = \"m\"\n".to_owned(), 3, "not both"),
        (
            "[[cipher]]\nbuiltin = \"maes512\"\nisolation = \"none\"\n".to_owned(),
            4,
            "does not go with `builtin`",
        ),
        ("[[cipher]]\nbuiltin = \"maes512\"\nsha256 = \"00\"\n".to_owned(), 4, "does not go with `builtin`"),
        ("[[cipher]]\nbuiltin = \"maes512\"\nalone = 1\n".to_owned(), 4, "must be true or false"),
        ("[[cipher]]\nbuiltin = \"maes512\"\nalon = true\n".to_owned(), 4, "did you mean `alone`?"),
        (format!("[[cipher]]\nmanifest = \"{path}\"\nisolation = \"none\"\n"), 2, "needs the digest"),
        (good.replace(&digest, "12"), 4, "64 hexadecimal digits"),
        (good.replace("\"none\"", "\"chroot\""), 5, "no isolation is called \"chroot\""),
        (format!("{good}{good}"), 6, "gost"),
        (format!("{good}{}", loaded(&same_id, &same_id_digest)), 6, "gost has some of them"),
        (
            format!("[[cipher]]\nbuiltin = \"maes512\"\n{}", loaded(&same_name, &same_name_digest)),
            4,
            "cannot both be configured",
        ),
        (
            "[[cipher]]\nbuiltin = \"maes512\"\n[crypto.units]\nmaes512gcm = \"x\"\n".to_owned(),
            5,
            "alone = true",
        ),
    ] {
        let report = parse(&format!("policy = \"p\"\n{text}")).unwrap_err();
        assert!(report.to_string().contains(word), "{text}\n{report}");
        assert_eq!(report.findings()[0].line, line, "{text}\n{report}");
    }
}

#[test]
fn the_graph_of_classes_is_a_preset_or_stands_in_a_file() {
    let qos = |lines: &str| parse(&format!("policy = \"p\"\n[qos]\n{lines}"));
    let want = |graph, kernel_queues| Some(QosConfig { graph, kernel_queues, components: Vec::new() });
    assert_eq!(qos("preset = \"voice\"").unwrap().qos, want(GraphSource::Preset("voice"), 4));
    let file = GraphSource::File(PathBuf::from("/etc/ravelin/qos.toml"));
    assert_eq!(qos("file = \"qos.toml\"\nkernel_queues = 16").unwrap().qos, want(file, 16));
    for (lines, start, remedy) in [
        ("", "2:1: error: [qos] names no graph", "preset = \"voice\""),
        ("kernel_queues = 4", "2:1: error: [qos] names no graph", "`ravelin qos presets`"),
        (
            "preset = \"voice\"\nfile = \"f\"",
            "4:8: error: a graph is a preset or stands in a file",
            "leave one",
        ),
        (
            "file = \"f\"\npreset = \"voice\"",
            "3:8: error: a graph is a preset or stands in a file",
            "leave one",
        ),
        ("preset = \"vioce\"", "3:10: error: no preset is called \"vioce\"", "did you mean \"voice\"?"),
        ("preset = \"x\"", "3:10: error: no preset is called \"x\"", "fifo, two-classes, voice, fair, edge"),
        ("preset = 1", "3:10: error: `preset` must be a string", "write: preset"),
        ("file = \"\"", "3:8: error: `file` is not a path", "name a file"),
        (
            "preset = \"fair\"\nkernel_queues = 0",
            "4:17: error: `kernel_queues` must be a number from 1 to 16",
            "queues",
        ),
        (
            "preset = \"fair\"\nkernel_queues = 17",
            "4:17: error: `kernel_queues` must be a number from 1 to 16",
            "queues",
        ),
        (
            "preset = \"fair\"\nkernel_queue = 2",
            "4:1: error: unknown key `kernel_queue`",
            "did you mean `kernel_queues`?",
        ),
    ] {
        let report = qos(lines).unwrap_err().to_string();
        assert!(report.starts_with(&format!("/etc/ravelin/ravelin.toml:{start}")), "{lines}: {report}");
        assert!(report.contains(remedy), "{lines}: {report}");
    }
    let report = parse("policy = \"p\"\nqos = \"voice\"").unwrap_err().to_string();
    assert!(report.contains(":2:7: error: `qos` must be a table, not string"), "{report}");
}

#[test]
fn libraries_of_components_are_named_with_their_digests() {
    use ::qos::behaviour::foreign::{Libraries, LibraryState};
    let digest = "ab".repeat(32);
    let one = format!("name = \"quota\"\npath = \"/usr/lib/quota.so\"\nsha256 = \"{digest}\"\n");
    let with = |tables: &str| parse(&format!("policy = \"p\"\n[qos]\npreset = \"voice\"\n{tables}"));
    let config = with(&format!("[[qos.component]]\n{one}")).unwrap();
    let named = ComponentConfig {
        name: "quota".to_owned(),
        path: PathBuf::from("/usr/lib/quota.so"),
        sha256: digest.parse().unwrap(),
    };
    assert_eq!(config.qos.as_ref().unwrap().components, [named]);
    let libraries = libraries_of(&config);
    assert_eq!(libraries.find("quota").unwrap().state, LibraryState::Named);
    assert_eq!(libraries_of(&parse("policy = \"p\"").unwrap()), Libraries::Named(Vec::new()));
    for (tables, wants) in [
        (format!("[[qos.component]]\n{one}[[qos.component]]\n{one}"), "two components are called \"quota\""),
        (format!("[qos.component]\n{one}"), "`component` must be a list of tables"),
        ("[[qos.component]]\nname = \"a\"\npath = \"/b\"".to_owned(), "a component needs `sha256`"),
        (format!("[[qos.component]]\npath = \"/b\"\nsha256 = \"{digest}\""), "a component needs `name`"),
        (
            format!("[[qos.component]]\n{}", one.replace("quota\"", "quo ta\"")),
            "\"quo ta\" is no name of a component",
        ),
        (format!("[[qos.component]]\n{}", one.replace("abab", "ab")), "`sha256sum FILE`"),
        (format!("[[qos.component]]\n{one}size = 1"), "unknown key `size`"),
        (format!("[[qos.component]]\n{one}").repeat(33), "there are 33 components"),
    ] {
        let report = with(&tables).unwrap_err().to_string();
        assert!(report.contains(wants), "{tables}: {report}");
    }
}

#[test]
fn a_graph_is_loaded_with_its_text_its_classes_and_their_numbers() {
    let folder = std::env::temp_dir().join(format!("ravelin-config-graph-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let config = |name: &str| {
        let text = format!("policy = \"p\"\n[qos]\nfile = \"{name}\"\nkernel_queues = 2\n");
        Config::parse(&folder.join("ravelin.toml"), &text).unwrap()
    };
    assert_eq!(load_graph(&parse("policy = \"p\"").unwrap()).unwrap(), None);
    let preset = parse("policy = \"p\"\n[qos]\npreset = \"voice\"").unwrap();
    let preset = load_graph(&preset).unwrap().unwrap();
    assert_eq!(preset.source, "preset voice");
    assert!(["control", "ef", "af4", "rest"].iter().all(|name| preset.aggregates.find(name).is_some()));

    let text = "preset = \"voice\"\n[class.bulk]\nmatch = [{ dscp = [\"CS1\"] }]\n";
    let path = folder.join("sound.toml");
    std::fs::write(&path, text).unwrap();
    let loaded = load_graph(&config("sound.toml")).unwrap().unwrap();
    assert_eq!((loaded.source.as_str(), loaded.text.as_str()), (path.to_str().unwrap(), text));
    assert_eq!(loaded.description.classes.first().map(|class| class.name.value.as_str()), Some("bulk"));
    // A class of the instance keeps its number, and a new one comes behind it.
    let mut house = house_of(&config("sound.toml"));
    assert_eq!(house.kernel_queues, Some(2));
    let old = house.catalogue.number("old").unwrap();
    let again = load_graph_for(&config("sound.toml"), &house).unwrap().unwrap();
    assert_eq!(again.aggregates.find("old"), Some(old));
    assert!(again.aggregates.find("bulk").is_some_and(|bulk| bulk.0 > old.0));

    let broken = |name: &str, text: &[u8]| {
        std::fs::write(folder.join(name), text).unwrap();
        load_graph(&config(name)).unwrap_err().to_string()
    };
    let report = broken("broken.toml", b"preset = \"vioce\"\n");
    let start = format!(
        "{}:1:10: error[RVL-Q201]: there is no preset \"vioce\"",
        folder.join("broken.toml").display()
    );
    assert!(report.starts_with(&start) && report.contains("= help: did you mean `voice`?"), "{report}");
    // Three kernel queues, where the configuration has two; rules that no component reads; a suite that nobody knows.
    let kernel =
        "preset = \"fifo\"\n[kernel.every]\nclasses = [\"every\"]\nqueues = 3\nlimit = { packets = 9 }\n";
    assert!(broken("kernel.toml", kernel.as_bytes()).contains("error[RVL-Q901]"));
    let rules = "preset = \"fifo\"\n[class.web]\nmatch = [{ uid = [1000] }]\n";
    let report = broken("rules.toml", rules.as_bytes());
    assert!(report.contains(":3:12: error[RVL-Q102]") && report.contains("policy"), "{report}");
    let unit = "preset = \"fifo\"\n[unit.one]\nkind = \"inline\"\nsuites = [\"aes128gmc16\"]\n";
    assert!(broken("unit.toml", unit.as_bytes()).contains(":4:11: error[RVL-Q201]: there is no suite"));
    assert!(broken("octets.toml", b"a = \"\xff\"").contains("not UTF-8 from octet 6 on"));
    assert!(broken("long.toml", &vec![b'#'; MAX_GRAPH + 1]).contains("longer than 1048576 octets"));
    assert!(load_graph(&config("none.toml")).unwrap_err().to_string().contains("none.toml: No such file"));
    assert!(load_graph(&config(".")).unwrap_err().to_string().contains("no regular file"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn costs_are_read_from_a_file_of_their_own() {
    let suites = crypto::Suites::standard();
    let read = |text: &str| read_costs(Path::new("costs.toml"), text, &suites);
    let costs = read(
        "[[cost]]\nsuite = \"aes128gcm\"\nbase_ns = 300\nps_per_octet = 350\n\
         [[cost]]\nsuite = \"3des-md5\"\ndirection = \"in\"\nbase_ns = 900\nps_per_octet = 156_000\n",
    );
    let costs = costs.unwrap();
    let rows: Vec<_> =
        costs.iter().map(|cost| (cost.direction, cost.line.base_ns, cost.line.ps_per_octet)).collect();
    use ::qos::Direction::{Inbound, Outbound};
    assert_eq!(rows, [(Outbound, 300, 350), (Inbound, 300, 350), (Inbound, 900, 156_000)]);
    assert_eq!(costs.last().map(|cost| cost.suite.as_str()), Some("3des-md5"));
    let one = "[[cost]]\nsuite = \"3des-md5\"\nbase_ns = 1\nps_per_octet = 1\n";
    for (text, want) in [
        ("".to_owned(), "costs.toml:1:1: error: the file has no [[cost]]"),
        ("cost = 1".to_owned(), "costs.toml:1:8: error: `cost` must be a list"),
        (
            "[[cost]]\nbase_ns = 1\nps_per_octet = 1".to_owned(),
            "costs.toml:1:1: error: [[cost]] names no suite",
        ),
        (one.replace("3des-md5", "des4"), "costs.toml:2:9: error: no cipher is called \"des4\""),
        (one.replace("base_ns = 1\n", ""), "costs.toml:1:1: error: [[cost]] has no `base_ns`"),
        (one.replace("base_ns = 1", "base_ns = -1"), "costs.toml:3:11: error: `base_ns` must be a number"),
        (format!("{one}direction = \"up\""), "costs.toml:5:13: error: no direction is called \"up\""),
        (format!("{one}{one}"), "costs.toml:5:1: error: the cost of 3des-md5 is given twice"),
        (format!("{one}base_n = 1"), "costs.toml:5:1: error: unknown key `base_n`"),
    ] {
        let report = read(&text).unwrap_err().to_string();
        assert!(report.starts_with(want), "{text}: {report}");
    }
}

#[test]
fn the_examples_of_the_manual_that_are_no_graphs_are_read() {
    let mut read = 0;
    for page in ["qos.md", "man/ravelin-qos.5.md"] {
        let text =
            std::fs::read_to_string(format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        for example in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if example.starts_with("[qos]") {
                assert!(
                    parse(&format!("policy = \"p\"\n{example}")).unwrap().qos.is_some(),
                    "{page}: {example}"
                );
                read += 1;
            } else if example.starts_with("[[cost]]") {
                let suites = crypto::Suites::standard();
                assert!(
                    !read_costs(Path::new(page), example, &suites).unwrap().is_empty(),
                    "{page}: {example}"
                );
                read += 1;
            }
        }
    }
    assert_eq!(read, 5);
}
