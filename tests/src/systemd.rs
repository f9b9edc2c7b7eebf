//! systemd as the first process of a container: namespaces and a control group of its own, and this host's files under an overlay, so
//! that units can be started, stopped and looked at without anything of this host being changed.
//!
//! The guest has a device `eth0` with the address 192.0.2.1, behind it a namespace with 192.0.2.2, to which the default route leads, and the
//! program under test as [`RAVELIN`].

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, ensure};
use netio::cgroup::{Cgroup, unified_root};

use crate::{Scratch, binary, program, try_wait_until};

/// The program under test, in the guest.
pub const RAVELIN: &str = "/usr/local/bin/ravelin";
/// A folder of the guest with a file system of its own, for copies of programs.
pub const PROGRAMS: &str = "/srv";

/// How long the guest may take to boot, or a command in it, on a busy machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(90);

/// Runs in the new namespaces, as the process that becomes systemd: `$1` a folder, `$2` the program.
const INIT: &str = r#"
set -eu
mount --make-rprivate /
# Of the new namespace of processes: `unshare` below looks itself up.
mount -t proc proc /proc
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
root=$1/root
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t bpf -o mode=0700 bpf "$root/sys/fs/bpf"
for folder in run tmp srv dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder"; done
mkdir "$root/dev/net" "$root/dev/pts" "$root/dev/shm"
node() { mknod -m 666 "$root/dev/$1" c "$2" "$3"; }
node null 1 3; node zero 1 5; node full 1 7; node random 1 8; node urandom 1 9; node tty 5 0; node net/tun 10 200
ln -s /proc/self/fd "$root/dev/fd"
touch "$root/usr/local/bin/ravelin"
mount --bind "$2" "$root/usr/local/bin/ravelin"
# The guest boots to nothing but what a test starts.
units=$root/etc/systemd/system
rm -rf "$units" "$root/etc/ravelin"
mkdir "$units"
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-logind.service getty.target networking.service \
	systemd-remount-fs.service systemd-timesyncd.service apparmor.service ssh.service strongswan.service vsftpd.service; do
	ln -s /dev/null "$units/$unit"
done
ln -s /lib/systemd/system/multi-user.target "$units/default.target"
: >"$root/etc/fstab"
ip link set lo up
mkdir "$root/run/netns"
: >"$root/run/netns/far"
unshare "--net=$root/run/netns/far" true
far() { nsenter "--net=$root/run/netns/far" "$@"; }
far ip link add far0 type veth peer name eth0 netns $$
far ip addr add 192.0.2.2/24 dev far0
far ip link set far0 up
ip addr add 192.0.2.1/24 dev eth0
ip link set eth0 up
ip route add default via 192.0.2.2
cd "$root"
mkdir old
pivot_root . old
umount -l old
exec env -i container=unshare PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --system --show-status=no
"#;

/// A guest that is up. It ends with this value.
pub struct Systemd {
    guest: Child,
    /// The first process of the guest, as this host numbers it.
    pid: u32,
    cgroup: Cgroup,
    _folder: Scratch,
}

impl Systemd {
    /// Boot a guest with systemd. Its control group and its folder are called `name`.
    ///
    /// # Errors
    /// With what systemd said, if it does not boot.
    pub fn boot(name: &str) -> anyhow::Result<Systemd> {
        let init = Path::new("/lib/systemd/systemd");
        ensure!(init.exists(), "{} is missing; `make deps` installs it", init.display());
        let folder = Scratch::new(name);
        let cgroup = Cgroup::create(&unified_root()?, name)?;
        let log = folder.join("log");
        let output = fs::File::create(&log)?;
        let root = folder.join("guest");
        fs::create_dir(&root)?;
        // systemd takes the group it finds itself in for the root of its tree.
        let guest = inside(&cgroup)
            .args([
                "unshare",
                "--fork",
                "--kill-child",
                "--pid",
                "--mount",
                "--uts",
                "--ipc",
                "--net",
                "--cgroup",
            ])
            .args(["sh", "-c", INIT, "sh"])
            .args([&root, &binary()])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("starting unshare")?;
        let mut booted = Systemd { guest, pid: 0, cgroup, _folder: folder };
        let said = || fs::read_to_string(&log).unwrap_or_default();
        booted.wait().with_context(|| format!("systemd does not boot: {}", said()))?;
        Ok(booted)
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        try_wait_until("systemd to come up", PATIENCE, || {
            ensure!(self.guest.try_wait()?.is_none(), "it has ended");
            let children = format!("/proc/{0}/task/{0}/children", self.guest.id());
            let Some(pid) =
                fs::read_to_string(children)?.split_whitespace().next().and_then(|pid| pid.parse().ok())
            else {
                return Ok(false);
            };
            self.pid = pid;
            // Before that it is the shell that prepares the guest.
            let is_init = fs::read(format!("/proc/{pid}/cmdline"))?.starts_with(b"/lib/systemd/systemd");
            Ok(is_init && self.run("systemctl is-system-running").is_ok_and(|done| done.status.success()))
        })
    }

    /// What a script does in the guest, which may take a minute and a half.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(&self, script: &str) -> anyhow::Result<Output> {
        let (limit, pid) = (PATIENCE.as_secs().to_string(), self.pid.to_string());
        let mut command = inside(&self.cgroup);
        command.args(["timeout", &limit, "nsenter", "--all", "--target", &pid, "sh", "-c", script]);
        let done = command.stdin(Stdio::null()).output();
        done.context("starting nsenter")
    }

    /// What a script that must succeed prints, without the last end of line.
    ///
    /// # Panics
    /// With what it said, if it fails.
    #[track_caller]
    pub fn ok(&self, script: &str) -> String {
        let done = self.run(script).unwrap();
        let (out, err) = (text(&done.stdout), text(&done.stderr));
        assert!(done.status.success(), "{script}: {}\n{out}{err}\n{}", done.status, self.log());
        out.trim_end().to_owned()
    }

    /// Send a datagram to a port of the guest, from 192.0.2.2.
    ///
    /// # Panics
    /// If it cannot be sent.
    pub fn send_from_far(&self, port: u16) {
        let send = "import socket, sys; socket.socket(type=socket.SOCK_DGRAM).sendto(bytes(64), ('192.0.2.1', int(sys.argv[1])))";
        let namespace = format!("--net=/proc/{}/root/run/netns/far", self.pid);
        let mut command = Command::new(program("nsenter"));
        command.arg(namespace).arg(program("python3")).args(["-c", send, &port.to_string()]);
        assert!(command.status().unwrap().success());
    }

    /// What the units of Ravelin have logged.
    pub fn log(&self) -> String {
        let script = "journalctl --no-pager --output cat --unit 'ravelin*'";
        self.run(script).map_or_else(|error| error.to_string(), |done| text(&done.stdout))
    }

    /// Write a file of the guest.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, path: &str, text: &str) {
        fs::write(self.outside(path), text).unwrap();
    }

    /// Copy an executable file of this host into the guest.
    ///
    /// # Panics
    /// If it cannot be copied.
    pub fn copy(&self, from: &Path, path: &str) {
        fs::copy(from, self.outside(path)).unwrap();
        fs::set_permissions(self.outside(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A path of the guest, from this host.
    fn outside(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid))
    }
}

/// A program in a control group, whose name and arguments are to follow: what is not in the guest's is in none of its units' reach.
fn inside(cgroup: &Cgroup) -> Command {
    let enter = format!("echo 0 >{}/cgroup.procs && exec \"$@\"", cgroup.path().display());
    let mut command = Command::new(program("sh"));
    command.args(["-c", &enter, "sh"]);
    command
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // With its first process the whole guest ends.
        let _ = self.cgroup.kill();
        let _ = self.guest.wait();
        let _ = self.cgroup.clone().remove();
    }
}

/// What a program printed.
pub fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// Why no guest can boot on this host, if that is so.
pub fn missing() -> Option<&'static str> {
    let kinds = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has = |kind: &str| kinds.lines().any(|line| line.split_whitespace().last() == Some(kind));
    (!has("overlay"))
        .then_some("this kernel has no overlay file system, without which a guest would change this host")
}
