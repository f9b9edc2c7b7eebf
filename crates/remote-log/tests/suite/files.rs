//! Files that a sender must refuse, each with an error that says why.

use std::os::unix::fs::{PermissionsExt, chown, symlink};

use remote_log::{RemoteLog, Settings};

use crate::support::{GATE, Pair, write};

fn refusal(settings: &Settings) -> String {
    RemoteLog::start(settings.clone()).expect_err("a refusal").to_string()
}

#[test]
fn keys_and_certificates_that_others_could_have_made_or_read_are_refused() {
    let pair = Pair::new();
    let good = &pair.settings;
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for bad in [0o644, 0o640, 0o620, 0o602] {
        mode(&good.key, bad);
        let error = refusal(good);
        assert!(error.contains(&format!("mode {bad:04o}")) && error.contains("chmod 0600"), "{error}");
    }
    mode(&good.key, 0o600);
    for file in [&good.ca, &good.certificate] {
        mode(file, 0o664);
        let error = refusal(good);
        assert!(error.contains("lets others write it: chmod go-w"), "{error}");
        mode(file, 0o644);
    }
    chown(&good.key, Some(65534), None).unwrap();
    let error = refusal(good);
    assert!(error.contains("belongs to user 65534: chown root:root"), "{error}");
    chown(&good.key, Some(0), None).unwrap();
    let link = pair.folder.path().join("link");
    symlink(&good.key, &link).unwrap();
    let error = refusal(&Settings { key: link, ..good.clone() });
    assert!(error.contains("key file") && error.contains("link"), "{error}");
    mode(pair.folder.path(), 0o777);
    let error = refusal(&Settings { spool: pair.folder.path().to_owned(), ..good.clone() });
    assert!(error.contains("lets others write to it"), "{error}");
    let handle = RemoteLog::start(good.clone()).unwrap();
    handle.stop();
}

#[test]
fn files_without_what_they_must_hold_are_refused() {
    let pair = Pair::new();
    let good = &pair.settings;
    let empty = pair.folder.path().join("empty");
    write(&empty, "", 0o600);
    let bad = [
        (Settings { ca: empty.clone(), ..good.clone() }, "CA file"),
        (Settings { certificate: empty.clone(), ..good.clone() }, "holds no certificate"),
        (Settings { key: empty, ..good.clone() }, "holds no private key"),
        (Settings { key: pair.folder.path().join("absent"), ..good.clone() }, "No such file"),
        (Settings { key: pair.collector.key.clone(), ..good.clone() }, "does not belong to the certificate"),
        (Settings { name: "not a name".to_owned(), ..good.clone() }, "neither a host name nor an address"),
    ];
    for (settings, expected) in bad {
        let error = refusal(&settings);
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // No error shows what is in a key file.
    let broken = pair.folder.path().join("broken");
    let text = std::fs::read_to_string(&good.key).unwrap().replace("BEGIN PRIVATE", "BEGIN CURIOUS");
    write(&broken, &text, 0o600);
    let error = refusal(&Settings { key: broken, ..good.clone() });
    assert!(
        text.lines()
            .filter(|line| line.len() > 20 && !line.starts_with('-'))
            .all(|line| !error.contains(line))
    );
    assert!(error.contains("holds no private key"), "{error}");
    assert!(good.certificate.to_string_lossy().contains(GATE));
}
