//! Parallel associations: one for each class, so that each class has sequence numbers and a window of its own (RFC 4301
//! section 4.1).

use crate::queued::{self, EF, datagram, gcm, reasons};
use crate::rules::{by, table};
use crate::support::*;

use engine::Outcome;
use sadb::rules::Direction;
use sadb::{OutboundSa, SaConfig, Spi};
use wire::{AggregateId, AppId, Packet, stage};

/// An association beside the one of `gcm`, for a class.
fn beside(number: u32, class: AggregateId) -> SaConfig {
    let mut config = gcm();
    config.spi = Spi(SPI + number);
    config.keymat = keymat(config.suite, number as u8);
    config.options.aggregate = class;
    config
}

fn add(alice: &mut Sender, config: SaConfig) {
    alice.engine.add_sa(OutboundSa::new(config, registry()).unwrap()).unwrap();
}

fn class(alice: &Sender, name: &str) -> AggregateId {
    alice.engine.graph().unwrap().graph().aggregates().find(name).unwrap()
}

/// The SPI, the first sequence number, the number of packets and the class of what leaves, those of one association
/// that follow each other together.
fn sent(alice: &mut Sender, tos: &[u8]) -> Vec<(u32, u64, usize, AggregateId)> {
    sent_of(alice, tos.iter().map(|tos| datagram(*tos, 300)))
}

/// The same of these packets.
fn sent_of(
    alice: &mut Sender,
    packets: impl IntoIterator<Item = Packet<stage::Inner>>,
) -> Vec<(u32, u64, usize, AggregateId)> {
    for packet in packets {
        queued::receive(alice, packet);
    }
    let mut out = Vec::new();
    queued::work(alice, NOW, &mut out);
    assert_eq!(reasons(&out), []);
    let of = |outcome: &Outcome| match outcome {
        Outcome::Send(packet) => {
            let meta = packet.meta;
            (meta.spi, meta.sequence, 1, meta.aggregate)
        }
        Outcome::Burst(burst) => (burst.meta.spi, burst.meta.sequence, burst.count(), burst.meta.aggregate),
        other => panic!("{other:?}"),
    };
    let mut all: Vec<(u32, u64, usize, AggregateId)> = Vec::new();
    for (spi, first, count, class) in out.iter().map(of) {
        match all.last_mut() {
            // A burst has packets of one DSCP.
            Some((its, from, so_far, of)) if (*its, *of, *from + *so_far as u64) == (spi, class, first) => {
                *so_far += count;
            }
            _ => all.push((spi, first, count, class)),
        }
    }
    all
}

#[test]
fn each_class_has_its_own_association_where_there_is_one() {
    let mut alice = queued::sender(mandatory(), &[gcm()], queued::TWO);
    let (ef, be) = (class(&alice, "ef"), class(&alice, "be"));
    add(&mut alice, beside(1, ef));
    assert_eq!(sent(&mut alice, &[0, EF, 0, EF, EF]), [(SPI + 1, 1, 3, ef), (SPI, 1, 2, be)]);
    // A new key of a class takes over at once; the other class keeps its numbers.
    add(&mut alice, beside(2, ef));
    assert_eq!(sent(&mut alice, &[0, EF]), [(SPI + 2, 1, 1, ef), (SPI, 3, 1, be)]);
    alice.engine.remove_sa(Spi(SPI + 2), hosts(false).1).unwrap();
    assert_eq!(sent(&mut alice, &[EF]), [(SPI + 1, 4, 1, ef)]);
    assert!(alice.engine.graph().unwrap().graph().conserved());
}

#[test]
fn packets_have_the_class_of_an_association_that_stands_alone() {
    let mut alice = queued::sender(mandatory(), &[], queued::TWO);
    let ef = class(&alice, "ef");
    add(&mut alice, beside(1, ef));
    assert_eq!(sent(&mut alice, &[0, EF, 0]), [(SPI + 1, 1, 3, ef)]);
}

#[test]
fn a_rule_that_names_an_spi_holds_the_packets_that_it_decides_and_no_others() {
    let mut alice = queued::sender(mandatory(), &[gcm()], queued::TWO);
    let (ef, be) = (class(&alice, "ef"), class(&alice, "be"));
    add(&mut alice, beside(1, ef));
    let named = format!("{SPI:#x}");
    alice.engine.set_rules(Some(table(&[(Direction::Out, "remote-port 9", by(&[&named]))])));
    // The policy of the application decides.
    assert_eq!(sent(&mut alice, &[0, EF]), [(SPI + 1, 1, 1, ef), (SPI, 1, 1, be)]);
    // Another rule does, and then the one that names the SPI, which has only this association.
    let of_nobody = |tos| stamped(AppId::NONE, datagram(tos, 300).bytes());
    for (rule, ef_spi) in [(by(&["any"]), SPI + 1), (by(&[&named]), SPI)] {
        let others = (Direction::Out, "remote-port 9", by(&[&named]));
        alice.engine.set_rules(Some(table(&[others, (Direction::Out, "any", rule)])));
        for _ in 0..2 {
            let left = sent_of(&mut alice, [of_nobody(0), of_nobody(EF)]);
            let left: Vec<_> = left.into_iter().map(|(spi, _, count, class)| (spi, count, class)).collect();
            assert_eq!(left, [(ef_spi, 1, ef), (SPI, 1, be)]);
        }
    }
}

#[test]
fn what_waits_when_its_association_goes_leaves_by_the_one_of_its_class() {
    let mut alice = queued::sender(mandatory(), &[gcm()], queued::TWO);
    let (ef, be) = (class(&alice, "ef"), class(&alice, "be"));
    add(&mut alice, beside(1, ef));
    add(&mut alice, beside(2, ef));
    for tos in [0, EF, 0, EF] {
        queued::receive(&mut alice, datagram(tos, 300));
    }
    let mut out = Vec::new();
    alice.engine.look_up(NOW, 1000, &mut alice.pool, &mut out);
    alice.engine.remove_sa(Spi(SPI + 2), hosts(false).1).unwrap();
    assert_eq!(sent(&mut alice, &[]), [(SPI + 1, 1, 2, ef), (SPI, 1, 2, be)]);
}

#[test]
fn what_differs_in_more_than_its_class_stands_beside_nothing() {
    let mut alice = queued::sender(mandatory(), &[gcm()], queued::TWO);
    let (ef, be) = (class(&alice, "ef"), class(&alice, "be"));
    // The older one has another peer's port, so that it goes elsewhere.
    let mut other = beside(1, ef);
    other.endpoints.remote_port = other.endpoints.remote_port.wrapping_add(1);
    alice.engine.remove_sa(Spi(SPI), hosts(false).1).unwrap();
    add(&mut alice, other);
    add(&mut alice, gcm());
    assert_eq!(sent(&mut alice, &[0, EF]), [(SPI, 1, 1, ef), (SPI, 2, 1, be)]);
}

#[test]
fn a_class_that_a_component_gave_stays() {
    let text = "[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\n[class.bulk]\nmatch = \"named\"\n[class.be]\nmatch = \"rest\"\n\
                [[hook]]\nat = \"1a\"\nchain = [{ kind = \"classify\", by = \"rules\" }, \
                { kind = \"police\", class = \"be\", rate = \"1kbit\", burst = \"1500B\", excess = \"bulk\" }]\n\
                [unit.inline]\nkind = \"inline\"\n";
    let mut alice = queued::sender(mandatory(), &[], text);
    let (ef, bulk) = (class(&alice, "ef"), class(&alice, "bulk"));
    add(&mut alice, beside(1, ef));
    let sent = sent(&mut alice, &[0; 10]);
    // Four packets are within the burst, and have the class of their association.
    assert_eq!(
        sent.iter().map(|(.., count, class)| (*count, *class)).collect::<Vec<_>>(),
        [(4, ef), (6, bulk)]
    );
}
