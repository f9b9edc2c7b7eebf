//! Completeness (paper 000 section 3.4): sockets without ports, and sockets that are used past the usual calls.

use lab::Side;
use tests::inside::Inner;
use tests::kinds::{Over, PORT, Stage, Table};
use wire::tcp::Flags;

/// Echo request and reply.
fn echo(over: Over) -> (u8, u8) {
    if over == Over::V4 { (8, 0) } else { (128, 129) }
}

#[test]
fn raw_and_ping() {
    let stage = Stage::build("rvl-c-raw").unwrap();
    let mut table = Table::new("raw");
    for over in Over::BOTH {
        let seen = |what: &str, of: &dyn Fn(&Inner) -> bool| stage.seen(Side::Alice, what, of);
        let (request, reply) = echo(over);
        for (kind, script, text) in [
            ("raw ICMP", "raw_icmp", "raw echo"),
            ("raw ICMP, connected", "raw_icmp_connected", "raw connected"),
            ("ping socket", "ping", "ping socket"),
            ("ping socket, connected", "ping", "ping connected"),
        ] {
            table.row(&stage, kind, over, || {
                stage.run(script, over)?;
                let of = |one: &Inner, kind: u8| {
                    one.icmp() == Some(kind) && one.upper().ends_with(text.as_bytes())
                };
                seen("the request", &|one| one.out && of(one, request))?;
                seen("the reply, of a kernel", &|one| !one.out && of(one, reply))
            });
        }
        table.row(&stage, "raw, protocol 253", over, || {
            stage.run("raw_protocol", over)?;
            seen("the packet", &|one| one.out && one.headers.protocol == 253)?;
            stage.seen(Side::Bob, "the packet", |one| !one.out && one.headers.protocol == 253)
        });
        table.row(&stage, "raw with its own header", over, || {
            stage.run("raw_with_header", over)?;
            seen("the datagram", &|one| {
                one.out
                    && one.udp().is_some_and(|(from, to, data)| (from, to, data) == (7777, PORT, b"header"))
            })
        });
    }
    table.row(&stage, "TCP over IPv4-mapped", Over::V4, || {
        stage.run("mapped_tcp", Over::V4)?;
        let syn = |one: &Inner| {
            one.out && one.headers.version == 4 && one.tcp().is_some_and(|tcp| tcp.is(Flags::SYN))
        };
        stage.seen(Side::Alice, "a SYN over IPv4", syn)
    });
    table.close();
}

#[test]
fn io_uring() {
    let stage = Stage::build("rvl-c-uring").unwrap();
    let mut table = Table::new("io_uring");
    for over in Over::BOTH {
        for (kind, script) in [
            ("by the caller", "uring"),
            ("by a worker (IOSQE_ASYNC)", "uring_async"),
            ("by the polling thread (SQPOLL)", "uring_polled"),
        ] {
            table.row(&stage, kind, over, || {
                // The client fails unless the ring's threads were there.
                stage.run(script, over)?;
                let line = |one: &Inner| {
                    one.out
                        && one
                            .tcp()
                            .is_some_and(|tcp| tcp.has_port(PORT) && tcp.0.payload() == b"by io_uring\n")
                };
                stage.seen(Side::Alice, "a line by TCP", line)?;
                for text in [&b"a datagram by io_uring"[..], b"connected by io_uring"] {
                    let datagram = |one: &Inner| {
                        one.out && one.udp().is_some_and(|(_, to, data)| to == PORT && data == text)
                    };
                    stage.seen(Side::Alice, "a datagram", datagram)?;
                }
                Ok(())
            });
        }
    }
    table.close();
}
