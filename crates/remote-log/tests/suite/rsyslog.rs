//! A real rsyslog with GnuTLS.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use remote_log::{LONGEST, RemoteLog, Settings, Severity};

use crate::authority::Authority;
use crate::support::{Folder, GATE, Pair, numbers, tell, wait_for, wait_state, write};
use crate::verifier::assert_tampering_shows;

/// An rsyslog of the test's own, which takes messages from `gate.example` alone.
struct Rsyslog {
    child: Child,
}

impl Rsyslog {
    fn start(pair: &Pair, file: &Path) -> Rsyslog {
        let folder = pair.folder.path();
        let (config, server) = (folder.join("rsyslog.conf"), pair.settings.server);
        let text = format!(
            r#"global(workDirectory="{folder}" defaultNetstreamDriver="gtls"
    defaultNetstreamDriverCAFile="{ca}" defaultNetstreamDriverCertFile="{certificate}"
    defaultNetstreamDriverKeyFile="{key}")
module(load="imtcp" streamDriver.name="gtls" streamDriver.mode="1" streamDriver.authMode="x509/name"
    permittedPeer=["{GATE}"])
template(name="raw" type="string" string="%rawmsg%\n")
ruleset(name="audit" queue.type="Direct") {{ action(type="omfile" file="{file}" template="raw") }}
input(type="imtcp" address="{address}" port="{port}" ruleset="audit")
"#,
            folder = folder.display(),
            ca = pair.collector.ca.display(),
            certificate = pair.collector.certificate.display(),
            key = pair.collector.key.display(),
            file = file.display(),
            address = server.ip(),
            port = server.port(),
        );
        write(&config, &text, 0o600);
        let log = std::fs::File::create(folder.join("rsyslog.err")).unwrap();
        let child = Command::new("/usr/sbin/rsyslogd")
            .args(["-n", "-i"])
            .arg(folder.join("rsyslog.pid"))
            .arg("-f")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("rsyslogd; the packages rsyslog and rsyslog-gnutls are needed");
        let mut rsyslog = Rsyslog { child };
        wait_for("rsyslog", || {
            assert_eq!(rsyslog.child.try_wait().unwrap(), None, "rsyslog ended: {}", said(folder));
            TcpStream::connect(server).is_ok()
        });
        rsyslog
    }

    /// It gets no chance to put anything in order.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Rsyslog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("rsyslog.err")).unwrap_or_default()
}

fn lines(file: &PathBuf) -> Vec<String> {
    // A line that is being written may end within a character.
    let text = String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

#[test]
fn rsyslog_takes_everything_also_when_it_is_killed_and_its_file_shows_tampering() {
    let pair = Pair::new();
    let file = pair.folder.path().join("audit.log");
    let rsyslog = Rsyslog::start(&pair, &file);
    let handle = pair.start();
    tell(&handle, 0..100);
    // The longest message, with what is not ASCII and what would be a second line.
    handle.log(Severity::Error, "packet", &format!("{{\"text\":\"\u{e9}\n{}\"}}", "\u{1f512}".repeat(3000)));
    wait_for("the messages", || numbers(&lines(&file)).len() == 100);
    wait_for("the longest message", || lines(&file).iter().any(|line| line.len() > LONGEST - 40));
    wait_state(&handle, "a confirmation", |state| state.confirmed.is_some());
    tell(&handle, 100..150);
    rsyslog.kill();
    tell(&handle, 150..200);
    wait_state(&handle, "that it is gone", |state| state.error.is_some());
    let rsyslog = Rsyslog::start(&pair, &file);
    tell(&handle, 200..250);
    wait_for("the messages", || numbers(&lines(&file)).len() == 250);
    wait_state(&handle, "a confirmation", |state| state.error.is_none());
    handle.stop();
    let state = handle.state();
    assert_eq!((state.lost, state.spooled), (0, 0), "{state:?}; {}", said(pair.folder.path()));
    wait_for("the last message", || {
        lines(&file).last().is_some_and(|line| line.contains("remote_log_stopped"))
    });
    drop(rsyslog);
    let lines = lines(&file);
    assert_eq!(numbers(&lines), (0..250).collect::<Vec<_>>());
    assert_tampering_shows(&lines);
}

#[test]
fn rsyslog_refuses_a_sender_of_another_name_or_authority() {
    let pair = Pair::new();
    let file = pair.folder.path().join("audit.log");
    let _rsyslog = Rsyslog::start(&pair, &file);
    let folder = Folder::new();
    let strangers = [
        pair.authority.papers(folder.path(), "stranger.example"),
        Authority::new("another authority").papers(folder.path(), GATE),
    ];
    for (number, stranger) in strangers.into_iter().enumerate() {
        let settings = Settings {
            certificate: stranger.certificate,
            key: stranger.key,
            spool: folder.path().join(format!("spool{number}")),
            ..pair.settings.clone()
        };
        let handle = RemoteLog::start(settings).unwrap();
        handle.connect();
        tell(&handle, 0..20);
        wait_state(&handle, "a broken connection", |state| state.error.is_some());
        let state = handle.state();
        assert!(state.confirmed.is_none() && state.lost == 0 && state.spooled > 0, "{state:?}");
        handle.stop();
    }
    assert_eq!(lines(&file), Vec::<String>::new());
}
