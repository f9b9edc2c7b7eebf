//! Each check passes on a good host, and fails alone when one thing is changed.

use std::collections::BTreeSet;

use api::{CheckState, HardeningRemedy};

use crate::host::Small;

/// The check that fails, words of what it finds, and what is changed before.
type Case = (&'static str, &'static str, fn(&Small));

const TOML: &str = "etc/ravelin/ravelin.toml";
const POLICY: &str = "etc/ravelin/main.policy";
const WANTS: &str = "etc/systemd/system/multi-user.target.wants";

const MODULES: &[Case] = &[
    ("modules loaded", "a gateway does not need tipc", |host| {
        host.write("proc/modules", "tipc 1 0 - Live 0x0\n")
    }),
    ("modules loadable", "rds (6.12.9-amd64)", |host| host.remove("etc/modprobe.d/hardening.conf")),
    ("modules loadable", "rds (6.12.9-amd64)", |host| {
        host.write("etc/modprobe.d/hardening.conf", "install rds /sbin/modprobe --ignore-install rds\n");
    }),
    ("modules loadable", "rds (6.12.9-amd64)", |host| {
        // The stronger folder hides the file of one name in the weaker.
        host.write("usr/lib/modprobe.d/hardening.conf", "install rds /bin/false\n");
        host.write("etc/modprobe.d/hardening.conf", "");
    }),
    ("modules loadable", "usb_storage (6.12.8-amd64)", |host| {
        host.write(
            "lib/modules/6.12.8-amd64/modules.dep",
            "kernel/drivers/usb/storage/usb-storage.ko.zst: kernel/x.ko\n",
        );
    }),
    ("modules loadable", "sctp is built into 6.12.9-amd64", |host| {
        host.write("lib/modules/6.12.9-amd64/modules.builtin", "kernel/net/sctp/sctp.ko\n");
    }),
    ("module loading", "root may load any module", |host| {
        host.write("proc/sys/kernel/modules_disabled", "0\n")
    }),
    ("listening", "telnet at 0.0.0.0 port 23/tcp", |host| {
        host.replace("proc/net/tcp", "00000000:0016", "00000000:0017")
    }),
    ("listening", "mdns (avahi) at :: port 5353/udp", |host| {
        let nobody = "0".repeat(32);
        host.write("proc/net/udp6", &format!("header\n 0: {nobody}:14E9 {nobody}:0000 07 0:0\n"));
    }),
    ("services enabled", "avahi-daemon.socket is enabled", |host| {
        host.link(
            "etc/systemd/system/sockets.target.wants/avahi-daemon.socket",
            "/lib/systemd/system/avahi-daemon.socket",
        );
    }),
    ("services enabled", "rsh.service is enabled", |host| host.link("etc/rc3.d/S20rsh", "../init.d/rsh")),
    ("services enabled", "/etc/inetd.conf offers telnet", |host| {
        host.write("etc/inetd.conf", "# shell stream\ntelnet stream tcp nowait root /usr/sbin/telnetd\n");
    }),
];

const FUNCTIONS: &[Case] = &[
    ("redirects", "net/ipv4/conf/eth0/send_redirects is 1", |host| {
        host.write("proc/sys/net/ipv4/conf/eth0/send_redirects", "1\n");
    }),
    ("redirects", "net/ipv6/conf/default/accept_redirects is 1", |host| {
        host.write("proc/sys/net/ipv6/conf/default/accept_redirects", "1\n");
    }),
    ("source routing", "net/ipv4/conf/all/accept_source_route is 1", |host| {
        host.write("proc/sys/net/ipv4/conf/all/accept_source_route", "1\n");
    }),
    ("router adverts", "net/ipv6/conf/eth0/accept_ra is 2", |host| {
        host.write("proc/sys/net/ipv6/conf/eth0/accept_ra", "2\n");
    }),
    ("router adverts", "net/ipv6/conf/eth0/accept_ra is 1", |host| {
        host.write("proc/sys/net/ipv6/conf/eth0/forwarding", "0\n");
    }),
    ("kexec", "kernel/kexec_load_disabled is 0", |host| {
        host.write("proc/sys/kernel/kexec_load_disabled", "0\n")
    }),
    ("bpf", "kernel/unprivileged_bpf_disabled is 0", |host| {
        host.write("proc/sys/kernel/unprivileged_bpf_disabled", "0\n");
    }),
    ("kernel addresses", "kernel/kptr_restrict is 0", |host| {
        host.write("proc/sys/kernel/kptr_restrict", "0\n")
    }),
    ("kernel addresses", "kernel/dmesg_restrict is 0", |host| {
        host.write("proc/sys/kernel/dmesg_restrict", "0\n")
    }),
    ("ptrace", "kernel/yama/ptrace_scope is 0", |host| {
        host.write("proc/sys/kernel/yama/ptrace_scope", "0\n")
    }),
    ("ptrace", "the kernel has no Yama", |host| host.remove("proc/sys/kernel/yama")),
    ("core dumps", "fs/suid_dumpable is 2", |host| host.write("proc/sys/fs/suid_dumpable", "2\n")),
];

const CONFIGURATION: &[Case] = &[
    ("configuration", "may be written by group or others (mode 0664)", |host| host.mode(TOML, 0o664)),
    ("policy", "may be written by group or others (mode 0646)", |host| host.mode(POLICY, 0o646)),
    ("policy", "/etc/ravelin/main.policy is a link", |host| {
        host.write("etc/ravelin/other.policy", "test a { b to 192.0.2.1/icmp trusted; }");
        host.remove(POLICY);
        host.link(POLICY, "other.policy");
    }),
    ("policy tests", "has no line of a test", |host| {
        host.write(POLICY, "# test a { b to 192.0.2.1/icmp trusted; }\n")
    }),
    ("units", "ravelin-boot.service is not enabled", |host| {
        host.remove("etc/systemd/system/sysinit.target.wants/ravelin-boot.service");
    }),
    ("units", "ravelin-boot.service is not enabled", |host| {
        host.link("run/systemd/system/ravelin-boot.service", "/dev/null");
    }),
    ("control socket", "open to group or others (mode 0660)", |host| {
        host.mode("run/ravelin/main/control.sock", 0o660)
    }),
    ("control socket", "/run/ravelin/main may be written by group or others", |host| {
        host.mode("run/ravelin/main", 0o770)
    }),
    ("weak suites", "DES, 3DES and HMAC-MD5", |host| host.replace(TOML, "legacy = false", "legacy = true")),
];

const UPDATES: &[Case] = &[
    ("automatic", "APT::Periodic::Unattended-Upgrade is not on", |host| {
        host.write("etc/apt/apt.conf.d/99local", "APT::Periodic::Unattended-Upgrade \"0\";\n");
    }),
    ("automatic", "unattended-upgrades is not installed", |host| host.remove("usr/bin/unattended-upgrade")),
    ("automatic", "APT::Periodic::Unattended-Upgrade is not on", |host| {
        // A copy that dpkg left is not read.
        host.remove("etc/apt/apt.conf.d/20auto-upgrades");
        host.write(
            "etc/apt/apt.conf.d/20auto-upgrades.dpkg-old",
            "APT::Periodic::Unattended-Upgrade \"1\";\n",
        );
    }),
    ("automatic", "apt-daily-upgrade.timer is not enabled", |host| {
        host.remove("etc/systemd/system/timers.target.wants/apt-daily-upgrade.timer");
    }),
    ("package lists", "the youngest list is 8 days old", |host| {
        host.age("var/lib/apt/periodic/update-success-stamp", 8 * 86_400);
    }),
    ("reboot", "/run/reboot-required is there, for libc6", |host| {
        host.write("run/reboot-required", "");
        host.write("run/reboot-required.pkgs", "libc6\nlibc6\n");
    }),
    ("reboot", "6.12.9-amd64 runs, and 6.12.17-amd64 is installed", |host| {
        host.write("boot/vmlinuz-6.12.17-amd64", "")
    }),
];

const INTEGRITY: &[Case] = &[
    ("file integrity", "aide compared the host's files 9 days ago", |host| {
        host.age("var/log/aide/aide.log", 9 * 86_400)
    }),
    ("file integrity", "neither aide nor debsums", |host| host.remove("var/lib/aide")),
    ("file integrity", "debsums is installed and compares nothing", |host| {
        host.remove("var/lib/aide");
        host.write("usr/bin/debsums", "");
        host.write("etc/default/debsums", "#CRON_CHECK=daily\nCRON_CHECK=never\n");
    }),
    ("own files", "/usr/bin/ravelin was changed", |host| host.write("usr/bin/ravelin", "abd")),
    ("own files", "/usr/share/doc/ravelin/empty was changed", |host| {
        host.write("usr/share/doc/ravelin/empty", "a")
    }),
    ("own files", "/usr/local/bin/ravelin is in no record", |host| {
        host.write("usr/local/bin/ravelin", "abc")
    }),
    ("own files", "/etc/systemd/system/ravelin.service.d/x.conf is in no record", |host| {
        host.write("etc/systemd/system/ravelin.service.d/x.conf", "[Service]\nNice=1\n");
    }),
    ("own files", "may be written by group or others", |host| {
        host.mode("var/lib/dpkg/info/ravelin.md5sums", 0o666)
    }),
    ("cipher files", "is not what its manifest says", |host| {
        host.write("usr/lib/ravelin/libproofaes.so", "abd")
    }),
    ("cipher files", "is not what its manifest says", |host| {
        host.write("usr/lib/ravelin/proofaes.json", "{}")
    }),
    ("cipher files", "is not the manifest that the configuration means", |host| {
        host.replace("usr/lib/ravelin/proofaes.manifest.json", "\"MIT\"", "\"GPL\"");
    }),
    ("cipher files", "may be written by group or others", |host| {
        host.mode("usr/lib/ravelin/libproofaes.so", 0o664)
    }),
    ("cipher files", "libproofaes.so is not there", |host| host.remove("usr/lib/ravelin/libproofaes.so")),
    ("intrusion", "none of suricata", |host| host.remove(&format!("{WANTS}/suricata.service"))),
    ("intrusion", "suricata is enabled and silent since 2 hours", |host| {
        host.age("var/log/suricata/stats.log", 7200)
    }),
    ("intrusion", "suricata is enabled and never wrote", |host| host.remove("var/log/suricata/stats.log")),
];

const REMOTE_LOG: &[Case] = &[
    ("remote heard", "the other node took nothing by [audit.remote] for 2 hours", |host| {
        // The daemon goes on writing, and nobody reads.
        host.spool(41, Some("06:00:00"));
    }),
    ("remote heard", "the other node took nothing by [audit.remote] for 3 hours", |host| {
        // Everything was read, and no daemon writes any more.
        host.spool(41, None);
        host.age("var/lib/ravelin/main/audit-spool/spool", 3 * 3600);
    }),
    ("remote heard", "never took anything", |host| host.spool(0, Some("07:59:00"))),
    ("remote heard", "never took anything", |host| host.remove("var/lib/ravelin")),
    ("remote heard", "for 2 hours", |host| {
        // A full spool is longer than what is read of other files.
        host.spool(41, Some("06:00:00"));
        let spool = host.path("var/lib/ravelin/main/audit-spool/spool");
        std::fs::OpenOptions::new().write(true).open(spool).unwrap().set_len(16 << 20).unwrap();
        host.age("var/lib/ravelin/main/audit-spool/spool", 60);
    }),
    ("remote log", "no log leaves the host", |host| {
        host.replace(TOML, "[audit.remote]\nserver = \"192.0.2.7\"\n", "");
    }),
    ("remote log", "no log leaves the host", |host| {
        host.replace(TOML, "[audit.remote]\nserver = \"192.0.2.7\"\n", "");
        host.link(&format!("{WANTS}/rsyslog.service"), "/lib/systemd/system/rsyslog.service");
        host.write("etc/rsyslog.conf", "*.* @@127.0.0.1\n# *.* @@192.0.2.1\n");
    }),
    ("audit log", "has no [audit] with a `file`", |host| {
        host.replace(TOML, "file = \"/var/log/ravelin/audit.jsonl\"\n", "");
    }),
    ("audit log", "/var/log/ravelin may be written by group or others", |host| {
        host.mode("var/log/ravelin", 0o775);
    }),
    ("audit log", "may be written by group or others", |host| {
        host.mode("var/log/ravelin/audit.jsonl", 0o622)
    }),
];

#[test]
fn a_hardened_host_passes_every_check_of_every_remedy() {
    let host = Small::good();
    let groups = hardening::checks(&host.host()).unwrap();
    let remedies: Vec<HardeningRemedy> = groups.iter().map(|group| group.remedy).collect();
    use HardeningRemedy::{Configuration, Functions, Integrity, Modules, RemoteLog, Updates};
    assert_eq!(remedies, [Modules, Functions, Configuration, Updates, Integrity, RemoteLog]);
    for group in &groups {
        assert!(group.checks.len() >= 2, "{group:?}");
        for check in &group.checks {
            assert_eq!((check.state, &check.remedy), (CheckState::Ok, &None), "{check:#?}");
        }
    }
}

#[test]
fn one_change_makes_exactly_its_check_fail() {
    let all = [MODULES, FUNCTIONS, CONFIGURATION, UPDATES, INTEGRITY, REMOTE_LOG].concat();
    for (name, words, change) in &all {
        let host = Small::good();
        change(&host);
        let checks = host.checks();
        let failed = Small::named(&checks, CheckState::Fail);
        assert_eq!(failed, [*name], "{words}: {checks:#?}");
        let check = &checks[*name];
        assert!(check.found.contains(words), "{check:?}");
        assert!(check.remedy.as_ref().is_some_and(|remedy| remedy.len() > 20), "{check:?}");
    }
    // Every check has such a case.
    let covered: BTreeSet<String> = all.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let known: BTreeSet<String> = Small::good().checks().into_keys().collect();
    assert_eq!(covered, known);
}

#[test]
fn the_other_ways_to_be_hardened_pass_as_well() {
    let ways: &[Case] = &[
        ("module loading", "sig_enforce", |host| {
            host.write("proc/sys/kernel/modules_disabled", "0\n");
            host.write("sys/module/module/parameters/sig_enforce", "Y\n");
        }),
        ("module loading", "lockdown=integrity", |host| {
            host.write("proc/sys/kernel/modules_disabled", "0\n");
            host.write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
        }),
        ("modules loadable", "absent or refused", |host| {
            host.write("etc/modprobe.d/hardening.conf", "blacklist rds\n");
        }),
        ("modules loadable", "absent or refused", |host| {
            host.remove("etc/modprobe.d/hardening.conf");
            host.write("proc/cmdline", "quiet module_blacklist=dccp,rds\n");
        }),
        ("modules loadable", "the kernel takes no modules", |host| {
            host.remove("lib/modules");
            host.remove("proc/modules");
            host.remove("proc/sys/kernel/modules_disabled");
        }),
        ("services enabled", "none is of a service", |host| {
            host.link(&format!("{WANTS}/rpcbind.service"), "/lib/systemd/system/rpcbind.service");
            host.link("etc/systemd/system/rpcbind.service", "/dev/null");
        }),
        ("router adverts", "the host is no gateway", |host| {
            host.replace(TOML, "[gateway]\ninside = [\"eth1\"]\n", "");
            host.write("proc/sys/net/ipv4/ip_forward", "0\n");
            host.write("proc/sys/net/ipv6/conf/all/forwarding", "0\n");
            host.write("proc/sys/net/ipv6/conf/eth0/accept_ra", "2\n");
        }),
        ("kexec", "no other kernel can be started", |host| {
            // A kernel that was built without.
            host.remove("proc/sys/kernel/kexec_load_disabled");
        }),
        ("package lists", "the youngest list is 3 days old", |host| {
            host.remove("var/lib/apt");
            for (name, days) in [("main_InRelease", 40), ("security_InRelease", 3), ("main_Packages", 1)] {
                let path = format!("var/lib/apt/lists/{name}");
                host.write(&path, "");
                host.age(&path, days * 86_400);
            }
        }),
        ("redirects", "no redirect is heard", |host| host.remove("proc/sys/net/ipv6")),
        ("automatic", "dnf installs updates by itself (dnf-automatic.timer)", |host| {
            host.remove("etc/apt");
            host.write("etc/dnf/automatic.conf", "[commands]\napply_updates = yes\n");
            host.link("etc/systemd/system/timers.target.wants/dnf-automatic.timer", "/usr/lib/x");
        }),
        ("file integrity", "ima_appraise=enforce", |host| {
            host.remove("var/lib/aide");
            host.write("proc/cmdline", "ima_appraise=enforce\n");
        }),
        ("file integrity", "debsums compares the files of packages weekly", |host| {
            host.remove("var/lib/aide");
            host.write("usr/bin/debsums", "");
            host.write("etc/default/debsums", "CRON_CHECK=\"weekly\"\n");
        }),
        ("intrusion", "crowdsec wrote 60 minutes ago", |host| {
            host.remove(&format!("{WANTS}/suricata.service"));
            host.link(&format!("{WANTS}/crowdsec.service"), "/lib/systemd/system/crowdsec.service");
            host.write("var/log/crowdsec.log", "");
            host.age("var/log/crowdsec.log", 3600);
        }),
        ("remote heard", "by [audit.remote] the other node took what is older than 2 hours", |host| {
            host.replace(
                TOML,
                "server = \"192.0.2.7\"\n",
                "server = \"192.0.2.7\"\nheartbeat = 3600\nspool = \"/var/s\"\n",
            );
            host.spool(41, Some("06:00:00"));
            std::fs::rename(host.path("var/lib/ravelin/main/audit-spool"), host.path("var/s")).unwrap();
        }),
        (
            "remote heard",
            "by systemd-journal-upload the other node took what is older than 30 minutes",
            |host| {
                host.replace(TOML, "[audit.remote]\nserver = \"192.0.2.7\"\n", "");
                host.link(&format!("{WANTS}/systemd-journal-upload.service"), "/lib/systemd/system/x");
                host.write(
                    "etc/systemd/journal-upload.conf",
                    "[Upload]\nURL=https://log.example.org:19532\n",
                );
                host.write("var/lib/systemd/journal-upload/state", "");
                host.age("var/lib/systemd/journal-upload/state", 1800);
            },
        ),
        ("own files", "are as they were recorded", |host| {
            // What an administrator means and has no package is in the list.
            host.write("usr/local/bin/ravelin", "abc");
            let list = std::fs::read_to_string(host.path("etc/ravelin/digests.sha256")).unwrap();
            let digest = list.lines().nth(1).unwrap().split(' ').next().unwrap();
            host.write("etc/ravelin/digests.sha256", &format!("{list}{digest}  /usr/local/bin/ravelin\n"));
        }),
    ];
    for (name, words, change) in ways {
        let host = Small::good();
        change(&host);
        let check = host.checks().remove(*name).unwrap();
        assert!(check.state == CheckState::Ok && check.found.contains(words), "{words}: {check:?}");
    }
}
