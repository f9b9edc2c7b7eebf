//! What the hooks cost is counted, not asserted: `cargo test -p sockmon --test suite cost:: -- --nocapture` prints it.
//! Needs root.

use crate::common;

use common::*;
use sockmon::{FlowCounting, Sockmon};

#[test]
fn statistics_count_every_hook_that_ran() {
    for (name, counted) in [("cost", FlowCounting::Nothing), ("costflows", FlowCounting::Applications)] {
        println!("flows counted: {counted:?}");
        measure(name, counted);
    }
}

fn measure(name: &str, counted: FlowCounting) {
    let mut world = World::new(name);
    world.attach_with(|options| options.flows = counted);
    world.load(&usual(), &usual_orders());
    let statistics = Sockmon::enable_stats().unwrap();
    let mut program = world.start("strict");
    for _ in 0..200 {
        program.run(&[
            "open s udp4",
            "connect s 10.99.0.2:9",
            "send s 40",
            "sendto s 10.99.0.2:9 40",
            "close s",
        ]);
        while world.seen_within(std::time::Duration::ZERO).is_some() {}
    }
    drop(statistics);
    let stats = world.sockmon().program_stats().unwrap();
    for s in stats.iter().filter(|s| s.runs > 0) {
        println!("{:16} {:6} runs {:6} ns each", s.name, s.runs, s.nanoseconds / s.runs);
    }
    let runs = |name: &str| stats.iter().find(|s| s.name == name).unwrap().runs;
    assert_eq!((runs("sock_create"), runs("connect4"), runs("sendmsg4")), (200, 200, 200));
    assert_eq!(runs("guard"), 400);
    // These two see every packet of their device: neighbour discovery may add one at any time.
    for device in ["uplink_egress", "tun_egress"] {
        assert!(runs(device) >= 400, "{device}: {}", runs(device));
    }
}
