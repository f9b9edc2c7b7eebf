//! `ravelin sa replace` and `sa update` under load: keys change hands, windows and limits change, and not one packet is lost.

use std::fmt::Write;
use std::time::Duration;

use lab::rig::Rig;
use lab::{Program, Running, Side};
use tests::{PATIENCE, binary, program, protected_rig, wait_for, wait_until};

const PORT: u16 = 7080;

/// Sends numbered datagrams to a peer from one SIGUSR1 to the next, and says how many it sent, how many different ones of the peer
/// came, and how many came twice. Arguments: peer, port, seconds at most.
const NUMBERS: &str = r#"
import signal, socket, struct, sys, threading, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
peer = (sys.argv[1], int(sys.argv[2]))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
s.bind(("0.0.0.0", peer[1]))
s.settimeout(0.5)
seen = {}
def receive():
    while time.monotonic() < (ended or end) + 3:
        try:
            n, = struct.unpack("!Q", s.recv(100)[:8])
        except socket.timeout:
            continue
        except OSError:
            continue
        seen[n] = seen.get(n, 0) + 1
print("ready", flush=True)
# Both ends are there before the first is sent.
signal.sigwait({signal.SIGUSR1})
end, ended = time.monotonic() + float(sys.argv[3]), None
t = threading.Thread(target=receive)
t.start()
sent = 0
while time.monotonic() < end:
    try:
        s.sendto(struct.pack("!Q", sent) + b"x" * 92, peer)
        sent += 1
    except OSError as error:
        print("not sent", error)
    if signal.sigtimedwait({signal.SIGUSR1}, 0.001):  # the rate
        break
ended = time.monotonic()
t.join()
missing = [n for n in range(max(seen, default=-1) + 1) if n not in seen]
print("result", sent, len(seen), sum(c > 1 for c in seen.values()), "missing", missing[:20])
"#;

fn key() -> String {
    let mut octets = [0; 20];
    netio::random::fill(&mut octets).unwrap();
    octets.iter().fold(String::new(), |mut hex, octet| {
        let _ = write!(hex, "{octet:02x}");
        hex
    })
}

fn numbers(rig: &Rig, side: Side, peer: Side, seconds: &str) -> Running {
    let peer = peer.v4().to_string();
    let script = ["-c", NUMBERS, &peer, &PORT.to_string(), seconds];
    let running = rig.lab.host(side).spawn(Program::new(program("python3")).args(script)).unwrap();
    running.wait_for_output("ready", PATIENCE).unwrap();
    running
}

/// The newest association of this direction over IPv4.
fn newest(rig: &Rig, side: Side, direction: &str) -> String {
    let list = rig.json(side, &["sa", "list"]).unwrap();
    let sas = list["sas"].as_array().unwrap();
    let of = sas.iter().filter(|sa| sa["direction"] == direction && sa["suite"] == "aes128gcm");
    // One that was replaced has an end.
    let unlimited = of.filter(|sa| sa["lifetime"]["hard"]["seconds"] == 0).collect::<Vec<_>>();
    assert_eq!(unlimited.len(), 1, "{list}");
    unlimited[0]["spi"].as_str().unwrap().to_owned()
}

/// Packets that an outbound association has carried.
fn carried(rig: &Rig, side: Side, spi: &str) -> u64 {
    let list = rig.json(side, &["sa", "list"]).unwrap();
    let mut sas = list["sas"].as_array().unwrap().iter();
    let sa = sas.find(|sa| sa["direction"] == "out" && sa["spi"] == spi).unwrap();
    sa["counters"]["packets"].as_u64().unwrap()
}

#[test]
fn a_pair_is_replaced_under_load_without_a_loss() {
    let rig = protected_rig("rvl-replace", true, &[&program("python3")]).unwrap();
    let (alice, bob) = (Side::Alice, Side::Bob);
    for side in [alice, bob] {
        // The TUN's own queue is a latency budget of 64 packets: on a busy machine it would lose some, whoever replaces what.
        let longer = Program::new(program("ip")).args(["link", "set", "dev", "rvl0", "txqueuelen", "10000"]);
        assert!(rig.lab.host(side).run_program(longer, PATIENCE).unwrap().status.success());
    }
    let both = [numbers(&rig, alice, bob, "90"), numbers(&rig, bob, alice, "90")];
    both.iter().for_each(|one| one.signal(libc::SIGUSR1).unwrap());
    let (a, b) = (alice.v4().to_string(), bob.v4().to_string());
    for round in 0..3 {
        let (to_bob, to_alice) = (key(), key());
        let (alice_in, alice_out) = (newest(&rig, alice, "in"), newest(&rig, alice, "out"));
        let (bob_in, bob_out) = (newest(&rig, bob, "in"), newest(&rig, bob, "out"));
        assert_eq!((&alice_in, &alice_out), (&bob_out, &bob_in), "round {round}");
        // Bob listens on the new association before anybody sends on it.
        let args = ["sa", "add", "--direction", "in", "--spi", "auto", "--local", &b, "--remote", &a];
        let args = args.into_iter().chain(["--mode", "transport", "--suite", "aes128gcm", "--json"]);
        let added = rig.ravelin(bob, &args.collect::<Vec<_>>(), &to_bob).unwrap();
        let added: serde_json::Value = serde_json::from_str(&added).unwrap();
        let to_bob_spi = added["sa"]["spi"].as_str().unwrap();
        // Alice: both halves at once, two keys from two descriptors.
        let (one, two) = (rig.folder().join("one"), rig.folder().join("two"));
        std::fs::write(&one, &to_alice).unwrap();
        std::fs::write(&two, &to_bob).unwrap();
        let line = format!(
            "{} sa replace --instance {} --in {alice_in} --new-in auto --in-key-fd 3 --out {alice_out} \
             --new-out {to_bob_spi} --out-key-fd 4 --overlap 2 --json 3<{} 4<{}",
            binary().display(),
            rig.instance(alice),
            one.display(),
            two.display()
        );
        let done =
            rig.lab.alice().run_program(Program::new(program("sh")).args(["-c", &line]), PATIENCE).unwrap();
        assert!(done.status.success(), "{}", done.err());
        let replaced: serde_json::Value = serde_json::from_str(&done.out()).unwrap();
        let to_alice_spi = replaced["sas"][0]["spi"].as_str().unwrap().to_owned();
        assert_eq!(replaced["sas"][1]["spi"], to_bob_spi);
        assert_eq!(replaced["replaced"][0]["spi"], alice_in.as_str());
        // Bob: his new inbound one is there already.
        let args =
            ["sa", "replace", "--in", &bob_in, "--new-in", to_bob_spi, "--overlap", "2", "--out", &bob_out];
        let args = args.into_iter().chain(["--new-out", &to_alice_spi]);
        let done = rig.ravelin(bob, &args.collect::<Vec<_>>(), &to_alice).unwrap();
        assert!(done.contains(&format!("out {to_alice_spi} takes over from {bob_out}")), "{done}");
        // Meanwhile windows and limits change.
        let args =
            ["sa", "update", to_bob_spi, "--replay-window", "64", "--soft", "packets=1000000", "--json"];
        let updated = rig.ravelin(bob, &args, "").unwrap();
        let updated: serde_json::Value = serde_json::from_str(&updated).unwrap();
        assert_eq!(updated["sa"]["replay_window"], 64);
        assert_eq!(updated["sa"]["lifetime"]["soft"]["packets"], 1_000_000);
        rig.ravelin(bob, &["sa", "update", to_bob_spi, "--replay-window", "8192"], "").unwrap();
        // The new ones carry what there is, in both directions, before they are replaced in turn.
        wait_until("traffic on the new associations", PATIENCE, || {
            carried(&rig, alice, to_bob_spi) > 500 && carried(&rig, bob, &to_alice_spi) > 500
        });
    }
    both.iter().for_each(|one| one.signal(libc::SIGUSR1).unwrap());
    let done = both.map(|side| side.finish(Duration::from_secs(40)).unwrap().out());
    let figures = done.each_ref().map(|done| {
        let words = done.split("result ").nth(1).unwrap_or_default().split(' ');
        words.take(3).map(|word| word.parse::<u64>().unwrap()).collect::<Vec<_>>()
    });
    let ([sent_a, seen_a, twice_a], [sent_b, seen_b, twice_b]) = (&figures[0][..], &figures[1][..]) else {
        panic!("{done:?}")
    };
    assert!(*sent_a > 1500 && *sent_b > 1500, "{done:?}");
    assert_eq!((sent_a, sent_b, twice_a, twice_b), (seen_b, seen_a, &0, &0), "{done:?}");
    assert!(done.iter().all(|done| !done.contains("not sent")), "{done:?}");
    // The old ones have gone by themselves.
    for side in [alice, bob] {
        wait_for("the end of the old associations", PATIENCE, || {
            let list = rig.json(side, &["sa", "list"]).unwrap();
            if list["sas"].as_array().unwrap().len() == 4 { Ok(()) } else { Err(list) }
        });
    }
}

#[test]
fn what_cannot_be_replaced_stays_as_it_was() {
    let rig = protected_rig("rvl-replace-no", true, &[&program("python3")]).unwrap();
    let side = Side::Alice;
    let (inbound, outbound) = (newest(&rig, side, "in"), newest(&rig, side, "out"));
    let before = rig.json(side, &["sa", "list"]).unwrap();
    let refuse = |args: &[&str], input: &str, status: i32, text: &str| {
        let done = rig.command(side, args, input).unwrap();
        assert_eq!(done.status.code(), Some(status), "{args:?}: {}", done.err());
        assert!(done.err().contains(text), "{args:?}: {}", done.err());
    };
    let key = key();
    refuse(&["sa", "replace"], "", 2, "nothing is to be replaced");
    refuse(&["sa", "replace", "--in", &inbound, "--new-in", "auto"], "", 2, "a successor needs a key");
    refuse(&["sa", "replace", "--in", &inbound, "--new-in", &inbound], "", 2, "cannot follow itself");
    refuse(&["sa", "replace", "--out", "0xffff0000", "--new-out", "0x2000"], &key, 1, "0xffff0000");
    refuse(&["sa", "replace", "--out", &outbound, "--new-out", &outbound], &key, 1, "in use");
    refuse(&["sa", "replace", "--out", &outbound, "--new-out", "0x2000"], &key[2..], 2, "20 octets");
    let suite = ["sa", "replace", "--out", &outbound, "--new-out", "0x2000", "--suite", "rot13"];
    refuse(&suite, &key, 2, "no cipher is called");
    refuse(&["sa", "update", &inbound], "", 2, "nothing is to change");
    refuse(&["sa", "update", &inbound, "--replay-window", "100"], "", 2, "power of two");
    refuse(&["sa", "update", &outbound, "--replay-window", "128"], "", 2, "no replay window");
    refuse(&["sa", "update", "0xffff0000", "--hard", "packets=1"], "", 1, "0xffff0000");
    let after = rig.json(side, &["sa", "list"]).unwrap();
    let names = |list: &serde_json::Value| {
        let sas = list["sas"].as_array().unwrap();
        sas.iter().map(|sa| (sa["spi"].to_string(), sa["lifetime"].to_string())).collect::<Vec<_>>()
    };
    assert_eq!(names(&before), names(&after));
    // The key that was refused was never used, and still serves.
    rig.ravelin(side, &["sa", "replace", "--out", &outbound, "--new-out", "0x2000"], &key).unwrap();
    assert_eq!(newest(&rig, side, "out"), "0x00002000");
}
