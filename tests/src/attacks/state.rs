//! D: what makes a reader lose the connection, or follow another one.

use super::cases::{Case, Want};
use super::kit::{FIN, RST, SYN, SYN_ACK, Seg, client};
use super::stage::Stage;
use std::time::Duration;
use wire::tcp::Flags;

const TRUTH: &[u8] = b"truth";
const CHAFF: &[u8] = b"chaff";

fn truth(stage: &mut Stage<'_>) {
    stage.send(&client(0, TRUTH));
}

/// The connection goes on.
fn lives(name: &'static str, text: &'static str, script: fn(&mut Stage<'_>)) -> Case {
    Case::new(name, text, Want::stream(b">truth"), script)
}

fn reads(name: &'static str, text: &'static str, want: &[u8], script: fn(&mut Stage<'_>)) -> Case {
    Case::new(name, text, Want::stream(want), script)
}

/// A case in which the truth is read on the second port of the case only.
fn elsewhere(name: &'static str, text: &'static str, script: fn(&mut Stage<'_>)) -> Case {
    Case::new(name, text, Want::Streams(vec![(1, b">truth".to_vec())]), script)
}

fn on_another_port(stage: &mut Stage<'_>) {
    stage.another();
    stage.open();
    truth(stage);
}

#[rustfmt::skip]
pub(super) fn cases() -> Vec<Case> {
    vec![
        lives("D01", "reset far off", |s| {
            s.open();
            s.send(&client(1_000_000, b"").flags(RST));
            truth(s);
        }),
        lives("D02", "reset in the window", |s| {
            s.open();
            s.send(&client(100, b"").flags(RST));
            truth(s);
        }),
        reads("D03", "reset at the right edge of a SACK block", b">0123456789islandfourteen octs island", |s| {
            s.open_with(&[4, 2, 1, 1]);
            s.send_all(&[(10, b"island"), (30, b"island")]);
            s.send(&client(36, b"").flags(RST));
            s.send_all(&[(0, b"0123456789"), (16, b"fourteen octs ")]);
        }),
        lives("D04", "reset with a wrong acknowledgment", |s| {
            s.open();
            s.send(&client(0, b"").flags(RST | Flags::ACK).ack(77_777));
            truth(s);
        }),
        reads("D05", "reset after FIN", b">data", |s| {
            s.open();
            s.send(&client(0, b"data"));
            s.send(&client(4, b"").flags(FIN));
            s.send(&client(5, b"").flags(RST));
        }),
        reads("D06", "FIN at a wrong number", b">abcdefghi", |s| {
            s.open();
            s.send(&client(0, b"abcdef"));
            s.send(&client(3, b"").flags(FIN));
            s.send(&client(200_000, b"").flags(FIN));
            s.send(&client(6, b"ghi"));
            s.send(&client(9, b"").flags(FIN));
        }),
        lives("D07", "FIN without ACK", |s| {
            s.open();
            s.send(&client(0, b"").flags(Flags::FIN));
            truth(s);
        }),
        lives("D08", "several SYNs", |s| {
            s.send(&client(-1, b"").flags(SYN));
            s.send(&client(4999, b"").flags(SYN));
            s.open();
            s.send(&client(9999, b"").flags(SYN));
            truth(s);
        }),
        lives("D09", "SYN in the window", |s| {
            s.open();
            s.send(&client(0, b"").flags(SYN));
            truth(s);
        }),
        lives("D10", "TCB turn-around: the client begins with a SYN-ACK", |s| {
            s.send(&client(-1, b"").flags(SYN_ACK));
            s.open();
            truth(s);
        }),
        reads("D11", "split handshake", b"truth", |s| {
            let port = s.connect();
            
            let at = s.port();
            let from = move |c: &mut Seg| c.ports = (at, port);
            s.send(&client(-1, b"").flags(SYN).with(from));
            s.send(&client(-1, b"").flags(SYN_ACK).with(from));
            s.send(&client(0, b"").with(from));
            s.send(&client(0, TRUTH).with(from));
        }),
        lives("D12", "data far behind the SYN", |s| {
            s.send(&client(-1, b"").flags(SYN));
            s.send(&client(100_000, CHAFF));
            s.open();
            truth(s);
        }),
        elsewhere("D13", "SYN-ACK in the SYN's place", |s| {
            s.send(&client(-1, b"").flags(SYN_ACK));
            s.send(&client(0, CHAFF));
            on_another_port(s);
        }),
        reads("D14", "the last segment of the handshake has data", b"GET /", |s| {
            s.send(&client(-1, b"").flags(SYN));
            s.send(&client(0, b"GET /"));
        }),
        reads("D15", "data in the SYN", b"truth", |s| {
            s.send(&client(-1, CHAFF).flags(SYN));
            s.send(&client(0, b""));
            truth(s);
        }),
        reads("D16", "fast open that the server ignores", b"truth", |s| {
            s.send(&client(-1, CHAFF).flags(SYN).options(&[34, 10, 1, 2, 3, 4, 5, 6, 7, 8]));
            s.send(&client(0, b""));
            truth(s);
        }),
        reads("D17", "data while closing", b">all", |s| {
            s.open();
            s.send(&client(0, b"all").flags(FIN));
            s.send(&client(3, b"more"));
            s.send(&client(0, b"all+more"));
        }),
        lives("D18", "big gap", |s| {
            s.open();
            s.send(&client(10_000_000, CHAFF));
            truth(s);
        }),
        reads("D19", "long silence", b">onetwo", |s| {
            s.open();
            s.send(&client(0, b"one"));
            s.wait(Duration::from_secs(2 * 3600 + 320));
            s.send(&client(3, b"two"));
        }),
        reads("D20", "port used again", b">one|>two", |s| {
            s.open();
            s.send(&client(0, b"one").flags(FIN));
            s.send(&client(4, b"").ack(1));
            s.isn[0] = s.isn[0].wrapping_add(200_000);
            s.open();
            s.send(&client(0, b"two"));
        }),
        elsewhere("D21", "middle of a connection", |s| {
            s.send(&client(0, CHAFF));
            on_another_port(s);
        }),
        Case::new("D22", "the answers go another way", Want::stream(b""), |s| {
            s.open();
            truth(s);
        })
        .within(|setting| setting.one_sided = true),
        reads("D23", "numbers wrap", b">0123456789abcdef0123KL", |s| {
            s.isn[0] = 0xffff_fff0;
            s.open();
            s.send(&client(0, b"0123456789abcdef0123"));
            s.send(&client(10, b"ABCDEFGHIJKL"));
        }),
        reads("D24", "reset with data", b">", |s| {
            s.open();
            s.send(&client(0, CHAFF).flags(RST));
        }),
        reads("D25", "reset in front of the acknowledgment", b">data", |s| {
            s.open();
            s.send(&client(0, b"data"));
            s.send(&client(4, b"").flags(RST));
            s.send(&client(0, b"evil"));
        }),
    ]
}
