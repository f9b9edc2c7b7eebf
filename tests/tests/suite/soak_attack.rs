//! A random walk over the attackers' table (docs/design/0028): one attack after the other, of both families, at every moment of the
//! daemon's life. Nothing that policy protects is seen on the wire, and nothing without proof comes out of a protected socket.
//! `make soak-attack` walks for an hour; `RAVELIN_ATTACK_SEED` walks the same way again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context;
use lab::{Capture, CaptureOptions, Program, Running, Side};
use tests::kinds::{Over, PORT, Stage};
use tests::{PATIENCE, forget_keys, wait_until};

const ATTACKS: &str = include_str!("../../programs/attacks.py");

/// What a protected program sends; seen on the wire it is in clear.
const SECRET: &str = "a-secret-of-the-protected-program";
/// What nobody with a key sent.
const FORGED: &str = "forged-by-a-stranger";
const RECEIVER: u16 = 7_300;

/// Out: by the protected program.
const OUT: [&str; 17] = [
    "udp",
    "connected",
    "tcp",
    "child",
    "mark",
    "by_tun",
    "by_lo",
    "raw",
    "raw_header",
    "bypass",
    "handed",
    "frame",
    "frame_unnamed",
    "frame_vlan",
    "frame_mpls",
    "frame_snap",
    "frame_lo",
];
/// Attacks inbound: by a stranger, to the protected program.
const IN: [&str; 4] = ["lo_source", "lo_frame", "tun", "wire"];

/// Those that cannot come through without a daemon either: data in the first segment takes a cookie, there is no TUN, and what is sent to
/// `lo` is for nobody there.
const HARMLESS: [&str; 5] = ["tcp", "by_tun", "by_lo", "frame_lo", "tun"];

/// Prints every datagram it gets, of both families.
const LISTEN: &str = r#"
import select, socket, sys
sockets = []
for family in (socket.AF_INET, socket.AF_INET6):
    s = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        s.setsockopt(41, 26, 1)
    s.bind(("", int(sys.argv[1])))
    sockets.append(s)
print("ready", flush=True)
while True:
    for s in select.select(sockets, [], [])[0]:
        print("got", s.recvfrom(2048)[0], flush=True)
"#;

/// xorshift64: the walk is its seed's.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % count as u64) as usize
    }
}

struct Walk {
    stage: Stage,
    wire: Capture,
    listener: Running,
    lives: bool,
}

impl Walk {
    fn attack(&self, kind: &str, over: Over) -> anyhow::Result<String> {
        let stage = &self.stage;
        let [alice, bob] = Side::BOTH.map(|side| over.address(side).to_string());
        let inbound = IN.contains(&kind);
        let python = if inbound || kind == "handed" { &stage.plain } else { &stage.app };
        let host = if kind == "wire" { stage.rig.lab.bob() } else { stage.rig.lab.alice() };
        let (own, peer) = if kind == "wire" { (&bob, &alice) } else { (&alice, &bob) };
        let family = if over == Over::V6 { "6" } else { "4" };
        let (port, receiver) = (PORT.to_string(), RECEIVER.to_string());
        let word = if inbound { FORGED } else { SECRET };
        let program = Program::new(python)
            .args(["-c", ATTACKS, kind, family, own, peer, &port, &receiver, word])
            .env("APP", &stage.app);
        let done = host.run_program(program, PATIENCE)?;
        anyhow::ensure!(
            done.status.success(),
            "{kind} over {over}: {}: {}{}",
            done.status,
            done.out(),
            done.err()
        );
        Ok(done.out().trim().to_owned())
    }

    /// Bring the daemon to another moment of its life.
    fn turn(&mut self, dice: &mut Dice) -> anyhow::Result<&'static str> {
        let rig = &mut self.stage.rig;
        if !self.lives {
            rig.start(Side::Alice)?;
            self.lives = true;
            forget_keys(rig);
            // Without keys for a while, now and then.
            if dice.below(3) == 0 {
                return Ok("start without keys");
            }
            self.stage.associate()?;
            return Ok("start");
        }
        Ok(match dice.below(4) {
            0 | 1 => {
                rig.kill(Side::Alice)?;
                self.lives = false;
                "kill -9"
            }
            2 => {
                rig.reload(Side::Alice)?;
                "reload"
            }
            _ => {
                let old = rig.release(Side::Alice).context("no daemon")?;
                rig.start_with(Side::Alice, &["--take-over"])?;
                old.finish(PATIENCE)?;
                "take-over"
            }
        })
    }

    /// What went wrong so far.
    fn complaint(&self) -> anyhow::Result<Option<String>> {
        let seen = self.wire.look(|wire| (wire.contains_bytes(SECRET.as_bytes()), wire.is_complete()))?;
        Ok(match seen {
            (true, _) => Some("IN CLEAR on the wire".to_owned()),
            (_, false) => Some("the eavesdropper lost frames".to_owned()),
            _ if self.listener.output().contains(FORGED) => Some("FORGED, and taken".to_owned()),
            _ => None,
        })
    }
}

#[test]
fn nothing_is_clear_and_nothing_is_forged_on_a_random_walk() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let asked = number("RAVELIN_ATTACK_SECONDS");
    // A long walk may run beside the suite, which has a walk of its own.
    let (seconds, name) = asked.map_or((30, "rvl-attack"), |seconds| (seconds, "rvl-soak"));
    let seed = number("RAVELIN_ATTACK_SEED").unwrap_or_else(|| u64::from(netio::random::number().unwrap()));
    println!("seed {seed}, {seconds} s");
    let mut dice = Dice(seed | 1);

    let stage = Stage::without_daemons(name).unwrap();
    let watch = vec![SECRET.as_bytes().to_vec(), FORGED.as_bytes().to_vec()];
    let wire = stage.rig.lab.capture(CaptureOptions { keep: 16 << 20, watch }).unwrap();
    let listen = Program::new(&stage.app).args(["-u", "-c", LISTEN, &RECEIVER.to_string()]);
    let listener = stage.rig.lab.alice().spawn(listen).unwrap();
    listener.wait_for_output("ready", PATIENCE).unwrap();
    let mut walk = Walk { stage, wire, listener, lives: false };

    // The control: without a daemon each comes through.
    for over in Over::BOTH {
        for kind in OUT.into_iter().chain(IN).filter(|kind| !HARMLESS.contains(kind)) {
            let taken = walk.listener.output().matches(FORGED).count();
            walk.wire.clear().unwrap();
            let answer = walk.attack(kind, over).unwrap();
            wait_until(&format!("the control, {kind} over {over}: {answer}"), PATIENCE, || {
                if IN.contains(&kind) {
                    walk.listener.output().matches(FORGED).count() > taken
                } else {
                    walk.wire.look(|wire| wire.contains_bytes(SECRET.as_bytes())).unwrap()
                }
            });
        }
    }
    walk.listener.kill().unwrap();
    let listen = Program::new(&walk.stage.app).args(["-u", "-c", LISTEN, &RECEIVER.to_string()]);

    walk.stage.rig.start_both().unwrap();
    walk.stage.associate().unwrap();
    walk.lives = true;
    walk.listener = walk.stage.rig.lab.alice().spawn(listen).unwrap();
    walk.listener.wait_for_output("ready", PATIENCE).unwrap();
    walk.wire.clear().unwrap();

    let all: Vec<&str> = OUT.into_iter().chain(IN).collect();
    let mut steps = Vec::new();
    let mut answers: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let end = netio::clock::monotonic() + Duration::from_secs(seconds);
    // Each attack over each family at least once with a daemon and once without, in any order; then as chance has it.
    let mut round = 0;
    while netio::clock::monotonic() < end || round < 1 {
        for lives in [true, false] {
            while walk.lives != lives || dice.below(3) == 0 {
                steps.push(walk.turn(&mut dice).unwrap().to_owned());
            }
            let mut order: Vec<(&str, Over)> =
                all.iter().flat_map(|kind| Over::BOTH.map(|over| (*kind, over))).collect();
            while !order.is_empty() {
                let (kind, over) = order.swap_remove(dice.below(order.len()));
                let answer = walk.attack(kind, over).unwrap();
                steps.push(format!("{kind} over {over}: {answer}"));
                answers.entry(kind).or_default().insert(answer);
                if let Some(what) = walk.complaint().unwrap() {
                    let last: Vec<_> = steps.iter().rev().take(12).rev().collect();
                    panic!("seed {seed}: {what}; a daemon lives: {}; the last steps: {last:#?}", walk.lives);
                }
            }
        }
        round += 1;
    }
    // A frame may be under way still: what the next datagram overtook is seen with it.
    if !walk.lives {
        walk.turn(&mut dice).unwrap();
    }
    forget_keys(&walk.stage.rig);
    walk.stage.associate().unwrap();
    let before = walk.wire.look(|wire| wire.esp).unwrap();
    walk.attack("udp", Over::V4).unwrap();
    wait_until("a protected datagram", PATIENCE, || walk.wire.look(|wire| wire.esp).unwrap() > before);
    assert_eq!(walk.complaint().unwrap(), None, "seed {seed}");
    println!("what the kernel answered: {answers:?}");
    println!("{} attacks and turns in {round} rounds: 0 clear, 0 forged", steps.len());
}
