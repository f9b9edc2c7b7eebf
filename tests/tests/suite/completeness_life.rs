//! Completeness (paper 000 section 3.4) in the life of a daemon: sockets older than it, its death, policies that are loaded, a
//! hand-over to the next, all under load. A chorus of sockets of every kind goes on all the time.

use anyhow::Context;
use lab::Side;
use tests::kinds::{Over, PORT, Stage, Table};
use tests::voices::Voices;
use tests::{PATIENCE, forget_keys};

/// Times that every voice must have asked, or been answered, to count.
const TIMES: u64 = 4;

#[test]
fn sockets_older_than_the_daemon() {
    for over in Over::BOTH {
        let mut table = Table::new("older");
        let mut stage =
            Stage::without_daemons(if over == Over::V4 { "rvl-c-old4" } else { "rvl-c-old6" }).unwrap();
        let app = stage.app.clone();
        stage.serve(&app, PORT).unwrap();
        let voices = Voices::start(&stage, &app, over).unwrap();
        voices.answered(TIMES).unwrap();
        let clear = stage.wire.look(|wire| wire.clear).unwrap();
        assert!(clear > 50, "the control: {clear} clear packets");
        // Both ends have connections, bound and connected sockets, and go on using them.
        stage.start_daemons().unwrap();
        table.row(&stage, "sockets of every kind", over, || voices.answered(TIMES));
        table.close();
    }
}

#[test]
fn a_daemon_dies_under_load_and_another_comes() {
    let mut table = Table::new("death");
    let mut stage = Stage::build("rvl-c-death").unwrap();
    let app = stage.app.clone();
    for (over, side) in [(Over::V4, Side::Alice), (Over::V6, Side::Bob)] {
        let voices = Voices::start(&stage, &app, over).unwrap();
        voices.answered(TIMES).unwrap();
        let name = side.name();
        stage.forget().unwrap();
        stage.rig.kill(side).unwrap();
        let silence = voices.go_on(TIMES);
        // Who lives sends on; who is dead sends nothing at all.
        let complaint = stage.complaint(|_| false).unwrap();
        assert!(
            silence.is_ok() && complaint.as_deref().is_none_or(|text| text == "nothing was protected"),
            "{name} is dead: {silence:?} {complaint:?}"
        );
        stage.forget().unwrap();
        stage.rig.start(side).unwrap();
        voices.go_on(TIMES).unwrap();
        let complaint = stage.complaint(|_| false).unwrap();
        assert!(
            complaint.as_deref().is_none_or(|text| text == "nothing was protected"),
            "{name} is back without keys: {complaint:?}"
        );
        stage.listen().unwrap();
        table.row(&stage, &format!("{name}'s daemon came back"), over, || {
            forget_keys(&stage.rig);
            stage.associate()?;
            voices.answered(TIMES)
        });
    }
    table.close();
}

#[test]
fn policies_and_daemons_change_under_load() {
    let mut table = Table::new("change");
    let mut stage = Stage::build("rvl-c-change").unwrap();
    let app = stage.app.clone();
    for over in Over::BOTH {
        let voices = Voices::start(&stage, &app, over).unwrap();
        voices.answered(TIMES).unwrap();
        table.row(&stage, "five reloads", over, || {
            let policy = std::fs::read_to_string(stage.rig.policy_file(Side::Alice))?;
            for round in 0..5 {
                for side in Side::BOTH {
                    let more = format!(
                        "application \"/usr/bin/other{round}\" {{ network 203.0.113.{round} untrusted; }}\n"
                    );
                    // Before the block and behind it: rules get other numbers.
                    let text =
                        if round % 2 == 0 { format!("{more}{policy}") } else { format!("{policy}{more}") };
                    stage.rig.set_policy(side, &text)?;
                    stage.rig.reload(side)?;
                }
                voices.answered(1)?;
            }
            for side in Side::BOTH {
                stage.rig.set_policy(side, &policy)?;
                stage.rig.reload(side)?;
            }
            voices.answered(TIMES)
        });
        for side in Side::BOTH {
            stage.forget().unwrap();
            let changed = hand_over(&mut stage, side).and_then(|()| voices.answered(TIMES));
            table.judge(&stage, &format!("{}'s daemon hands over", side.name()), over, |_| false, changed);
        }
    }
    table.close();
}

fn hand_over(stage: &mut Stage, side: Side) -> anyhow::Result<()> {
    let old = stage.rig.release(side).context("no daemon")?;
    stage.rig.start_with(side, &["--take-over"])?;
    old.finish(PATIENCE)?;
    Ok(())
}
