//! Completeness (paper 000 section 3.4), UDP: "every datagram", in every way in which a program can send one.

use anyhow::ensure;
use lab::Side;
use tests::inside::Inner;
use tests::kinds::{Over, PORT, Stage, Table, second};

/// A datagram to the server, whole.
fn sent(one: &Inner) -> Option<&[u8]> {
    let (_, to, payload) = one.udp().filter(|_| one.out)?;
    (to == PORT).then_some(payload)
}

#[test]
fn datagrams() {
    let stage = Stage::build("rvl-c-udp").unwrap();
    let mut table = Table::new("udp");
    for over in Over::BOTH {
        let seen = |what: &str, of: &dyn Fn(&Inner) -> bool| stage.seen(Side::Alice, what, of);
        let version = if over == Over::V4 { 4 } else { 6 };
        let payload = |one: &Inner, text: &[u8]| one.headers.version == version && sent(one) == Some(text);
        table.row(&stage, "unconnected", over, || {
            stage.run("udp_unconnected", over)?;
            seen("the datagram", &|one| payload(one, b"unconnected"))
        });
        table.row(&stage, "connected", over, || {
            stage.run("udp_connected", over)?;
            seen("the datagram", &|one| payload(one, b"connected"))
        });
        table.row(&stage, "two destinations from a fresh socket", over, || {
            stage.run("udp_two_at_once", over)?;
            seen("the first", &|one| payload(one, b"first"))?;
            seen("the second", &|one| {
                one.out && one.udp().is_some_and(|(_, to, what)| to == 9 && what == b"second")
            })?;
            // Nobody listens there: the peer's kernel says so, without a socket.
            let unreachable = if over == Over::V4 { 3 } else { 1 };
            seen("port unreachable", &|one| !one.out && one.icmp() == Some(unreachable))
        });
        for (kind, script) in
            [("fragments", "udp_fragments"), ("fragments, connected", "udp_fragments_connected")]
        {
            table.row(&stage, kind, over, || {
                stage.run(script, over)?;
                let fragment =
                    |one: &Inner| one.headers.fragment.is_some_and(|fragment| fragment.offset != 0);
                // Inbound they are whole again: no fragment of protected traffic ever reaches a host.
                ensure!(
                    !stage.inside[0].look().iter().any(|one| !one.out && fragment(one)),
                    "a fragment came in"
                );
                seen("a later fragment", &|one| one.out && fragment(one))
            });
        }
        table.row(&stage, "corked", over, || {
            stage.run("udp_corked", over)?;
            seen("one datagram of three writes", &|one| {
                sent(one).is_some_and(|data| data.len() == 300 && data[299] == b'3')
            })
        });
        table.row(&stage, "MSG_MORE", over, || {
            stage.run("udp_more", over)?;
            seen("one datagram of two writes", &|one| payload(one, b"more to come"))
        });
        table.row(&stage, "segmentation offload", over, || {
            // The client saw nine datagrams come back from one call.
            stage.run("udp_segments", over)?;
            seen("the super-packet or its pieces", &|one| sent(one).is_some_and(|data| data.len() >= 1000))
        });
        table.row(&stage, "sendmmsg", over, || {
            stage.run("udp_sendmmsg", over)?;
            seen("the last of many", &|one| payload(one, b"one of many 4"))
        });
        table.row(&stage, "source chosen by PKTINFO", over, || {
            stage.run("udp_pktinfo", over)?;
            seen("another source", &|one| payload(one, b"from another") && one.headers.src == second(over))
        });
        table.row(&stage, "bound to a device", over, || {
            stage.run("udp_bound_to_device", over)?;
            seen("by the uplink", &|one| payload(one, b"by eth0"))
        });
        table.row(&stage, "zero copy", over, || {
            stage.run("udp_zero_copy", over)?;
            seen("the datagram", &|one| payload(one, &[b'z'; 1000]))
        });
        table.row(&stage, "UDP-Lite", over, || {
            stage.run("udp_lite", over)?;
            seen("the datagram", &|one| one.out && one.headers.protocol == 136)
        });
    }
    table.row(&stage, "IPv4-mapped address", Over::V4, || {
        stage.run("mapped_udp", Over::V4)?;
        for text in [&b"mapped"[..], b"mapped, connected"] {
            stage.seen(Side::Alice, "IPv4", |one| one.headers.version == 4 && sent(one) == Some(text))?;
        }
        Ok(())
    });
    table.close();
}
