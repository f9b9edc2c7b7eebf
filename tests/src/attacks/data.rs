//! O: the octets of a connection, in two versions.

use super::PORT;
use super::cases::{Case, Want};
use super::kit::{ACK, SYN_ACK, Seg, client, server};
use super::packet::V4;
use super::stage::Stage;
use wire::tcp::Flags;

fn reads(name: &'static str, text: &'static str, want: &[u8], script: fn(&mut Stage<'_>)) -> Case {
    Case::new(name, text, Want::stream(want), script)
}

/// Ranges of a string of four octets.
fn ranges() -> Vec<(usize, usize)> {
    (0..4).flat_map(|from| (from + 1..=4).map(move |to| (from, to))).collect()
}

/// Every seventeenth sequence of three chunks, each with octets of its own; the rest of the thousand is in readers/tests.
fn chunks() -> Vec<[(usize, usize); 3]> {
    let ranges = ranges();
    let triple = |n: usize| [ranges[n / 100], ranges[n / 10 % 10], ranges[n % 10]];
    (0..1000).step_by(17).map(triple).collect()
}

/// The first octet in each place.
fn first_of(chunks: &[(usize, usize); 3]) -> Vec<u8> {
    let first = |at: usize| {
        let mut found = chunks.iter().zip(b"xyz").filter(|((from, to), _)| (*from..*to).contains(&at));
        found.next().map_or(b'w', |(_, octet)| *octet)
    };
    [b">".to_vec(), (0..4).map(first).collect()].concat()
}

/// A letter for each thousand octets.
fn letters(from: usize, len: usize, first: u8) -> Vec<u8> {
    (from..from + len).map(|at| first + (at / 1000 % 26) as u8).collect()
}

const FILL: usize = 84_000;
const STEP: usize = 1400;

/// Have a segment come from the server's port of a connection that the inside opened.
fn from(at: u16, port: u16) -> impl Fn(&mut Seg) + Copy {
    move |c: &mut Seg| c.ports = (at, port)
}

fn urgent(at: u16) -> Seg {
    client(0, b"ROOxT").flags(ACK | Flags::URG).with(|c| c.urgent = at)
}

fn in_pieces(stage: &mut Stage<'_>, packet: &V4) {
    let len = packet.data.len();
    for from in (0..len).step_by(24) {
        stage.outside(&packet.piece(from, (from + 24).min(len)));
    }
}

#[rustfmt::skip]
pub(super) fn cases() -> Vec<Case> {
    vec![
        reads("O01", "the paper's Figure 1: a hole, then other octets", b">USER root\n", |s| {
            s.open();
            s.send_all(&[(5, b"root\n"), (0, b"USER user\n")]);
        }),
        reads("O02", "exact overlap", b">AAAABBBB", |s| {
            s.open();
            s.send_all(&[(4, b"BBBB"), (4, b"bbbb"), (0, b"AAAA")]);
        }),
        reads("O03", "partial overlaps", b">ddaaBBBBccdd", |s| {
            s.open();
            s.send_all(&[(4, b"BBBB"), (2, b"aaaa"), (6, b"cccc"), (0, b"dddddddddddd")]);
        }),
        Case::new("O04", "sequences of three chunks", Want::Streams(
            chunks().iter().zip(0..).map(|(chunks, at)| (at, first_of(chunks))).collect(),
        ), |s| {
            for (index, chunks) in chunks().iter().enumerate() {
                if index > 0 {
                    s.another();
                }
                s.open();
                for ((from, to), octet) in chunks.iter().zip(b"xyz") {
                    s.send(&client(*from as i64, &vec![*octet; to - from]));
                }
                s.send(&client(0, b"wwww"));
            }
        }),
        Case::new("O05", "segments of one octet", Want::Stream([b">".to_vec(), letters(0, 40, b'a')].concat()), |s| {
            s.open();
            letters(0, 40, b'a').iter().zip(0..).for_each(|(octet, at)| s.send(&client(at, &[*octet])));
        }),
        reads("O06", "reverse order", b">0123456789abcdef", |s| {
            s.open();
            for at in (0..16).step_by(2).rev() {
                s.send(&client(at as i64, &b"0123456789abcdef"[at..at + 2]));
            }
        }),
        reads("O07", "old and new octets in turn", b">aBcDeF", |s| {
            s.open();
            s.send_all(&[(1, b"B"), (0, b"ab"), (3, b"D"), (2, b"cd"), (5, b"F"), (4, b"ef")]);
        }),
        reads("O08", "retransmission behind the acknowledgment", b">data", |s| {
            s.open();
            s.send_all(&[(0, b"data"), (0, b"evil")]);
        }),
        reads("O09", "forged acknowledgment of the server's", b">userroot", |s| {
            s.open();
            s.send(&client(4, b"root"));
            let ports = (PORT, s.port());
            s.send(&server(0, b"").ack(8).with(|c| c.ports = ports));
            s.send(&client(0, b"userevil"));
        }),
        reads("O10", "lost acknowledgment: honest data again", b">datamore", |s| {
            s.open();
            s.send_all(&[(0, b"data"), (0, b"data"), (4, b"more")]);
        }),
        Case::new("O11", "more than the window takes", Want::Octets(FILL + 1), |s| {
            s.open();
            s.read(false);
            for at in (0..FILL).step_by(STEP) {
                s.send(&client(at as i64, &letters(at, STEP, b'a')));
            }
            s.read(true);
            for at in (0..FILL).step_by(STEP) {
                s.send(&client(at as i64, &letters(at, STEP, b'A')));
            }
        }),
        Case::new("O12", "an edge that was open once", Want::Stream([b">".to_vec(), letters(0, 28_000, b'a'), b"edge".to_vec()].concat()), |s| {
            s.open();
            s.read(false);
            s.send(&client(28_000, b"edge"));
            for at in (0..28_000).step_by(STEP) {
                s.send(&client(at as i64, &letters(at, STEP, b'a')));
            }
            s.send(&client(28_000, b"EDGE"));
            s.read(true);
        }),
        reads("O13", "a segment too long for the link behind", b">truth", |s| {
            s.open();
            s.send(&client(0, &[b'x'; 1200]));
            s.send(&client(0, b"truth"));
        })
        .within(|setting| {
            setting.mtu = 1000;
            setting.config.iter_mut().for_each(|config| config.mtu[1] = 1000);
        }),
        reads("O14", "urgent octet", b">ROOxT", |s| {
            s.open();
            s.send(&urgent(4));
        }),
        reads("O15", "urgent pointer without its flag, and beyond the data", b">ROOxTROOxT", |s| {
            s.open();
            s.send(&client(0, b"ROOxT").with(|c| c.urgent = 2));
            s.send(&urgent(60_000).with(|c| c.seq = 5));
        }),
        reads("O16", "two answers to one question", b"302 evil", |s| {
            let port = s.connect();
            let from = from(s.port(), port);
            s.send(&client(-1, b"").flags(SYN_ACK).with(from));
            s.send(&client(0, b"302 evil").with(from));
            s.send(&client(0, b"200 good").with(from));
        }),
        reads("O17", "SACK blocks of nothing", b">data", |s| {
            s.open_with(&[4, 2, 1, 1]);
            let block = |left: u32, right: u32| [&[1, 1, 5, 10][..], &left.to_be_bytes(), &right.to_be_bytes()].concat();
            let next = s.isn[1].wrapping_add(1);
            s.send(&client(0, b"").options(&block(next.wrapping_add(3), next.wrapping_add(60))));
            s.send(&client(0, b"").options(&block(next, next)));
            // A list of no blocks contradicts itself, and ends.
            s.send(&client(0, b"chaff").options(&[1, 1, 5, 2]));
            s.send(&client(0, b"data"));
        }),
        reads("O18", "keep-alive with an octet", b">datamore", |s| {
            s.open();
            s.send_all(&[(0, b"data"), (3, b"?"), (4, b"more")]);
        }),
        reads("O19", "segments in fragments", b">the first half and the other half of it", |s| {
            s.open();
            let first = s.carried(&client(0, b"the first half "));
            in_pieces(s, &first);
            let second = s.carried(&client(15, b"and the other half of it")).with(|p| p.id += 1);
            in_pieces(s, &second);
        }),
        reads("O20", "lost on its last link, then other octets", b">lost", |s| {
            s.open();
            s.lose = true;
            s.send(&client(0, b"lost"));
            s.send(&client(0, b"evil"));
        }),
        Case::new("O21", "holes in many connections", Want::Octets(40 * 1101), |s| {
            for index in 0..40 {
                if index > 0 {
                    s.another();
                }
                s.open();
                s.send(&client(100, &[b'x'; 1000]));
                s.send(&client(0, &[b'y'; 100]));
                s.send(&client(100, &[b'z'; 1000]));
            }
        })
        .within(|setting| {
            setting.config.iter_mut().for_each(|config| config.store.memory = 16 << 10);
        }),
        reads("O22", "optimistic acknowledgments", b">truth", |s| {
            s.open();
            (1..20).for_each(|ack| s.send(&client(0, b"chaff").ack(ack * 10)));
            s.send(&client(0, b"truth"));
        }),
        Case::new("O23", "overlap at the edge of a segment of a super-packet", Want::Stream(
            [vec![b'>'], vec![b'a'; 1400], vec![b'b'; 1000]].concat(),
        ), |s| {
            s.open();
            s.send(&client(0, &[b'a'; 1400]));
            s.send(&client(1000, &[b'b'; 1400]));
        }),
    ]
}
