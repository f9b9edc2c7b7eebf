//! What cannot be read is never taken for good.

use std::collections::BTreeSet;

use api::CheckState;
use hardening::Host;

use crate::host::{NOW, Small};

/// A check, words of the reason, and what makes it impossible to say.
type Case = (&'static str, &'static str, fn(&Small));

const CASES: &[Case] = &[
    ("modules loaded", "/proc/modules is not there", |host| host.remove("proc/modules")),
    ("modules loadable", "of the running kernel, is not there", |host| {
        host.remove("lib/modules/6.12.9-amd64")
    }),
    ("modules loadable", "this is no regular file", |host| host.block("etc/modprobe.d/hardening.conf")),
    ("module loading", "modules_disabled", |host| host.block("proc/sys/kernel/modules_disabled")),
    ("listening", "/proc/net/tcp6 is not there", |host| host.remove("proc/net/tcp6")),
    ("listening", "a line that cannot be read", |host| {
        host.write("proc/net/udp", "header\n 0: here:0 there:0 07\n")
    }),
    ("services enabled", "/etc/systemd/system is not there", |host| host.remove("etc/systemd/system")),
    ("redirects", "send_redirects is not there", |host| {
        host.remove("proc/sys/net/ipv4/conf/eth0/send_redirects")
    }),
    ("redirects", "conf is not there", |host| host.remove("proc/sys/net")),
    ("source routing", "this is no number", |host| {
        host.write("proc/sys/net/ipv4/conf/all/accept_source_route", "off\n");
    }),
    ("router adverts", "accept_ra is not there", |host| host.remove("proc/sys/net/ipv6/conf/eth0/accept_ra")),
    ("kexec", "no regular file", |host| host.block("proc/sys/kernel/kexec_load_disabled")),
    ("bpf", "is not there", |host| host.remove("proc/sys/kernel/unprivileged_bpf_disabled")),
    ("kernel addresses", "is not there", |host| host.remove("proc/sys/kernel/dmesg_restrict")),
    ("ptrace", "is not there", |host| host.remove("proc/sys/kernel/yama/ptrace_scope")),
    ("core dumps", "ravelin.service is not there", |host| {
        host.remove("usr/lib/systemd/system/ravelin.service")
    }),
    ("configuration", "this is no regular file", |host| host.block("etc/ravelin/ravelin.toml")),
    ("policy", "which file it is", |host| host.block("etc/ravelin/ravelin.toml")),
    ("policy tests", "this is no regular file", |host| host.block("etc/ravelin/main.policy")),
    ("units", "/etc/systemd/system is not there", |host| host.remove("etc/systemd/system")),
    ("control socket", "no daemon runs", |host| host.remove("run/ravelin/main/control.sock")),
    ("weak suites", "neither true nor false", |host| {
        host.replace("etc/ravelin/ravelin.toml", "legacy = false", "legacy = \"no\"");
    }),
    ("automatic", "neither apt nor dnf", |host| host.remove("etc/apt")),
    ("package lists", "left a trace", |host| host.remove("var/lib/apt")),
    ("reboot", "no kernel to compare", |host| host.remove("boot")),
    ("reboot", "osrelease is not there", |host| host.remove("proc/sys/kernel/osrelease")),
    ("file integrity", "this is no regular file", |host| host.block("proc/cmdline")),
    ("own files", "a digest of 3 digits", |host| {
        host.write("var/lib/dpkg/info/ravelin:amd64.md5sums", "abc  usr/bin/ravelin\n");
    }),
    ("own files", "/usr/share/doc/ravelin/empty: this is no regular file", |host| {
        host.block("usr/share/doc/ravelin/empty");
    }),
    ("cipher files", "this is no regular file", |host| host.block("etc/ravelin/ravelin.toml")),
    ("cipher files", "this is no regular file", |host| host.block("usr/lib/ravelin/libproofaes.so")),
    ("intrusion", "/etc/systemd/system is not there", |host| host.remove("etc/systemd/system")),
    ("remote log", "/etc/systemd/system is not there", |host| host.remove("etc/systemd/system")),
    ("remote heard", "rsyslog keeps no mark", |host| {
        let table = "[audit.remote]\nserver = \"192.0.2.7\"\n";
        host.replace("etc/ravelin/ravelin.toml", table, "");
        host.link(
            "etc/systemd/system/multi-user.target.wants/rsyslog.service",
            "/lib/systemd/system/rsyslog.service",
        );
        host.write("etc/rsyslog.d/remote.conf", "*.* @@log.example.org\n");
    }),
    ("remote heard", "its first line is not one of this version", |host| {
        host.write("var/lib/ravelin/main/audit-spool/spool", "ravelin-spool 2 41\n");
    }),
    ("remote heard", "its first message has no time", |host| host.spool(41, Some("yesterday"))),
    ("remote heard", "ahead of the clock", |host| {
        host.spool(41, Some("07:59:00"));
        host.replace("var/lib/ravelin/main/audit-spool/spool", "2027-01-15", "2027-01-25");
        host.age("var/lib/ravelin/main/audit-spool/spool", 60);
    }),
    ("audit log", "the daemon has not run with it", |host| host.remove("var/log/ravelin/audit.jsonl")),
];

#[test]
fn what_cannot_be_read_is_unknown_and_says_why() {
    for (name, words, change) in CASES {
        let host = Small::good();
        change(&host);
        let check = host.checks().remove(*name).unwrap();
        assert_eq!(check.state, CheckState::Warn, "{words}: {check:?}");
        assert!(check.found.starts_with("unknown: ") && check.found.contains(words), "{words}: {check:?}");
        assert!(check.remedy.is_some(), "{check:?}");
    }
    let covered: BTreeSet<String> = CASES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let known: BTreeSet<String> = Small::good().checks().into_keys().collect();
    assert_eq!(covered, known);
}

#[test]
fn nothing_is_good_about_a_host_without_files() {
    let checks = Small::empty().checks();
    for check in checks.values() {
        assert_ne!(check.state, CheckState::Ok, "{check:?}");
    }
    assert!(Small::named(&checks, CheckState::Fail).contains(&"configuration"));
}

#[test]
fn a_root_that_is_not_there_is_an_error() {
    let host = Small::empty();
    let error = hardening::checks(&Host::new(&host.path("nowhere"), NOW)).unwrap_err().to_string();
    assert!(error.contains("/nowhere: ") && error.ends_with("with --root"), "{error}");
    host.write("file", "");
    assert!(hardening::checks(&Host::new(&host.path("file"), NOW)).is_err());
}

#[test]
fn a_time_stamp_ahead_of_the_clock_is_no_age() {
    let host = Small::good();
    let early = Host { now: NOW - std::time::Duration::from_secs(3 * 86_400), ..host.host() };
    let groups = hardening::checks(&early).unwrap();
    let all: Vec<_> = groups.into_iter().flat_map(|group| group.checks).collect();
    for name in ["package lists", "file integrity", "intrusion", "remote heard"] {
        let check = all.iter().find(|check| check.name == name).unwrap();
        assert!(check.state == CheckState::Warn && check.found.contains("ahead of the clock"), "{check:?}");
    }
}
