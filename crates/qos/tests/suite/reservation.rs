//! Reservations: admitted, refused with figures, refreshed, gone.

use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;
use qos::AggregateId;
use qos::reservation::{Capacity, Flow, FlowHash, LONGEST, Refused, Reservation, Reservations, Scope};
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
    let ports = |destination| flow(Scope::Ports { source: 0, destination, dscp: 46 });
    let mut table = table(10);
    table.admit(call(ports(5060), 8), Time(0)).unwrap();
    assert!(table.find(&ports(5061)).is_none());
    assert!(table.find(&Flow { protocol: 6, ..ports(5060) }).is_none());
    assert!(table.find(&flow(Scope::Ports { source: 0, destination: 5060, dscp: 0 })).is_none());
    assert!(table.find(&flow(Scope::Spi { spi: 5060, virtual_port: 46 })).is_none());
    // RFC 2207 section 4: a virtual port of zero names no session of IPsec.
    let zero = flow(Scope::Spi { spi: 1, virtual_port: 0 });
    assert_eq!(table.admit(call(zero, 8), Time(0)), Err(Refused::NoVirtualPort));
    // Sessions of one SPI by two virtual ports are two flows.
    let by_port = |virtual_port| flow(Scope::Spi { spi: 1, virtual_port });
    table.admit(call(by_port(1), 8), Time(0)).unwrap();
    table.admit(call(by_port(2), 8), Time(0)).unwrap();
    assert_eq!(table.count(), 3);
}

#[test]
fn malformed_reservations_are_refused_by_field() {
    let good = call(spi(1), 8);
    let rows = [
        ("rate", Reservation { rate: 0, ..good.clone() }),
        ("burst", Reservation { burst: 0, ..good.clone() }),
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
    let ended = table.set_capacities(units, vec![Capacity::new("eth0", 12_500_000)]);
    assert_eq!(ended.iter().map(|(_, r)| r.flow).collect::<Vec<_>>(), [spi(2)]);
    assert_eq!((table.count(), table.units()[0].taken), (2, 312_000_000));
    assert_eq!(table.poll_timeout(), Some(Time::from_secs(30)));
    assert_eq!(table.expire(Time::from_secs(30)).len(), 2);
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
