//! Reservations: admitted, refused with figures, refreshed, gone.

use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;
use qos::reservation::{
    Capacity, Flow, FlowCounts, FlowHash, FlowTerms, InnerName, LONGEST, OuterName, Refused, Reservation,
    Reservations, ReservedFlow, ReservedFlows, Scope,
};
use qos::{AggregateId, Amount};
use wire::Time;

const KEY: [u8; 16] = [7; 16];

/// A unit of half a processor, and an uplink of 100 Mbit/s.
fn table(most: usize) -> Reservations {
    let units = vec![Capacity::new("inline", 500_000_000)];
    Reservations::new(units, vec![Capacity::new("eth0", 12_500_000)], KEY, most)
}

fn spi(spi: u32) -> Flow {
    let destination: IpAddr = "192.0.2.1".parse().unwrap();
    Flow { destination, protocol: 50, scope: Scope::Spi { spi, virtual_port: 1 } }
}

fn call(flow: Flow, rate: u64) -> Reservation {
    Reservation {
        class: AggregateId(2),
        rate,
        burst: 3_000,
        flow,
        holder: "pbx".to_owned(),
        lifetime: Duration::from_secs(30),
        least: 1,
        overhead: 0,
        ps_per_octet: 156_000,
        unit: 0,
        uplink: 0,
    }
}

#[test]
fn a_reservation_takes_nanoseconds_and_octets_and_gives_them_back() {
    let mut table = table(10);
    let id = table.admit(call(spi(1), 80_000), Time(0)).unwrap();
    // 80 kbit/s are 10,000 octets a second, at 156 ns each.
    assert_eq!(table.units()[0].taken, 1_560_000);
    assert_eq!(table.uplinks()[0].free(), 12_490_000);
    assert_eq!(table.find(&spi(1)).map(|(found, _)| found), Some(id));
    assert!(table.find(&spi(2)).is_none());
    assert!(table.release(id).is_some());
    assert!(table.release(id).is_none());
    assert_eq!((table.units()[0].taken, table.uplinks()[0].taken, table.count()), (0, 0, 0));
    assert!(table.find(&spi(1)).is_none());
}

#[test]
fn what_does_not_fit_is_refused_with_the_figures() {
    let mut table = table(10);
    table.admit(call(spi(1), 16_000_000), Time(0)).unwrap();
    // 2,000,000 octets of 3DES are 312 ms of the unit, and 188 ms are left: 16 Mbit/s more need 312.
    let refused = table.admit(call(spi(2), 16_000_000), Time(0)).unwrap_err();
    assert_eq!(refused, Refused::Unit { name: "inline".into(), asked: 312_000_000, free: 188_000_000 });
    assert_eq!(
        refused.to_string(),
        "the unit `inline` has 188000000 ns a second left, and 312000000 were asked for"
    );
    let cheap = Reservation { ps_per_octet: 1, ..call(spi(3), 90_000_000) };
    let refused = table.admit(cheap, Time(0)).unwrap_err();
    assert_eq!(refused, Refused::Uplink { name: "eth0".into(), asked: 11_250_000, free: 10_500_000 });
    // What is refused takes nothing.
    assert_eq!((table.count(), table.units()[0].taken), (1, 312_000_000));
    assert_eq!(table.uplinks()[0].taken, 2_000_000);
}

#[test]
fn a_flow_belongs_to_its_holder_who_can_change_it() {
    let mut table = table(10);
    let first = table.admit(call(spi(1), 16_000_000), Time(0)).unwrap();
    let other = Reservation { holder: "someone".to_owned(), ..call(spi(1), 8) };
    assert_eq!(table.admit(other, Time(0)), Err(Refused::Taken { holder: "pbx".to_owned() }));
    // The old one is free for the new one: 24 Mbit/s need 468 of 500 ms.
    let second = table.admit(call(spi(1), 24_000_000), Time(0)).unwrap();
    assert_ne!(first, second);
    assert_eq!((table.count(), table.units()[0].taken), (1, 468_000_000));
    // A change that does not fit leaves what was.
    assert!(table.admit(call(spi(1), 32_000_000), Time(0)).is_err());
    assert_eq!(table.find(&spi(1)).map(|(id, _)| id), Some(second));
    assert_eq!(table.units()[0].taken, 468_000_000);
}

#[test]
fn what_is_not_refreshed_in_time_is_gone() {
    let mut table = table(10);
    let one = table.admit(call(spi(1), 8_000), Time::from_secs(0)).unwrap();
    let two = table.admit(call(spi(2), 8_000), Time::from_secs(1)).unwrap();
    assert_eq!(table.poll_timeout(), Some(Time::from_secs(30)));
    assert!(table.expire(Time(29_999_999_999)).is_empty());
    assert!(table.refresh(one, Time::from_secs(20)));
    assert_eq!(table.poll_timeout(), Some(Time::from_secs(31)));
    assert_eq!((table.ends(one), table.ends(two)), (Some(Time::from_secs(50)), Some(Time::from_secs(31))));
    let ended: Vec<_> = table.expire(Time::from_secs(31)).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ended, [two]);
    assert!(!table.refresh(two, Time::from_secs(31)));
    assert_eq!(table.expire(Time::from_secs(50)).len(), 1);
    assert_eq!((table.poll_timeout(), table.units()[0].taken), (None, 0));
}

#[test]
fn the_table_is_bounded_and_finds_ten_thousand() {
    let mut table = table(12_000);
    for n in 0..12_000 {
        table.admit(Reservation { ps_per_octet: 1, ..call(spi(n), 8_000) }, Time(u64::from(n))).unwrap();
    }
    assert_eq!(table.admit(call(spi(12_000), 8), Time(0)), Err(Refused::TooMany { most: 12_000 }));
    // One that is there can still be changed.
    assert!(table.admit(Reservation { ps_per_octet: 1, ..call(spi(5), 16_000) }, Time(0)).is_ok());
    for n in 0..12_000 {
        let (_, found) = table.find(&spi(n)).unwrap();
        assert_eq!(found.flow, spi(n));
    }
    assert_eq!(table.uplinks()[0].taken, 12_001_000);
}

#[test]
fn flows_of_ipsec_and_of_ports_are_apart() {
    let destination: IpAddr = "2001:db8::1".parse().unwrap();
    let flow = |scope| Flow { destination, protocol: 17, scope };
    let ports = |destination| flow(Scope::Ports { source: 0, destination, dscp: Some(46) });
    let mut table = table(10);
    table.admit(call(ports(5060), 8), Time(0)).unwrap();
    assert!(table.find(&ports(5061)).is_none());
    assert!(table.find(&Flow { protocol: 6, ..ports(5060) }).is_none());
    assert!(table.find(&flow(Scope::Ports { source: 0, destination: 5060, dscp: Some(0) })).is_none());
    assert!(table.find(&flow(Scope::Spi { spi: 5060, virtual_port: 46 })).is_none());
    // RFC 2207 section 4.1: a virtual port of zero names no session of IPsec.
    let zero = flow(Scope::Spi { spi: 1, virtual_port: 0 });
    assert_eq!(table.admit(call(zero, 8), Time(0)), Err(Refused::NoVirtualPort));
    // Packets of one SPI show no virtual port, so a second session of them is refused.
    let by_port = |virtual_port| flow(Scope::Spi { spi: 1, virtual_port });
    table.admit(call(by_port(1), 8), Time(0)).unwrap();
    assert_eq!(table.admit(call(by_port(2), 8), Time(0)), Err(Refused::SameSpi { virtual_port: 1 }));
    assert_eq!(table.count(), 2);
}

#[test]
fn malformed_reservations_are_refused_by_field() {
    let good = call(spi(1), 8);
    let rows = [
        ("rate", Reservation { rate: 0, ..good.clone() }),
        ("burst", Reservation { burst: 0, ..good.clone() }),
        ("burst", Reservation { burst: 99, least: 100, ..good.clone() }),
        ("least", Reservation { least: 0, ..good.clone() }),
        ("lifetime", Reservation { lifetime: Duration::ZERO, ..good.clone() }),
        ("lifetime", Reservation { lifetime: LONGEST + Duration::from_secs(1), ..good.clone() }),
        ("holder", Reservation { holder: String::new(), ..good.clone() }),
        ("holder", Reservation { holder: "x".repeat(65), ..good.clone() }),
    ];
    for (field, reservation) in rows {
        assert_eq!(table(10).admit(reservation, Time(0)), Err(Refused::Malformed { field }));
    }
    for reservation in [Reservation { unit: 1, ..good.clone() }, Reservation { uplink: 1, ..good }] {
        assert_eq!(table(10).admit(reservation, Time(0)), Err(Refused::NoCapacity));
    }
}

#[test]
fn less_capacity_ends_the_youngest_reservations() {
    let mut table = table(10);
    for n in 0..3 {
        table.admit(call(spi(n), 8_000_000), Time(0)).unwrap();
    }
    // 156 ms each; 350 ms hold two.
    let units = vec![Capacity::new("inline", 350_000_000)];
    let ended = table.set_capacities(units, vec![Capacity::new("eth0", 12_500_000)], |_| true);
    assert_eq!(ended.iter().map(|(_, r)| r.flow).collect::<Vec<_>>(), [spi(2)]);
    assert_eq!((table.count(), table.units()[0].taken), (2, 312_000_000));
    assert_eq!(table.poll_timeout(), Some(Time::from_secs(30)));
    assert_eq!(table.expire(Time::from_secs(30)).len(), 2);
}

#[test]
fn another_graph_keeps_what_it_has_a_class_a_unit_an_uplink_and_room_for() {
    let units = || vec![Capacity::new("one", 400_000_000), Capacity::new("two", 400_000_000)];
    let mut table = Reservations::new(units(), vec![Capacity::new("eth0", 12_500_000)], KEY, 10);
    for (n, unit, class) in [(1, 0, 2), (2, 1, 2), (3, 1, 3)] {
        let asked = Reservation { unit, class: AggregateId(class), ..call(spi(n), 8_000_000) };
        table.admit(asked, Time(0)).unwrap();
    }
    // The unit `two` stands first now, and `one` is gone; the class 3 is gone.
    let units = vec![Capacity::new("two", 400_000_000)];
    let ended = table.set_capacities(units, vec![Capacity::new("eth0", 12_500_000)], |of| of.class.0 != 3);
    assert_eq!(ended.iter().map(|(_, of)| of.flow).collect::<Vec<_>>(), [spi(1), spi(3)]);
    let (_, left) = table.find(&spi(2)).unwrap();
    assert_eq!((left.unit, table.units()[0].taken), (0, 156_000_000));
    // An uplink of another name carries nothing of it.
    let units = vec![Capacity::new("two", 400_000_000)];
    assert_eq!(table.set_capacities(units, vec![Capacity::new("eth1", 12_500_000)], |_| true).len(), 1);
    assert_eq!((table.count(), table.units()[0].taken, table.poll_timeout()), (0, 0, None));
}

#[test]
fn headers_in_front_of_small_packets_count_on_the_uplink() {
    // 80 kbit/s in packets of 100 octets are 100 packets a second, each with 59 octets in front.
    let asked = Reservation { least: 100, overhead: 59, ..call(spi(1), 80_000) };
    assert_eq!((asked.octets(), asked.unit_ns()), (15_900, 1_560_000));
}

fn inner(ports: (u16, u16), dscp: u8) -> InnerName {
    InnerName { destination: "192.0.2.9".parse().unwrap(), protocol: 17, ports, dscp }
}

fn by_ports(source: u16, destination: u16, dscp: Option<u8>) -> Flow {
    let scope = Scope::Ports { source, destination, dscp };
    Flow { destination: "192.0.2.9".parse().unwrap(), protocol: 17, scope }
}

fn terms(class: u8) -> FlowTerms {
    FlowTerms { class: AggregateId(class), rate: 8_000, burst: 1_000, least: 100 }
}

fn packets(packets: u64, octets: u64) -> Amount {
    Amount { packets, octets, ns: 0 }
}

#[test]
fn packets_within_the_rate_get_the_class_and_others_do_not() {
    let mut flows = ReservedFlows::new(KEY, 10);
    assert!(flows.put(&by_ports(0, 5004, None), terms(2)));
    let (now, name) = (Time::from_secs(9), inner((7, 5004), 46));
    let mut take = |now, amount| flows.find(Some(&name), None).unwrap().take(now, &amount);
    // 1,000 octets at once, of which a small packet takes 100.
    assert_eq!(take(now, packets(1, 800)), Some(AggregateId(2)));
    assert_eq!(take(now, packets(2, 20)), Some(AggregateId(2)));
    assert_eq!(take(now, packets(1, 1)), None);
    // 1,000 octets a second.
    assert_eq!(take(now + Duration::from_millis(100), packets(1, 1)), Some(AggregateId(2)));
    assert_eq!(take(now + Duration::from_millis(100), packets(3, 300)), None);
    assert_eq!(flows.counts(&by_ports(0, 5004, None)), Some(FlowCounts { within: 4, beyond: 4 }));
    // The same terms again leave the bucket as it is, others begin a new one. Counts go on.
    assert!(flows.put(&by_ports(0, 5004, None), terms(2)));
    assert_eq!(flows.find(Some(&name), None).unwrap().take(now, &packets(1, 1)), None);
    assert!(flows.put(&by_ports(0, 5004, None), terms(3)));
    assert_eq!(flows.find(Some(&name), None).unwrap().take(now, &packets(1, 1)), Some(AggregateId(3)));
    assert_eq!(flows.counts(&by_ports(0, 5004, None)), Some(FlowCounts { within: 5, beyond: 5 }));
    assert!(flows.remove(&by_ports(0, 5004, None)) && !flows.remove(&by_ports(0, 5004, None)));
    assert!(flows.is_empty() && flows.find(Some(&name), None).is_none());
}

#[test]
fn of_several_flows_the_one_with_the_fewest_wildcards_takes_a_packet() {
    let mut flows = ReservedFlows::new(KEY, 10);
    let rows = [
        (by_ports(0, 0, None), 1),
        (by_ports(0, 5004, None), 2),
        (by_ports(0, 0, Some(46)), 3),
        (by_ports(7, 5004, None), 4),
        (by_ports(7, 5004, Some(46)), 5),
    ];
    rows.iter().for_each(|(flow, class)| assert!(flows.put(flow, terms(*class))));
    let mut class = |name: InnerName| flows.find(Some(&name), None).map(|flow| flow.class().0);
    assert_eq!(class(inner((7, 5004), 46)), Some(5));
    assert_eq!(class(inner((7, 5004), 0)), Some(4));
    assert_eq!(class(inner((8, 5004), 0)), Some(2));
    assert_eq!(class(inner((8, 80), 46)), Some(3));
    assert_eq!(class(inner((8, 80), 0)), Some(1));
    assert_eq!(class(InnerName { protocol: 6, ..inner((7, 5004), 46) }), None);
    // Without a name by ports it is the SPI, whatever the virtual port is.
    assert!(flows.put(&spi(7), terms(6)));
    let outer = OuterName { destination: "192.0.2.1".parse().unwrap(), protocol: 50, spi: 7 };
    assert_eq!(flows.find(None, Some(&outer)).map(|flow| flow.class().0), Some(6));
    assert_eq!(flows.find(Some(&inner((7, 5004), 46)), Some(&outer)).map(|flow| flow.class().0), Some(5));
    let unknown = InnerName { protocol: 6, ..inner((7, 5004), 46) };
    assert_eq!(flows.find(Some(&unknown), Some(&outer)).map(|flow| flow.class().0), Some(6));
    assert!(flows.find(None, Some(&OuterName { spi: 8, ..outer })).is_none());
}

#[test]
fn no_more_flows_are_known_than_there_is_room_for_and_no_later_one_takes_memory() {
    let mut flows = ReservedFlows::new(KEY, 3);
    (1..=3).for_each(|n| assert!(flows.put(&spi(n), terms(2))));
    assert!(!flows.put(&spi(4), terms(2)) && flows.put(&spi(3), terms(5)));
    assert!(flows.remove(&spi(1)) && flows.put(&spi(4), terms(2)) && flows.len() == 3);
}

#[test]
fn the_first_datagrams_of_a_run_are_within_the_rate() {
    let mut flows = ReservedFlows::new(KEY, 3);
    flows.put(&spi(1), terms(2));
    let outer = OuterName { destination: "192.0.2.1".parse().unwrap(), protocol: 50, spi: 1 };
    let flow = flows.find(None, Some(&outer)).unwrap();
    let within = |flow: &ReservedFlow, lengths: &[u64]| flow.within(Time(0), lengths.iter().copied());
    assert_eq!(within(flow, &[400, 400, 400, 100]), 2);
    assert_eq!((within(flow, &[]), within(flow, &[1_001])), (0, 0));
    // Nothing was taken by asking, and each counts as 100 at least.
    assert_eq!(within(flow, &[1; 20]), 10);
    assert!(flow.take(Time(0), &packets(10, 10)).is_some());
    assert_eq!(within(flow, &[1]), 0);
}

#[test]
fn hashes_of_flows_depend_on_the_key() {
    let (one, two) = (FlowHash::new([1; 16]), FlowHash::new([2; 16]));
    assert_ne!(one.of(&spi(1)), two.of(&spi(1)));
    assert_eq!(format!("{one:?}"), "FlowHash(..)");
}

#[derive(Clone, Debug)]
enum Step {
    Admit(u32, u64, u64),
    Release(usize),
    Refresh(usize),
    Expire(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let admit =
        (0..12_u32, 1..40_000_000_u64, 0..200_000_u64).prop_map(|(n, rate, ps)| Step::Admit(n, rate, ps));
    let release = (0..40_usize).prop_map(Step::Release);
    let refresh = (0..40_usize).prop_map(Step::Refresh);
    let expire = (0..20_000_000_000_u64).prop_map(Step::Expire);
    prop::collection::vec(prop_oneof![4 => admit, 1 => release, 1 => refresh, 1 => expire], 1..80)
}

proptest! {
    /// What is taken is the sum of what is held, whatever happens, and never beyond the whole.
    #[test]
    fn what_is_taken_is_what_is_held(steps in steps()) {
        let mut table = table(8);
        let mut now = Time(0);
        let mut ids = Vec::new();
        for step in steps {
            match step {
                Step::Admit(n, rate, ps) => {
                    let asked = Reservation { ps_per_octet: ps, ..call(spi(n), rate) };
                    ids.extend(table.admit(asked, now).ok());
                }
                Step::Release(n) => { ids.get(n).map(|id| table.release(*id)); }
                Step::Refresh(n) => { ids.get(n).map(|id| table.refresh(*id, now)); }
                Step::Expire(ns) => {
                    now = now + Duration::from_nanos(ns);
                    for (id, _) in table.expire(now) {
                        prop_assert!(table.get(id).is_none());
                    }
                    prop_assert!(table.iter().all(|(_, _, ends)| ends > now));
                }
            }
            let ns: u64 = table.iter().map(|(_, r, _)| r.unit_ns()).sum();
            let octets: u64 = table.iter().map(|(_, r, _)| r.octets()).sum();
            prop_assert_eq!(table.units()[0].taken, ns);
            prop_assert_eq!(table.uplinks()[0].taken, octets);
            prop_assert!(ns <= table.units()[0].whole && octets <= table.uplinks()[0].whole);
            prop_assert!(table.count() <= 8);
            prop_assert_eq!(table.poll_timeout(), table.iter().map(|(_, _, ends)| ends).min());
            for (id, r, _) in table.iter() {
                prop_assert_eq!(table.find(&r.flow).map(|(found, _)| found), Some(id));
            }
        }
    }
}
