//! I: segments that the host must not take and a reader might: `chaff`, and then the `truth` in the same place.

use super::cases::{Case, Want};
use super::kit::{ACK, RST, SYN, client};
use super::stage::Stage;
use wire::tcp::Flags;

const TRUTH: &[u8] = b"truth";
const CHAFF: &[u8] = b"chaff";

/// A case in which the host must read the truth, although chaff was sent.
fn ends(name: &'static str, text: &'static str, script: fn(&mut Stage<'_>)) -> Case {
    Case::new(name, text, Want::stream(b">truth"), script)
}

fn data(name: &'static str, text: &'static str, script: fn(&mut Stage<'_>)) -> Case {
    Case::new(name, text, Want::stream(b">data"), script)
}

fn truth(stage: &mut Stage<'_>) {
    stage.send(&client(0, TRUTH));
}

#[rustfmt::skip]
pub(super) fn cases() -> Vec<Case> {
    vec![
        ends("I01", "data with a bad checksum", |s| {
            s.open();
            s.send(&client(0, CHAFF).with(|c| c.bad_checksum = true));
            truth(s);
        }),
        ends("I02", "reset with a bad checksum", |s| {
            s.open();
            s.send(&client(0, b"").flags(RST).with(|c| c.bad_checksum = true));
            truth(s);
        }),
        Case::new("I03", "low time to live", Want::stream(b">chaff"), |s| {
            s.open();
            s.send(&client(0, CHAFF).ttl(2));
            truth(s);
        }),
        ends("I04", "data without ACK", |s| {
            s.open();
            s.send(&client(0, CHAFF).flags(Flags::PSH));
            truth(s);
        }),
        ends("I05", "data with a wrong acknowledgment", |s| {
            s.open();
            s.send(&client(0, CHAFF).ack(100_000));
            truth(s);
        }),
        ends("I06", "data outside of the window", |s| {
            s.open();
            s.send(&client(200_000, CHAFF));
            truth(s);
        }),
        Case::new("I07", "data in front of the first octet", Want::stream(b">def"), |s| {
            s.open();
            s.send(&client(-4, b"xyzQdef"));
        }),
        ends("I08", "no flags", |s| {
            s.open();
            s.send(&client(0, CHAFF).flags(Flags(0)));
            truth(s);
        }),
        ends("I09", "a signature that nobody agreed on", |s| {
            let md5 = [&[19, 18][..], &[9; 16]].concat();
            s.open();
            s.send(&client(0, CHAFF).options(&md5));
            s.send(&client(0, b"").flags(RST).options(&md5));
            truth(s);
        }),
        ends("I10", "old timestamp", |s| {
            s.open_with(&[&[1, 1, 8, 10][..], &100_000_u32.to_be_bytes(), &[0; 4]].concat());
            s.send(&client(0, CHAFF).stamps(50_000, s.stamp));
            s.send(&client(0, TRUTH).stamps(100_003, s.stamp));
        }),
        ends("I11", "data offset too small and too large", |s| {
            s.open();
            s.send(&client(0, CHAFF).with(|c| c.offset = Some(4)));
            s.send(&client(0, CHAFF).with(|c| c.offset = Some(15)));
            truth(s);
        }),
        ends("I12", "SYN with FIN", |s| {
            s.send(&client(-1, b"").flags(SYN | Flags::FIN));
            s.open();
            truth(s);
        }),
        ends("I13", "exotic flags", |s| {
            let all = Flags::FIN | RST | ACK | Flags::PSH | Flags::URG;
            s.open();
            for flags in [all | Flags::ECE, Flags::FIN | RST | ACK, all] {
                s.send(&client(0, CHAFF).flags(flags));
            }
            truth(s);
        }),
        data("I14", "window scale on data", |s| {
            s.open();
            s.send(&client(0, b"data").options(&[3, 3, 7]));
        }),
        data("I15", "user timeout on data", |s| {
            s.open();
            s.send(&client(0, b"data").options(&[28, 4, 0, 1]));
        }),
        ends("I16", "SYN inside of a connection", |s| {
            s.open();
            s.send(&client(1000, b"").flags(SYN));
            truth(s);
        }),
        Case::new("I17", "retransmission with other octets", Want::stream(b">first"), |s| {
            s.open();
            s.send(&client(0, b"first"));
            s.send(&client(0, b"other"));
        }),
    ]
}
