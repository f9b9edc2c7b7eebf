//! The units that `ravelin init --systemd` writes, under systemd itself (docs/design/0027): limits, readiness, where the daemon is,
//! what a broken policy does, and what survives each way to end.

use tests::systemd::{self, PROGRAMS, RAVELIN, Systemd, text};
use tests::{PATIENCE, program, wait_for};

/// The most that `systemd-analyze security` may find, 0 to 10.
const EXPOSURE: f64 = 4.0;
/// An address that policy keeps the program from, and one that it protects.
const REFUSED: &str = "198.51.100.9";

/// Sends a datagram: `sent`, or the error's name.
const SEND: &str = r#"
import errno, socket, sys
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (sys.argv[1], 9))
    print("sent")
except OSError as error:
    print(errno.errorcode[error.errno])
"#;

struct Host(Systemd);

impl std::ops::Deref for Host {
    type Target = Systemd;

    fn deref(&self) -> &Systemd {
        &self.0
    }
}

impl Host {
    /// A guest with the files that `ravelin init` writes, and a policy about one program. `None`: it cannot be had here.
    fn boot(name: &str) -> Option<Host> {
        if let Some(why) = systemd::missing() {
            println!("skipped: {why}");
            return None;
        }
        let host = Host(Systemd::boot(name).unwrap());
        host.ok(&format!("{RAVELIN} init --systemd && systemctl daemon-reload"));
        host.copy(&program("python3"), &format!("{PROGRAMS}/app"));
        host.write("/srv/send.py", SEND);
        host.set_policy(&policy());
        Some(host)
    }

    fn set_policy(&self, text: &str) {
        self.write("/etc/ravelin/main.policy", text);
    }

    /// What becomes of a datagram of the program.
    fn sends(&self, to: &str) -> String {
        self.ok(&format!("{PROGRAMS}/app /srv/send.py {to}"))
    }

    /// A property of the unit.
    fn shows(&self, property: &str) -> String {
        self.ok(&format!("systemctl show -P {property} ravelin"))
    }

    fn status(&self) -> serde_json::Value {
        let done = self.run(&format!("{RAVELIN} status --json")).unwrap();
        serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|_| panic!("no status: {}{}", text(&done.stderr), self.log()))
    }

    /// The codes of what the daemon calls degraded.
    fn problems(&self) -> Vec<String> {
        let status = self.status();
        let problems = status["problems"].as_array().cloned().unwrap_or_default();
        problems.iter().map(|problem| problem["code"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Give the daemon a key; what it said.
    fn add_key(&self, spi: u32) -> std::process::Output {
        let key = format!("{spi:08x}").repeat(9);
        let add = format!(
            "echo {key} | {RAVELIN} sa add --direction out --spi {spi} --local 192.0.2.1 --remote 192.0.2.2 --mode tunnel \
             --suite aes256gcm"
        );
        self.run(&add).unwrap()
    }

    /// What `systemd-analyze security` says of a unit that is loaded.
    #[track_caller]
    fn scores(&self, unit: &str) {
        let said = self.ok(&format!("systemd-analyze security --no-pager {unit}"));
        let overall = said.lines().last().unwrap_or_default();
        let score = overall.split(": ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        assert!(score.is_some_and(|score| score <= EXPOSURE), "{said}");
    }

    #[track_caller]
    fn is_closed(&self) {
        assert_eq!(self.sends(REFUSED), "EPERM", "{}", self.log());
    }

    /// What comes to the daemon's port reaches it: policy, which has a word about every program, has none about its sockets.
    #[track_caller]
    fn hears(&self) {
        wait_for("the daemon to hear a datagram", PATIENCE, || {
            self.send_from_far(4500);
            let received = self.status()["inbound"]["received"].as_u64();
            if received > Some(0) { Ok(()) } else { Err(self.log()) }
        });
    }

    /// Wait until the unit has become what systemd calls `state`.
    #[track_caller]
    fn becomes(&self, state: &str) {
        wait_for(&format!("ravelin.service to be {state}"), PATIENCE, || {
            let is = self.shows("ActiveState");
            if is == state { Ok(()) } else { Err(is) }
        });
    }
}

fn policy() -> String {
    format!(
        "application \"{PROGRAMS}/app\" {{\n  network {REFUSED}/32 untrusted;\n  network 192.0.2.0/24 protected P;\n  \
         protection P {{ encryption mandatory; }}\n}}\ndefault {{ network 192.0.2.0/24 untrusted; }}\n"
    )
}

#[test]
fn the_units_have_limits_and_keep_the_daemon() {
    let Some(host) = Host::boot("rvl-units") else { return };
    // Everything starts: what must be protected is refused from the first unit on, and `start` returns when the daemon is up.
    assert_eq!(host.sends(REFUSED), "sent");
    host.ok("systemctl start ravelin-boot");
    host.is_closed();
    host.ok("systemctl start ravelin");
    assert_eq!(host.status()["state"], "ok", "{}", host.log());
    host.is_closed();
    for unit in ["ravelin", "ravelin-boot"] {
        host.scores(unit);
    }

    // The daemon is in its unit's group, and alone in one below it that is exempt; that of the boot is gone.
    let of_main = |host: &Host| host.ok("cat /proc/$(systemctl show -P MainPID ravelin)/cgroup | grep ^0::");
    assert_eq!(of_main(&host), "0::/system.slice/ravelin.service/ravelin-main");
    assert_eq!(host.ok("ls -d /sys/fs/cgroup/ravelin-* 2>/dev/null || echo none"), "none");
    let own = host.ok("systemctl status --no-pager ravelin");
    assert!(!own.contains('\u{2023}'), "systemd finds the main process in another unit: {own}");

    // A key that was used is refused whatever becomes of the daemon and of the runtime directory.
    let added = host.add_key(4097);
    assert!(added.status.success(), "{}", text(&added.stderr));
    let ends = [
        ("restart", "systemctl restart ravelin"),
        ("stop", "systemctl stop ravelin; systemctl start ravelin"),
        ("kill", "systemctl kill --signal KILL --kill-whom main ravelin"),
        ("no runtime directory", "rm -rf /run/ravelin; systemctl restart ravelin"),
    ];
    for (what, end) in ends {
        let before = host.shows("MainPID");
        host.ok(end);
        wait_for(what, PATIENCE, || {
            let is = host.shows("MainPID");
            let up = is != before && is != "0" && host.shows("ActiveState") == "active";
            if up { Ok(()) } else { Err(is) }
        });
        host.is_closed();
        assert_eq!(host.problems(), [""; 0], "{what}: {}", host.log());
        host.hears();
        let again = host.add_key(4097);
        assert!(
            text(&again.stderr).contains("is, or was, the key"),
            "{what}: {}{}",
            text(&again.stdout),
            text(&again.stderr)
        );
        assert_eq!(of_main(&host), "0::/system.slice/ravelin.service/ravelin-main", "{what}");
    }
    // Also where somebody's unit takes the runtime directory away with each end.
    host.ok("mkdir /etc/systemd/system/ravelin.service.d");
    let drop_in = "[Service]\nRuntimeDirectory=ravelin\nRuntimeDirectoryPreserve=no\n";
    host.write("/etc/systemd/system/ravelin.service.d/own.conf", drop_in);
    host.ok(
        "systemctl daemon-reload; systemctl stop ravelin; ! test -e /run/ravelin; systemctl start ravelin",
    );
    assert_eq!(host.problems(), [""; 0], "{}", host.log());
    assert!(text(&host.add_key(4097).stderr).contains("is, or was, the key"));

    // A daemon that is started by hand takes the unit over: it is the main process, and the unit's end is its end.
    assert!(host.add_key(4098).status.success());
    let before = host.shows("MainPID");
    host.ok(&format!(
        "systemd-run --quiet --scope {RAVELIN} run --take-over --config /etc/ravelin/ravelin.toml >/dev/null 2>&1 &"
    ));
    wait_for("the unit to have another main process", PATIENCE, || {
        let is = host.shows("MainPID");
        let up = is != before && host.run(&format!("{RAVELIN} status")).unwrap().status.success();
        if up { Ok(()) } else { Err(is) }
    });
    assert_eq!((host.shows("ActiveState"), host.shows("NRestarts")), ("active".to_owned(), "0".to_owned()));
    assert_eq!(of_main(&host), "0::/system.slice/ravelin.service/ravelin-main");
    assert_eq!(host.status()["sas_out"], 1);
    host.ok("systemctl reload ravelin");
    host.ok("systemctl stop ravelin");
    assert!(!host.run("pgrep -x ravelin").unwrap().status.success());
    host.is_closed();

    // Nothing of it is left when it is taken off the host.
    host.ok(&format!("{RAVELIN} detach --yes"));
    assert_eq!(host.sends(REFUSED), "sent");
    assert_eq!(
        host.ok("ls /run/ravelin-state; ls -d /run/ravelin/* /sys/fs/bpf/ravelin/* 2>/dev/null || true"),
        ""
    );
}

#[test]
fn a_start_with_a_broken_policy_keeps_the_last_good_one_and_never_loops() {
    let Some(host) = Host::boot("rvl-units-broken") else { return };
    host.ok("systemctl start ravelin");
    host.is_closed();

    // A broken policy: the daemon comes up with what it had, and says so wherever one looks.
    host.set_policy(&policy().replace("protected P", "protected"));
    host.ok("systemctl restart ravelin");
    host.is_closed();
    assert_eq!(host.problems(), ["refused"]);
    let status = host.status();
    let said = status["problems"][0]["message"].as_str().unwrap_or_default();
    assert!(said.contains("/etc/ravelin/main.policy.last") && said.contains("error["), "{said}");
    let doctor = host.run(&format!("{RAVELIN} doctor --config /etc/ravelin/ravelin.toml")).unwrap();
    assert!(
        !doctor.status.success() && text(&doctor.stdout).contains("main.policy.last"),
        "{}",
        text(&doctor.stdout)
    );
    assert!(host.shows("StatusText").contains("last good policy"), "{}", host.shows("StatusText"));
    assert_eq!(host.shows("NRestarts"), "0");
    // It is mended without a restart.
    host.set_policy(&policy());
    host.ok("systemctl reload ravelin");
    assert_eq!(host.problems(), [""; 0]);

    // The file is gone: the same.
    host.ok("rm /etc/ravelin/main.policy; systemctl restart ravelin");
    host.is_closed();
    assert_eq!(host.problems(), ["refused"]);

    // Without a last good policy, and with a configuration that cannot be read, it stays off after one try; nothing opens.
    host.ok("rm /etc/ravelin/main.policy.last");
    host.set_policy("application {");
    for broken in ["policy", "configuration"] {
        if broken == "configuration" {
            host.set_policy(&policy());
            host.write("/etc/ravelin/ravelin.toml", "polcy = \"main.policy\"\n");
        }
        let done = host.run("systemctl restart ravelin").unwrap();
        assert!(!done.status.success(), "{broken}: {}", host.log());
        host.becomes("failed");
        let counted = (host.shows("ExecMainStatus"), host.shows("NRestarts"));
        assert_eq!(counted, ("2".to_owned(), "0".to_owned()), "{broken}: {}", host.log());
        host.is_closed();
    }
    let doctor = host.run(&format!("{RAVELIN} doctor --config /etc/ravelin/ravelin.toml")).unwrap();
    assert_eq!(doctor.status.code(), Some(2), "{}{}", text(&doctor.stdout), text(&doctor.stderr));
}

/// The unit that docs/inline.md has for a scrubber in line.
#[test]
fn the_unit_of_a_line_has_limits_and_leaves_it_closed() {
    let Some(host) = Host::boot("rvl-units-line") else { return };
    let page = include_str!("../../../docs/inline.md");
    let unit = page.split("```ini\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(unit.contains(RAVELIN));
    host.write("/etc/systemd/system/ravelin-inline.service", unit);
    host.write("/etc/ravelin/inline.toml", "outside = \"out0\"\ninside = \"in0\"\n");
    host.ok("ip link add out0 type veth peer name out1; ip link add in0 type veth peer name in1");
    host.ok("systemctl daemon-reload; systemctl start ravelin-inline");
    host.ok(&format!("{RAVELIN} inline status"));
    host.scores("ravelin-inline");
    host.ok("systemctl stop ravelin-inline");
    let closed = host.ok(&format!("{RAVELIN} inline check --json"));
    let closed: serde_json::Value = serde_json::from_str(&closed).unwrap();
    let interfaces = closed["lines"][0]["interfaces"].as_array().cloned().unwrap_or_default();
    assert_eq!(interfaces.iter().filter(|one| one["guarded"] == true).count(), 2, "{closed}");
    host.ok(&format!("{RAVELIN} inline detach"));
}
