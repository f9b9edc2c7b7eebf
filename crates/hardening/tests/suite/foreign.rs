//! A host whose files were made by somebody else: no link leads out of it, nothing waits, nothing panics, and what is
//! printed moves no cursor.

use std::fs;
use std::process::Command;

use api::CheckState;
use proptest::prelude::*;

use crate::host::Small;

/// Every file that a check reads the text of.
const FILES: [&str; 27] = [
    "etc/ravelin/ravelin.toml",
    "etc/ravelin/main.policy",
    "etc/ravelin/digests.sha256",
    "usr/lib/ravelin/proofaes.manifest.json",
    "usr/lib/systemd/system/ravelin.service",
    "var/lib/dpkg/info/ravelin.md5sums",
    "proc/modules",
    "proc/cmdline",
    "proc/net/tcp",
    "proc/net/udp6",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/modules_disabled",
    "proc/sys/kernel/kptr_restrict",
    "proc/sys/net/ipv6/conf/eth0/accept_ra",
    "lib/modules/6.12.9-amd64/modules.dep",
    "lib/modules/6.12.9-amd64/modules.builtin",
    "etc/modprobe.d/hardening.conf",
    "etc/inetd.conf",
    "etc/apt/apt.conf.d/20auto-upgrades",
    "etc/dnf/automatic.conf",
    "etc/default/debsums",
    "etc/rsyslog.conf",
    "etc/syslog-ng/syslog-ng.conf",
    "etc/systemd/journal-upload.conf",
    "run/reboot-required.pkgs",
    "var/lib/ravelin/main/audit-spool/spool",
    "boot/vmlinuz-6.12.9-amd64",
];

/// A host on which every one of these files is read.
fn busy() -> Small {
    let host = Small::good();
    let wants = "etc/systemd/system/multi-user.target.wants";
    for unit in ["rsyslog", "syslog-ng", "systemd-journal-upload", "dnf-automatic"] {
        host.link(&format!("{wants}/{unit}.service"), "/lib/systemd/system/unit");
    }
    host.write("usr/bin/debsums", "");
    host.write("run/reboot-required", "");
    host
}

/// Text that has what the readers look for, in any order.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "\"",
        "'",
        "=",
        "(",
        ")",
        "{",
        "}",
        ";",
        ":",
        "@",
        "@@",
        "#",
        "/*",
        "*/",
        "\\",
        "\n",
        " ",
        "\t",
        "[",
        "]",
        "test",
        "policy",
        "[[cipher]]",
        "manifest",
        "sha256",
        "[audit.remote]",
        "action",
        "type",
        "omfwd",
        "target",
        "destination",
        "network",
        "install",
        ".ko",
        "/",
        "../..",
        "ravelin-spool 1 ",
        "T",
        "Z",
        "2027-01-15",
        "ExecStart=",
        "LimitCORE=",
        "00000000:0016",
        "0A",
        "0",
        "-1",
        "abc",
        "99999999999999999999",
        "é",
        "\u{202e}",
        "\u{1b}[2J",
        "\0",
        "d41d8cd98f00b204e9800998ecf8427e",
        "usr/bin/ravelin",
    ]);
    prop_oneof![
        prop::collection::vec(words, 0..40).prop_map(|words| words.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_check_panic_or_move_a_cursor(
        texts in prop::collection::vec((prop::sample::select(FILES.to_vec()), text()), 1..6),
    ) {
        let host = busy();
        for (path, octets) in &texts {
            host.write(path, "");
            fs::write(host.path(path), octets).unwrap();
        }
        for check in host.checks().into_values() {
            let remedy = check.remedy.clone().unwrap_or_default();
            for shown in [&check.found, &remedy] {
                prop_assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}'), "{shown:?}");
            }
            prop_assert_eq!(check.state == CheckState::Ok, check.remedy.is_none());
        }
    }
}

#[test]
fn no_link_leads_out_of_the_root() {
    // The real /etc/passwd is no configuration, and is not looked at.
    let host = Small::good();
    host.remove("etc/ravelin/main.policy");
    host.link("etc/ravelin/main.policy", "../../../../../../../../etc/passwd");
    let found = host.checks().remove("policy tests").unwrap();
    assert_eq!(found.state, CheckState::Warn);
    assert!(found.found.contains("is not there"), "{found:?}");
    // A whole path begins at the root of the host that is looked at.
    host.write("etc/passwd", "test a { b to 192.0.2.1/icmp trusted; }\n");
    let found = host.checks().remove("policy tests").unwrap();
    assert_eq!(found.state, CheckState::Ok, "{found:?}");
    let files = host.checks().remove("policy").unwrap();
    assert!(files.state == CheckState::Fail && files.found.contains("is a link"), "{files:?}");
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_nobody_up() {
    let host = Small::good();
    for path in ["etc/ravelin/ravelin.toml", "proc/modules", "usr/bin/ravelin"] {
        host.remove(path);
        assert!(Command::new("mkfifo").arg(host.path(path)).status().unwrap().success());
    }
    let checks = host.checks();
    for name in ["configuration", "modules loaded", "own files"] {
        let check = &checks[name];
        assert!(check.state == CheckState::Warn && check.found.contains("no regular file"), "{check:?}");
    }
}

#[test]
fn what_is_too_long_is_not_read() {
    let host = Small::good();
    fs::File::create(host.path("proc/modules")).unwrap().set_len((8 << 20) + 1).unwrap();
    let check = host.checks().remove("modules loaded").unwrap();
    assert!(check.state == CheckState::Warn && check.found.contains("more than 8388608 octets"), "{check:?}");
}

#[test]
fn a_name_that_a_shell_reads_as_a_command_is_not_offered_to_be_typed() {
    let host = Small::good();
    host.write("proc/sys/net/ipv4/conf/x';reboot;'/accept_redirects", "1\n");
    host.write("proc/sys/net/ipv4/conf/x';reboot;'/send_redirects", "0\n");
    host.write("proc/sys/net/ipv4/conf/x';reboot;'/accept_source_route", "0\n");
    let check = host.checks().remove("redirects").unwrap();
    assert_eq!(check.state, CheckState::Fail);
    assert!(!check.remedy.unwrap().contains("reboot"));
    // An order that can be typed names what is wrong.
    let host = Small::good();
    host.write("proc/sys/net/ipv4/conf/eth0/accept_redirects", "1\n");
    let remedy = host.checks().remove("redirects").unwrap().remedy.unwrap();
    assert!(remedy.contains("'net/ipv4/conf/eth0/accept_redirects = 0' >> /etc/sysctl.d/"), "{remedy}");
}

#[test]
fn a_file_of_another_user_is_not_trusted() {
    let host = Small::good();
    let other = hardening::Host { owner: host.host().owner.wrapping_add(1), ..host.host() };
    let groups = hardening::checks(&other).unwrap();
    let all: Vec<_> = groups.into_iter().flat_map(|group| group.checks).collect();
    for name in ["configuration", "policy", "control socket", "own files", "cipher files", "audit log"] {
        let check = all.iter().find(|check| check.name == name).unwrap();
        assert!(check.state == CheckState::Fail && check.found.contains("belongs to user"), "{check:?}");
    }
}
