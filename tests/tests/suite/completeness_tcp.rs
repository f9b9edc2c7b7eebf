//! Completeness (paper 000 section 3.4), TCP: every segment that a kernel sends for a protected program, and every one that it sends for
//! nobody any more.

use anyhow::ensure;
use lab::{Program, Side};
use tests::inside::Inner;
use tests::kinds::{Over, PORT, Stage, Table, finish, second};
use tests::sites::sh;
use tests::{PATIENCE, program, try_wait_until};
use wire::tcp::Flags;

const ACK: Flags = Flags::ACK;
const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);
const FIN_ACK: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);

/// A segment of the server's port with exactly these flags.
fn is(inner: &Inner, out: bool, flags: Flags) -> bool {
    inner.out == out && inner.tcp().is_some_and(|tcp| tcp.has_port(PORT) && tcp.is(flags))
}

/// Sequence numbers of segments that pass, with the octets they carry.
fn numbers(seen: &[Inner], of: impl Fn(&Inner) -> bool) -> Vec<(u32, usize)> {
    let passing = seen.iter().filter(|inner| of(inner));
    passing.filter_map(Inner::tcp).map(|tcp| (tcp.0.seq(), tcp.len())).collect()
}

/// Whether one of them came twice.
fn twice(numbers: &[(u32, usize)]) -> bool {
    numbers.iter().enumerate().any(|(at, one)| numbers[..at].contains(one))
}

fn carries(inner: &Inner) -> bool {
    inner.tcp().is_some_and(|tcp| tcp.has_port(PORT) && !tcp.is_empty())
}

#[test]
fn opening_and_closing() {
    let stage = Stage::build("rvl-c-tcp").unwrap();
    let mut table = Table::new("tcp");
    for over in Over::BOTH {
        let seen = |what: &str, of: &dyn Fn(&Inner) -> bool| stage.seen(Side::Alice, what, of);
        table.row(&stage, "handshake", over, || {
            stage.run("handshake", over)?;
            seen("SYN", &|one| is(one, true, Flags::SYN))?;
            seen("SYN-ACK", &|one| is(one, false, SYN_ACK))?;
            seen("FIN", &|one| is(one, true, FIN_ACK))?;
            seen("FIN of the peer", &|one| is(one, false, FIN_ACK))
        });
        table.row(&stage, "FIN of the peer first", over, || {
            stage.run("fin_of_the_peer", over)?;
            let seen = stage.inside[0].look();
            let first = seen.iter().find(|one| is(one, true, FIN_ACK) || is(one, false, FIN_ACK));
            ensure!(first.is_some_and(|first| !first.out), "the peer did not close first");
            Ok(())
        });
        table.row(&stage, "RST by SO_LINGER", over, || {
            stage.run("reset_by_linger", over)?;
            seen("RST", &|one| one.out && one.tcp().is_some_and(|tcp| tcp.0.flags().contains(Flags::RST)))
        });
        table.row(&stage, "RST of the peer", over, || {
            stage.run("reset_by_the_peer", over)?;
            seen("RST", &|one| !one.out && one.tcp().is_some_and(|tcp| tcp.0.flags().contains(Flags::RST)))
        });
        table.row(&stage, "RST of a port nobody listens on", over, || {
            stage.run("closed_port", over)?;
            seen("RST without a socket", &|one| {
                !one.out && one.tcp().is_some_and(|tcp| tcp.has_port(9) && tcp.0.flags().contains(Flags::RST))
            })
        });
        table.row(&stage, "RST for late data", over, || {
            stage.run("late_data", over)?;
            seen("RST", &|one| !one.out && one.tcp().is_some_and(|tcp| tcp.0.flags().contains(Flags::RST)))
        });
    }
    table.close();
}

#[test]
fn said_again() {
    let stage = Stage::build("rvl-c-again").unwrap();
    let mut table = Table::new("tcp again");
    for over in Over::BOTH {
        table.row(&stage, "SYN again", over, || {
            stage.lossy("handshake", over, "tcp dport PORT tcp flags & (syn | ack) == syn", |seen| {
                twice(&numbers(seen, |one| is(one, true, Flags::SYN)))
            })
        });
        table.row(&stage, "SYN-ACK again", over, || {
            // Neither the acknowledgement nor data comes through.
            stage.lossy("handshake", over, "tcp dport PORT tcp flags & (syn | ack) == ack", |seen| {
                twice(&numbers(seen, |one| is(one, false, SYN_ACK)))
            })
        });
        table.row(&stage, "data again", over, || {
            stage.lossy("lost_data", over, "tcp dport PORT tcp flags & psh == psh", |seen| {
                twice(&numbers(seen, |one| one.out && carries(one)))
            })
        });
        table.row(&stage, "FIN again", over, || {
            stage.lossy("handshake", over, "tcp dport PORT tcp flags & fin == fin", |seen| {
                twice(&numbers(seen, |one| is(one, true, FIN_ACK)))
            })
        });
        table.row(&stage, "acknowledgement of TIME_WAIT", over, || {
            // Bob hears no bare acknowledgement, so he sends his FIN again, to a socket that is gone.
            stage.lossy(
                "handshake",
                over,
                "tcp dport PORT tcp flags & (fin | syn | psh | ack) == ack",
                |seen| {
                    let Some(own) = seen.iter().position(|one| is(one, true, FIN_ACK)) else { return false };
                    let fins = numbers(seen, |one| is(one, false, FIN_ACK));
                    let answers = numbers(&seen[own..], |one| is(one, true, ACK));
                    twice(&fins) && answers.len() >= 2
                },
            )?;
            let waiting = stage.rig.lab.alice().run(|| std::fs::read_to_string(time_wait_table(over)))??;
            let port = format!(":{PORT:04X} 06 ");
            ensure!(waiting.contains(&port), "no socket of alice is in TIME_WAIT");
            Ok(())
        });
        table.row(&stage, "keepalive", over, || {
            stage.run("keepalive", over)?;
            let seen = stage.inside[0].look();
            let sent = numbers(&seen, |one| one.out && carries(one));
            let (first, len) = sent[0];
            // A probe has the number of the last octet that was acknowledged, and no data.
            let probe = |one: &&Inner| {
                is(one, true, ACK)
                    && one.tcp().is_some_and(|tcp| tcp.is_empty() && tcp.0.seq() == first + len as u32 - 1)
            };
            ensure!(seen.iter().any(|one| probe(&one)), "no keepalive probe on the TUN");
            Ok(())
        });
        table.row(&stage, "zero-window probe", over, || {
            let client = stage.spawn("zero_window", over)?;
            client.wait_for_output("ready", PATIENCE)?;
            let probes = try_wait_until("zero-window probes", PATIENCE, || {
                Ok(zero_window_probes(&stage.inside[0].look()) >= 2)
            });
            client.signal(libc::SIGUSR1)?;
            finish(client)?;
            probes
        });
    }
    table.close();
}

/// Segments without data, one before what the peer has acknowledged, while its window is closed (RFC 9293, section 3.8.6.1).
fn zero_window_probes(seen: &[Inner]) -> usize {
    let of = |one: &&Inner, out: bool| one.out == out && one.tcp().is_some_and(|tcp| tcp.has_port(PORT + 2));
    let mut from_bob = seen.iter().filter(|one| of(one, false)).filter_map(Inner::tcp);
    let Some(closed) = from_bob.find(|tcp| tcp.0.window() == 0 && tcp.is(ACK)) else { return 0 };
    let sent = seen.iter().filter(|one| of(one, true)).filter_map(Inner::tcp);
    sent.filter(|tcp| tcp.is_empty() && tcp.0.seq().wrapping_add(1) == closed.0.ack()).count()
}

fn time_wait_table(over: Over) -> &'static str {
    if over == Over::V4 { "/proc/thread-self/net/tcp" } else { "/proc/thread-self/net/tcp6" }
}

/// Kind and subtype of MPTCP's option.
fn mptcp(inner: &Inner, out: bool, flags: Flags, subtype: u8) -> bool {
    let option =
        inner.tcp().filter(|tcp| tcp.is(flags) && tcp.has_port(PORT + 1)).and_then(|tcp| tcp.option(30));
    inner.out == out && option.is_some_and(|data| data.first().is_some_and(|first| first >> 4 == subtype))
}

/// Wait for a connection, and a second subflow of it from another address that is answered.
fn second_subflow(stage: &Stage) -> anyhow::Result<()> {
    stage.seen(Side::Alice, "MP_CAPABLE", |one| mptcp(one, true, Flags::SYN, 0))?;
    let seen = stage.inside[0].look();
    let first = seen.iter().find(|one| mptcp(one, true, Flags::SYN, 0)).map(|one| one.headers.src);
    drop(seen);
    stage.seen(Side::Alice, "MP_JOIN", |one| {
        mptcp(one, true, Flags::SYN, 1) && Some(one.headers.src) != first
    })?;
    stage.seen(Side::Alice, "MP_JOIN answered", |one| mptcp(one, false, SYN_ACK, 1))
}

#[test]
fn extensions() {
    let stage = Stage::build("rvl-c-ext").unwrap();
    let mut table = Table::new("tcp more");
    for over in Over::BOTH {
        // SYN, the option with a cookie, data.
        let early = |one: &Inner| {
            is(one, true, Flags::SYN)
                && one.tcp().is_some_and(|tcp| {
                    !tcp.is_empty() && tcp.option(34).is_some_and(|cookie| cookie.len() >= 4)
                })
        };
        table.row(&stage, "fast open", over, || {
            stage.run("fast_open", over)?;
            stage.seen(Side::Alice, "a SYN with a cookie and data", early)
        });
        table.row(&stage, "fast open by connect", over, || {
            stage.run("fast_open_connect", over)?;
            stage.seen(Side::Alice, "a SYN with a cookie and data", early)
        });
        table.row(&stage, "MPTCP with a second subflow", over, || {
            for side in Side::BOTH {
                sh(stage.rig.lab.host(side).netns(), "ip mptcp limits set subflow 2 add_addr_accepted 2")?;
            }
            // Each of alice's addresses: the one that the connection has is no other subflow's.
            let own = [over.address(Side::Alice), second(over)];
            let add = own.map(|address| format!("; ip mptcp endpoint add {address} dev eth0 subflow"));
            sh(stage.rig.lab.alice().netns(), &format!("ip mptcp endpoint flush{}", add.concat()))?;
            let client = stage.spawn("mptcp", over)?;
            client
                .wait_for_output("ready", PATIENCE)
                .or_else(|error| if client.output().contains("impossible") { Ok(()) } else { Err(error) })?;
            let joined = second_subflow(&stage);
            client.signal(libc::SIGUSR1)?;
            finish(client)?;
            joined
        });
    }
    table.close();
}

#[test]
fn the_tables_can_fail() {
    // The control: the same program without a policy is seen in clear, so is a kind that did not happen.
    let mut stage = Stage::build("rvl-c-control").unwrap();
    let plain = stage.plain.clone();
    stage.serve(&plain, PORT + 10).unwrap();
    stage.forget().unwrap();
    let client = stage.client(&plain, "handshake", Over::V4, PORT + 10, &[]);
    finish(stage.rig.lab.alice().spawn(client).unwrap()).unwrap();
    let complaint = stage.complaint(|_| false).unwrap().unwrap();
    assert!(complaint.contains("CLEAR PACKETS"), "{complaint}");
    let other = Program::new(program("true"));
    stage.rig.lab.alice().run_program(other, PATIENCE).unwrap();
    stage.forget().unwrap();
    assert_eq!(stage.complaint(|_| false).unwrap().unwrap(), "nothing was protected");
    let client = stage.spawn("no_such_kind", Over::V4).unwrap();
    assert!(finish(client).unwrap_err().to_string().contains("KeyError"));
}
