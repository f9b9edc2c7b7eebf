//! Units with threads of their own between two hosts (docs/design/0045): they seal and open, an expedited class is served
//! by another unit meanwhile, and an exchange that takes one out loses nothing. A unit that works in steps
//! (docs/design/0046): the same with slow ciphers on one thread.

use lab::Side;
use lab::rig::{Pair, Rig};
use tests::{PATIENCE, associate, one_line, tcp_server};

use super::exchange::{begin_stream, end_stream};
use super::{COUNT, GraphFile, TCP, build, counts_of, datagrams, echo_server, of, with_counts};

/// The thread that dispatches serves what is expedited, and a thread of its own the rest. Nothing is policed and queues
/// are long, so that a busy machine, on which all work takes longer, loses nothing either.
const TWO_UNITS: &str = "[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\npriority = true\n\
    unpoliced = true\n\n[class.be]\nmatch = \"rest\"\nlimit = { packets = 1000, time = \"2s\" }\n\n\
    [unit.here]\nkind = \"inline\"\nreserved = [\"ef\"]\n\n[unit.apart]\nkind = \"worker\"\nreserved = [\"be\"]\n";

/// The name of the thread of that unit.
const UNIT: &str = "rvl-unit-apart";

/// The same classes with one inline unit.
const ONE_UNIT: &str = "[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\npriority = true\n\
    unpoliced = true\n\n[class.be]\nmatch = \"rest\"\nlimit = { packets = 1000, time = \"2s\" }\n";

/// The capabilities that each thread of this name has.
fn threads(rig: &Rig, side: Side, name: &str) -> Vec<String> {
    let tasks = format!("/proc/{}/task", rig.daemon(side).unwrap().pid());
    let status = |entry: std::io::Result<std::fs::DirEntry>| {
        // A thread may end meanwhile.
        let text = std::fs::read_to_string(entry.ok()?.path().join("status")).ok()?;
        let field = |field: &str| text.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
        (field("Name:")? == name).then(|| field("CapEff:").unwrap_or("?").to_owned())
    };
    std::fs::read_dir(tasks).unwrap().filter_map(status).collect()
}

/// What a unit of a direction has worked, in nanoseconds; `None` if there is none.
fn busy(rig: &Rig, side: Side, direction: usize, unit: &str) -> Option<u64> {
    let state = rig.json(side, &["qos", "show"]).unwrap();
    let direction = &state["directions"][direction];
    let faults = &direction["unit_faults"];
    assert_eq!((&faults["failed"], &faults["late"]), (&0.into(), &0.into()), "{state}");
    let units = direction["units"].as_array().unwrap();
    units.iter().find(|of| of["unit"] == unit)?["busy_ns"].as_u64()
}

#[test]
fn units_with_threads_seal_and_open_and_an_exchange_loses_nothing_of_theirs() {
    let file = GraphFile::new("rvl-qosu", TWO_UNITS);
    let (mut rig, app) = build("rvl-qosu", &file.configuration());
    rig.configure(Side::Bob, &file.configuration());
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _server = tcp_server(&rig, &app, TCP);
    let _echo = echo_server(&rig, &app);
    for side in [Side::Alice, Side::Bob] {
        // One of each direction, which may do no more than the thread that opens.
        let inbound = threads(&rig, side, "rvl-inbound");
        assert_eq!(threads(&rig, side, UNIT), [inbound.as_slice(), inbound.as_slice()].concat());
    }
    datagrams(&rig, &app, 46 << 2);
    assert_eq!(of(&counts_of(&rig, Side::Alice, "out"), "5a", "ef"), (COUNT, COUNT, 0));
    assert!(busy(&rig, Side::Alice, 0, "here") > Some(0));
    let idle = busy(&rig, Side::Alice, 0, "apart");
    datagrams(&rig, &app, 0);
    assert!(busy(&rig, Side::Alice, 0, "apart") > idle, "{idle:?}");
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let (same, wrong) = one_line(&rig, &app, &address, TCP, 3_000_000);
        assert_eq!(same.trim(), "same", "{address}: {wrong}");
    }
    assert!(busy(&rig, Side::Bob, 1, "apart") > Some(0), "it opens what bob gets");

    // The unit goes and comes while a stream goes on.
    let stream = begin_stream(&rig, &app, file.beside("end", "").into());
    let one = file.beside("one.toml", ONE_UNIT);
    let two = file.beside("two.toml", TWO_UNITS);
    for _ in 0..10 {
        for side in [Side::Alice, Side::Bob] {
            rig.ravelin(side, &["qos", "apply", &one], "").unwrap();
            assert_eq!(busy(&rig, side, 0, "apart"), None);
            rig.ravelin(side, &["qos", "apply", &two], "").unwrap();
        }
    }
    end_stream(&rig, stream);
    for side in [Side::Alice, Side::Bob] {
        tests::wait_for("two threads of units", PATIENCE, || match threads(&rig, side, UNIT).len() {
            2 => Ok(()),
            count => Err(format!("{count} threads")),
        });
    }
    let shown = rig.ravelin(Side::Alice, &["qos", "show"], "").unwrap();
    assert!(shown.contains("apart") && shown.contains("worker"), "{shown}");

    // Figures 4 and 5 of the paper run as they are drawn; a thread takes the place of the accelerator.
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/qos");
    for (figure, units) in
        [("figure-4.toml", ["first", "second"]), ("figure-5.toml", ["inline", "accelerator"])]
    {
        let figure = examples.join(figure);
        rig.ravelin(Side::Alice, &["qos", "apply", &figure.display().to_string()], "").unwrap();
        // Which one works is the dispatcher's to say: all of this is of one association.
        let worked = || units.map(|unit| busy(&rig, Side::Alice, 0, unit).unwrap()).iter().sum::<u64>();
        let before = worked();
        for tos in [0, 46 << 2] {
            datagrams(&rig, &app, tos);
        }
        let (same, wrong) = one_line(&rig, &app, &Side::Bob.v4().to_string(), TCP, 3_000_000);
        assert_eq!(same.trim(), "same", "{figure:?}: {wrong}");
        assert!(worked() > before, "{figure:?}");
    }
    rig.ravelin(Side::Alice, &["qos", "apply", &two], "").unwrap();

    // A graph is handed over with its units.
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    datagrams(&rig, &app, 0);
    assert!(busy(&rig, Side::Alice, 0, "apart") > Some(0));
}

/// One unit on the thread that dispatches, in steps.
const SLICED: &str = "[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\npriority = true\n\
    unpoliced = true\n\n[class.be]\nmatch = \"rest\"\nlimit = { packets = 1000, time = \"2s\" }\n\n\
    [unit.slow]\nkind = \"sliced\"\nstep = \"10us\"\n";

#[test]
fn a_unit_that_works_in_steps_seals_and_opens_and_an_exchange_loses_nothing_of_it() {
    let file = GraphFile::new("rvl-qosteps", SLICED);
    let configuration = format!("{}[crypto]\nlegacy = true\n", file.configuration());
    let (mut rig, app) = build("rvl-qosteps", &configuration);
    rig.configure(Side::Bob, &configuration);
    rig.start_both().unwrap();
    rig.associate(&Pair { suite: "3des-md5", ..Pair::default() }).unwrap();
    rig.associate(&Pair { v6: true, mode: "tunnel", suite: "aes128cbc-sha256", ..Pair::default() }).unwrap();
    let _server = tcp_server(&rig, &app, TCP);
    let _echo = echo_server(&rig, &app);
    // What is expedited is done at once, and the rest in steps.
    for tos in [46 << 2, 0] {
        let before = Side::BOTH
            .map(|side| busy(&rig, side, 0, "slow").unwrap() + busy(&rig, side, 1, "slow").unwrap());
        datagrams(&rig, &app, tos);
        for (side, before) in Side::BOTH.into_iter().zip(before) {
            let now = busy(&rig, side, 0, "slow").unwrap() + busy(&rig, side, 1, "slow").unwrap();
            assert!(now > before, "{side:?} {tos}: {before} ns");
        }
    }
    assert_eq!(of(&counts_of(&rig, Side::Alice, "out"), "5a", "ef"), (COUNT, COUNT, 0));
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        with_counts(&rig, || {
            let (same, wrong) = one_line(&rig, &app, &address, TCP, 1_000_000);
            assert_eq!(same.trim(), "same", "{address}: {wrong}");
        });
    }

    // Expedited datagrams are answered while a stream goes on, whose unit works in steps, at once, and in steps again.
    let stream = begin_stream(&rig, &app, file.beside("end", "").into());
    let one = file.beside("one.toml", ONE_UNIT);
    let steps = file.beside("steps.toml", SLICED);
    for _ in 0..5 {
        for side in [Side::Alice, Side::Bob] {
            rig.ravelin(side, &["qos", "apply", &one], "").unwrap();
            rig.ravelin(side, &["qos", "apply", &steps], "").unwrap();
        }
        with_counts(&rig, || datagrams(&rig, &app, 46 << 2));
    }
    end_stream(&rig, stream);

    // The example is a graph that runs.
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/qos/sliced.toml");
    rig.ravelin(Side::Alice, &["qos", "apply", &example.display().to_string()], "").unwrap();
    datagrams(&rig, &app, 0);
    assert!(busy(&rig, Side::Alice, 0, "slow") > Some(0));

    // What is in progress is sent before a daemon hands over.
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    datagrams(&rig, &app, 0);
}
