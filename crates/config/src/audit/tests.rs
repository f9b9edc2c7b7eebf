//! `[audit.remote]`: what is read, and which faults are reported where.

use std::path::Path;

use super::*;
use crate::{Config, ConfigError};

const FILES: &str = "ca = \"ca.pem\"\ncertificate = \"own.pem\"\nkey = \"own.key\"";

fn remote(lines: &str) -> Result<Option<RemoteAudit>, String> {
    let text =
        format!("instance = \"gate\"\npolicy = \"p\"\n[audit]\nfile = \"f\"\n[audit.remote]\n{lines}\n");
    match Config::parse(Path::new("/etc/ravelin/ravelin.toml"), &text) {
        Ok(config) => Ok(config.audit.unwrap().remote),
        Err(ConfigError::Bad(report)) => Err(report.to_string()),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_collector_has_an_address_a_name_and_certificates() {
    let shortest = format!("server = \"192.0.2.7\"\nname = \"collector.example\"\n{FILES}");
    let expected = RemoteAudit {
        server: "192.0.2.7:6514".parse().unwrap(),
        name: "collector.example".to_owned(),
        ca: "/etc/ravelin/ca.pem".into(),
        certificate: "/etc/ravelin/own.pem".into(),
        key: "/etc/ravelin/own.key".into(),
        spool: "/var/lib/ravelin/gate/audit-spool".into(),
        size: 16 << 20,
        heartbeat: Duration::from_secs(60),
    };
    assert_eq!(remote(&shortest), Ok(Some(expected.clone())));
    let all = format!(
        "server = \"2001:db8::7\"\nport = 1514\nname = \"2001:db8::7\"\n{FILES}\nspool = \"spool\"\nsize = 1\n\
         heartbeat = 5"
    );
    let expected = RemoteAudit {
        server: "[2001:db8::7]:1514".parse().unwrap(),
        name: "2001:db8::7".to_owned(),
        spool: "/etc/ravelin/spool".into(),
        size: 1 << 20,
        heartbeat: Duration::from_secs(5),
        ..expected
    };
    assert_eq!(remote(&all), Ok(Some(expected)));
}

#[test]
fn what_is_missing_or_wrong_is_told_with_line_and_remedy() {
    let good = format!("server = \"192.0.2.7\"\nname = \"c.example\"\n{FILES}");
    for key in ["server", "name", "ca", "certificate", "key"] {
        let left: Vec<&str> = good.lines().filter(|line| !line.starts_with(&format!("{key} ="))).collect();
        let report = remote(&left.join("\n")).unwrap_err();
        assert!(report.contains(&format!("[audit.remote] has no `{key}`")), "{report}");
        assert!(report.contains(&format!("add: {key} = ")) && report.contains("ravelin.toml:5:"), "{report}");
    }
    for (line, text) in [
        ("server = \"collector.example\"", "`server` is no address: \"collector.example\""),
        ("server = \"192.0.2.7:6514\"", "its port is `port`"),
        ("server = \"0.0.0.0\"", "`server` is no host's address"),
        ("server = \"ff02::1\"", "`server` is no host's address"),
        ("server = 7", "`server` must be a string"),
        ("name = \"\"", "`name` is no host name"),
        ("name = \"a b\"", "`name` is no host name"),
        ("ca = \"own.pem\"", "`ca` and `certificate` are one file"),
        ("key = \"\"", "`key` is not a path"),
        ("spool = \"\"", "`spool` is not a path"),
        ("port = 0", "`port` must be a number from 1 to 65535"),
        ("size = 0", "`size` must be a number from 1 to 1024"),
        ("heartbeat = 4", "`heartbeat` must be a number from 5 to 3600"),
        ("spol = \"s\"", "did you mean `spool`?"),
    ] {
        let key = line.split(' ').next().unwrap();
        let kept = good.lines().filter(|line| line.split(' ').next() != Some(key));
        let lines: Vec<&str> = kept.chain([line]).collect();
        let report = remote(&lines.join("\n")).unwrap_err();
        assert!(report.contains(text), "{line}: {report}");
    }
}

#[test]
fn a_collector_without_a_file_is_refused() {
    let text =
        format!("policy = \"p\"\n[audit.remote]\nserver = \"192.0.2.7\"\nname = \"c.example\"\n{FILES}\n");
    let error = Config::parse(Path::new("/etc/ravelin/ravelin.toml"), &text).unwrap_err().to_string();
    assert!(error.contains("[audit] names no file"), "{error}");
}
