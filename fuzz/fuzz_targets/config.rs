//! The daemon's configuration: every fault with a place in the text and a remedy, or a configuration whose values are in range.
//! Written again with every value in its place, it is the same.
#![no_main]

use config::{Config, ConfigError, GatewayConfig, OuterIo, instance_is_valid};
use engine::{IcmpKind, QuotedCheck};
use libfuzzer_sys::fuzz_target;
use std::fmt::Write;
use std::path::Path;

const FILE: &str = "/etc/ravelin/ravelin.toml";

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::parse(Path::new(FILE), text) {
        Ok(config) => {
            in_range(&config);
            let again = written(&config);
            match Config::parse(Path::new(FILE), &again) {
                Ok(mut same) => {
                    // In the order of their names in the file, of which a suite may have two.
                    let mut config = config;
                    for units in [&mut same.crypto.units, &mut config.crypto.units] {
                        units.sort_by_key(|(suite, _)| suite.to_string());
                    }
                    assert_eq!(same, config, "{again}");
                }
                Err(error) => panic!("{error}\n{again}"),
            }
        }
        Err(ConfigError::Bad(report)) => {
            let lines: Vec<usize> = text.split('\n').map(|line| line.chars().count()).collect();
            assert!(!report.findings().is_empty());
            assert!(report.findings().is_sorted_by_key(|finding| (finding.line, finding.column)));
            for finding in report.findings() {
                let columns = lines.get(finding.line - 1).expect("a line of the text") + 1;
                assert!((1..=columns).contains(&finding.column), "{finding:?}");
                assert!(!finding.message.is_empty() && !finding.remedy.is_empty(), "{finding:?}");
            }
            let _ = report.to_string();
        }
        Err(other) => panic!("{other}"),
    }
});

fn in_range(config: &Config) {
    let interfaces = |names: &[String]| {
        assert!(!names.is_empty());
        for (at, name) in names.iter().enumerate() {
            assert!((1..16).contains(&name.len()) && !name.contains(['/', ' ', ':', '%', '\0']), "{name:?}");
            assert!(name != "lo" && *name != config.tun.name && !names[..at].contains(name), "{name:?}");
        }
    };
    assert!(instance_is_valid(&config.instance));
    assert!((1..=1000).contains(&config.tun.queue) && config.esp.port > 0 && config.esp.keepalive > 0);
    assert!(config.esp.path_mtu.is_none_or(|mtu| mtu >= 576));
    assert!(config.policy.is_absolute() && config.control_socket.as_os_str().len() < 108);
    assert!(config.cgroup.as_ref().is_none_or(|path| path.is_absolute()));
    assert!(config.enc.as_ref().is_none_or(|name| *name != config.tun.name && name != "lo"));
    if let Some(uplinks) = &config.uplinks {
        interfaces(uplinks);
    }
    if let Some(GatewayConfig { inside, .. }) = &config.gateway {
        interfaces(inside);
        let uplinks = config.uplinks.as_deref().unwrap_or_default();
        assert!(!inside.iter().any(|name| uplinks.contains(name)));
    }
    assert!(config.icmp.outer.path.floor_v4 >= 576 && config.icmp.outer.per_second <= 10_000);
}

/// The configuration as the text of a file.
fn written(config: &Config) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let path = |path: &Path| quoted(path.to_str().expect("it came from text"));
    let names = |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let kinds = |kinds: &[IcmpKind]| {
        let kind = |IcmpKind { version, kind, code }: &IcmpKind| {
            let protocol = if *version == 4 { "icmp" } else { "icmpv6" };
            let code = code.map_or_else(String::new, |code| format!("/{code}"));
            format!("\"{protocol}/{kind}{code}\"")
        };
        kinds.iter().map(kind).collect::<Vec<_>>().join(", ")
    };
    let mut out = format!(
        "instance = {}\npolicy = {}\ncontrol_socket = {}\nlog = \"{}\"\nenc = {}\n",
        quoted(&config.instance),
        path(&config.policy),
        path(&config.control_socket),
        config.log.word(),
        config.enc.is_some()
    );
    if let Some(enc) = &config.enc {
        let _ = writeln!(out, "enc_name = {}", quoted(enc));
    }
    if let Some(uplinks) = &config.uplinks {
        let _ = writeln!(out, "uplinks = [{}]", names(uplinks));
    }
    if let Some(cgroup) = &config.cgroup {
        let _ = writeln!(out, "cgroup = {}", path(cgroup));
    }
    let _ = writeln!(out, "[tun]\nname = {}\nqueue = {}", quoted(&config.tun.name), config.tun.queue);
    let _ = writeln!(out, "[esp]\nport = {}\nkeepalive = {}", config.esp.port, config.esp.keepalive);
    if let Some(mtu) = config.esp.path_mtu {
        let _ = writeln!(out, "path_mtu = {mtu}");
    }
    let check = match config.icmp.inner.check {
        QuotedCheck::Always => "always",
        QuotedCheck::Unmatched => "unmatched",
        QuotedCheck::Never => "never",
    };
    let outer = &config.icmp.outer;
    let _ = writeln!(
        out,
        "[icmp]\naccept = [{}]\ninner = [{}]\nquoted = \"{check}\"\nper_second = {}\npmtu_floor = {}\npmtu_age = {}",
        kinds(&outer.accept),
        kinds(&config.icmp.inner.accept),
        outer.per_second,
        outer.path.floor_v4,
        outer.path.age.as_secs()
    );
    let asked = &config.names;
    let servers: Vec<String> = asked.resolvers.iter().map(|server| quoted(&server.to_string())).collect();
    let _ = writeln!(
        out,
        "[names]\nresolvers = [{}]\nobserve = {}\ntimeout = {}\nmin_ttl = {}\nmax_ttl = {}\ngrace = {}",
        servers.join(", "),
        asked.observe,
        asked.timeout.as_secs(),
        asked.limits.floor.as_secs(),
        asked.limits.ceiling.as_secs(),
        asked.limits.grace.as_secs()
    );
    if let Some(gateway) = &config.gateway {
        let default = if gateway.bypass_the_rest { "bypass" } else { "discard" };
        let _ = writeln!(out, "[gateway]\ninside = [{}]\ndefault = \"{default}\"", names(&gateway.inside));
        if let Some(rules) = &gateway.rules {
            let _ = writeln!(out, "rules = {}", path(rules));
        }
    }
    let outer = match config.outer {
        OuterIo::Udp => "udp",
        OuterIo::Packet => "af_packet",
        OuterIo::Xdp => "af_xdp",
    };
    let _ = writeln!(out, "[io]\nouter = \"{outer}\"\n[crypto]\nlegacy = {}", config.crypto.legacy);
    if let Some(unit) = &config.crypto.unit {
        let _ = writeln!(out, "unit = {}", quoted(unit));
    }
    out.push_str("[crypto.units]\n");
    for (suite, unit) in &config.crypto.units {
        let _ = writeln!(out, "{} = {}", quoted(&suite.to_string()), quoted(unit));
    }
    out
}
