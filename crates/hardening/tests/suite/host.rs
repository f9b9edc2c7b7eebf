//! A small host in a temporary folder that passes every check: a gateway of Debian's.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use api::{Check, CheckState};
use cipher_manifest::Digest;
use hardening::Host;

/// The time of day on every host here.
pub const NOW: Duration = Duration::from_secs(1_800_000_000);

/// MD5 (RFC 1321 section A.5) and SHA-256 (FIPS 180-4) of `abc`, which is what the program has in it here.
const ABC_MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
const ABC_SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
/// SHA-256 of no octets.
const NONE_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1
   1: 0100007F:0277 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1
   2: 0A00000A:0016 0B00000A:C350 01 00000000:00000000 00:00000000 00000000     0        0 13 1
";
const UDP: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
    0: 00000000:1194 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 14 2 0 0
";
const NO_SOCKETS: &str =
    "  sl  local_address                         remote_address                        st\n";

const UNIT: &str =
    "[Service]\nExecStart=/usr/bin/ravelin run --config /etc/ravelin/ravelin.toml\nLimitCORE=0\n";

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A host; its files go when it is dropped.
pub struct Small {
    root: PathBuf,
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Small {
    /// A host without any file.
    pub fn empty() -> Small {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Some thousand files are made and removed, which takes a disk half a minute and memory one second.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let root = folder.join(format!("hardening-{}-{number}", std::process::id()));
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
        Small { root }
    }

    /// A host that passes every check.
    pub fn good() -> Small {
        let host = Small::empty();
        host.kernel();
        host.settings();
        host.ours();
        host.others();
        host
    }

    fn kernel(&self) {
        self.write("proc/sys/kernel/osrelease", "6.12.9-amd64\n");
        self.write("proc/cmdline", "root=/dev/sda1 ro quiet\n");
        self.write("proc/modules", "tun 65536 2 - Live 0x0\nxfrm_user 49152 1 - Live 0x0\n");
        self.write(
            "lib/modules/6.12.9-amd64/modules.dep",
            "kernel/drivers/net/tun.ko.xz:\nkernel/net/rds/rds.ko.xz:\n",
        );
        self.write("lib/modules/6.12.9-amd64/modules.builtin", "kernel/fs/ext4/ext4.ko\n");
        self.write("etc/modprobe.d/hardening.conf", "# refused\ninstall rds /bin/false\n");
        self.write("proc/sys/kernel/modules_disabled", "1\n");
        self.write("boot/vmlinuz-6.12.9-amd64", "");
        self.write("proc/net/tcp", TCP);
        self.write("proc/net/udp", UDP);
        self.write("proc/net/tcp6", NO_SOCKETS);
        self.write("proc/net/udp6", NO_SOCKETS);
    }

    fn settings(&self) {
        for (name, value) in [
            ("kernel/kexec_load_disabled", "1"),
            ("kernel/unprivileged_bpf_disabled", "2"),
            ("kernel/kptr_restrict", "1"),
            ("kernel/dmesg_restrict", "1"),
            ("kernel/yama/ptrace_scope", "1"),
            ("fs/suid_dumpable", "0"),
            ("net/ipv4/ip_forward", "1"),
        ] {
            self.write(&format!("proc/sys/{name}"), &format!("{value}\n"));
        }
        for interface in ["all", "default", "lo", "eth0"] {
            // That of the loopback is of no account.
            let heard = if interface == "lo" { "1\n" } else { "0\n" };
            for key in ["accept_redirects", "send_redirects", "accept_source_route"] {
                self.write(&format!("proc/sys/net/ipv4/conf/{interface}/{key}"), heard);
            }
            for key in ["accept_redirects", "accept_source_route", "accept_ra"] {
                self.write(&format!("proc/sys/net/ipv6/conf/{interface}/{key}"), heard);
            }
            self.write(&format!("proc/sys/net/ipv6/conf/{interface}/forwarding"), "1\n");
        }
        // Without effect where packets are forwarded.
        self.write("proc/sys/net/ipv6/conf/eth0/accept_ra", "1\n");
    }

    fn ours(&self) {
        self.write("usr/bin/ravelin", "abc");
        self.write("usr/share/doc/ravelin/empty", "");
        self.write("usr/lib/systemd/system/ravelin.service", UNIT);
        self.write("usr/lib/systemd/system/ravelin-boot.service", "abc");
        // As on a host whose /lib is part of /usr; the record has the name from before.
        self.link(
            "etc/systemd/system/multi-user.target.wants/ravelin.service",
            "/usr/lib/systemd/system/ravelin.service",
        );
        self.link(
            "etc/systemd/system/sysinit.target.wants/ravelin-boot.service",
            "/usr/lib/systemd/system/ravelin-boot.service",
        );
        let record =
            format!("{ABC_MD5}  usr/bin/ravelin\n{ABC_MD5}  usr/lib/systemd/system/ravelin-boot.service\n");
        self.write("var/lib/dpkg/info/ravelin.md5sums", &record);
        self.write(
            "var/lib/dpkg/info/ravelin-other.md5sums",
            "00000000000000000000000000000000  usr/bin/other\n",
        );
        let list = format!(
            "{}  /usr/lib/systemd/system/ravelin.service\n{ABC_SHA256} */usr/bin/ravelin\n{NONE_SHA256}  /usr/share/doc/ravelin/empty\n",
            Digest::of(UNIT.as_bytes())
        );
        self.write("etc/ravelin/digests.sha256", &list);
        let manifest = format!(
            r#"{{"name": "proofaes", "version": "1.2", "vendor": "Example", "kind": "block", "block": 16, "key": 64,
            "constant_time": true, "transform_id": 61440, "library": {{"file": "libproofaes.so", "sha256": "{ABC_SHA256}"}},
            "vectors": {{"file": "proofaes.json", "sha256": "{NONE_SHA256}"}},
            "source": "https://example.org/proofaes", "licence": "MIT"}}"#
        );
        self.write("usr/lib/ravelin/proofaes.manifest.json", &manifest);
        self.write("usr/lib/ravelin/libproofaes.so", "abc");
        self.write("usr/lib/ravelin/proofaes.json", "");
        self.write(
            "etc/ravelin/main.policy",
            "test \"mail\" { mutt to 192.0.2.25:993/tcp encryption mandatory; }\n",
        );
        self.write("etc/ravelin/ravelin.toml", &config(&Digest::of(manifest.as_bytes()).to_string()));
        self.socket("run/ravelin/main/control.sock", 0o600);
        self.write("var/log/ravelin/audit.jsonl", "");
        self.spool(41, Some("07:59:00"));
    }

    fn others(&self) {
        self.write("etc/apt/apt.conf.d/20auto-upgrades", "APT::Periodic::Unattended-Upgrade \"1\";\n");
        self.write("usr/bin/unattended-upgrade", "");
        let timer = "etc/systemd/system/timers.target.wants/apt-daily-upgrade.timer";
        self.link(timer, "/lib/systemd/system/apt-daily-upgrade.timer");
        self.write("var/lib/apt/periodic/update-success-stamp", "");
        self.age("var/lib/apt/periodic/update-success-stamp", 86_400);
        self.write("var/lib/aide/aide.db", "");
        self.write("var/log/aide/aide.log", "");
        self.age("var/lib/aide/aide.db", 90 * 86_400);
        self.age("var/log/aide/aide.log", 86_400);
        self.link(
            "etc/systemd/system/multi-user.target.wants/suricata.service",
            "/lib/systemd/system/suricata.service",
        );
        self.write("var/log/suricata/stats.log", "");
        self.age("var/log/suricata/stats.log", 8);
    }

    /// Writes the spool of the audit log one minute ago: the number of the last message that the collector read, and the
    /// time of this day of the first one that waits. It is 08:00 on the host.
    pub fn spool(&self, read: u64, waits: Option<&str>) {
        let path = "var/lib/ravelin/main/audit-spool/spool";
        let first = format!("ravelin-spool 1 {read} {}\n", "0".repeat(64));
        let message = waits.map(|time| {
            let message =
                format!("<86>1 2027-01-15T{time}.000000Z gw ravelin 7 audit [ravelin@32473 seq=\"1\"] {{}}");
            format!("{} {message}", message.len())
        });
        self.write(path, &(first + &message.unwrap_or_default()));
        self.age(path, 60);
    }

    /// The path of a file on the machine that the test runs on.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Writes a file, with its folders.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.folders(path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    }

    /// Makes the folders of a path, which nobody but their owner writes.
    fn folders(&self, path: &str) -> PathBuf {
        let mut folder = self.root.clone();
        for part in Path::new(path).parent().unwrap().components() {
            folder.push(part);
            if !folder.exists() {
                fs::create_dir(&folder).unwrap();
                fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
            }
        }
        self.root.join(path)
    }

    /// Makes a link to this target.
    pub fn link(&self, path: &str, target: &str) {
        symlink(target, self.folders(path)).unwrap();
    }

    /// Makes a socket with this mode.
    pub fn socket(&self, path: &str, mode: u32) {
        let path = self.folders(path);
        drop(UnixListener::bind(&path).unwrap());
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    /// Sets the mode of a file or folder.
    pub fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), Permissions::from_mode(mode)).unwrap();
    }

    /// Makes a file one that changed last so many seconds ago.
    pub fn age(&self, path: &str, seconds: u64) {
        let at = SystemTime::UNIX_EPOCH + NOW - Duration::from_secs(seconds);
        File::open(self.path(path)).unwrap().set_modified(at).unwrap();
    }

    /// Removes a file, a link or a folder with all that is in it.
    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.symlink_metadata().unwrap().is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    /// Replaces the only place of a text in a file.
    pub fn replace(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(path)).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{from} in {path}");
        fs::write(self.path(path), text.replace(from, to)).unwrap();
    }

    /// Puts a folder in the place of a file, so that it cannot be read.
    pub fn block(&self, path: &str) {
        self.remove(path);
        fs::create_dir(self.path(path)).unwrap();
    }

    /// The host as the checks take it.
    pub fn host(&self) -> Host {
        let owner = fs::metadata(&self.root).unwrap().uid();
        Host { owner, ..Host::new(&self.root, NOW) }
    }

    /// Every check by its name.
    pub fn checks(&self) -> BTreeMap<String, Check> {
        let groups = hardening::checks(&self.host()).unwrap();
        let all: Vec<Check> = groups.into_iter().flat_map(|group| group.checks).collect();
        let count = all.len();
        let named: BTreeMap<_, _> = all.into_iter().map(|check| (check.name.clone(), check)).collect();
        assert_eq!(named.len(), count, "two checks have one name");
        named
    }

    /// The names of the checks with this result.
    pub fn named(checks: &BTreeMap<String, Check>, state: CheckState) -> Vec<&str> {
        checks.values().filter(|check| check.state == state).map(|check| check.name.as_str()).collect()
    }
}

fn config(digest: &str) -> String {
    format!(
        "policy = \"main.policy\"\n\
         [gateway]\ninside = [\"eth1\"]\n\
         [crypto]\nlegacy = false\n\
         [audit]\nfile = \"/var/log/ravelin/audit.jsonl\"\n\
         [audit.remote]\nserver = \"192.0.2.7\"\n\
         [[cipher]]\nbuiltin = \"maes512\"\n\
         [[cipher]]\nmanifest = \"/usr/lib/ravelin/proofaes.manifest.json\"\nsha256 = \"{digest}\"\n"
    )
}
