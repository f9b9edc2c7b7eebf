//! The key classes of inbound associations (RFC 4301 section 4.1) against a linear model: the longest match wins.

use crate::common;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use common::{config, inbound, registry};
use proptest::prelude::*;
use sadb::sa::{KeyClass, SaProtocol};
use sadb::{Direction, InboundSa, InboundSad, MAX_SCOPED, Mode, SaName, SadError, Spi};

fn address(n: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, n).into()
}

fn sa(spi: u32, class: KeyClass, local: IpAddr, remote: IpAddr) -> InboundSa {
    let mut config = config(Direction::Inbound, spi);
    config.options.class = class;
    (config.endpoints.local, config.endpoints.remote) = (local, remote);
    InboundSa::new(config, &registry()).unwrap()
}

fn class() -> impl Strategy<Value = KeyClass> {
    prop_oneof![Just(KeyClass::Spi), Just(KeyClass::SpiDestination), Just(KeyClass::SpiDestinationSource)]
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u32, KeyClass, u8, u8),
    Remove(usize),
    Find(u32, u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    // Few names, so that they meet.
    let spi = 0x1000u32..0x1004;
    prop_oneof![
        (spi.clone(), class(), 1u8..4, 4u8..7).prop_map(|(s, c, l, r)| Step::Insert(s, c, l, r)),
        any::<usize>().prop_map(Step::Remove),
        (spi, 1u8..4, 4u8..7).prop_map(|(s, l, r)| Step::Find(s, l, r)),
    ]
}

/// The reference answer: it keeps every association in a list and looks for a match class by class.
fn linear(model: &[SaName], spi: u32, local: IpAddr, remote: IpAddr) -> Option<SaName> {
    let spi = Spi(spi);
    let longest_first = [
        SaName { spi, destination: Some(local), source: Some(remote) },
        SaName { spi, destination: Some(local), source: None },
        spi.into(),
    ];
    longest_first.into_iter().find(|name| model.contains(name))
}

proptest! {
    #[test]
    fn the_longest_match_is_found(steps in prop::collection::vec(step(), 1..200)) {
        let mut sad = InboundSad::new();
        let mut model: Vec<SaName> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(spi, class, local, remote) => {
                    let sa = sa(spi, class, address(local), address(remote));
                    let name = sa.name();
                    let expected = if model.contains(&name) { Err(SadError::DuplicateSpi(Spi(spi))) } else { Ok(()) };
                    prop_assert_eq!(sad.insert(sa), expected.clone());
                    if expected.is_ok() {
                        model.push(name);
                    }
                }
                Step::Remove(at) if !model.is_empty() => {
                    let spi = model[at % model.len()].spi;
                    let of_spi: BTreeSet<_> = sad.of_spi(spi).map(InboundSa::name).collect();
                    prop_assert_eq!(of_spi, model.iter().copied().filter(|name| name.spi == spi).collect());
                    let name = model.swap_remove(at % model.len());
                    prop_assert_eq!(sad.remove(name).unwrap().name(), name);
                    prop_assert!(matches!(sad.remove(name), Err(SadError::UnknownSpi(_))));
                }
                Step::Remove(_) => {}
                Step::Find(spi, local, remote) => {
                    let (local, remote) = (address(local), address(remote));
                    let found = sad.find(Spi(spi), remote, local).map(InboundSa::name);
                    prop_assert_eq!(found, linear(&model, spi, local, remote));
                    prop_assert_eq!(sad.find_mut(Spi(spi), remote, local).map(|sa| sa.name()), found);
                }
            }
            let mut listed: Vec<_> = sad.list().map(InboundSa::name).collect();
            let mut contexts: Vec<_> = sad.list().map(InboundSa::context).collect();
            listed.sort();
            model.sort();
            prop_assert_eq!(&listed, &model);
            prop_assert_eq!(sad.len(), model.len());
            // No two associations share what keeps their fragments apart.
            contexts.sort_unstable();
            contexts.dedup();
            prop_assert_eq!(contexts.len(), model.len());
        }
    }
}

#[test]
fn a_group_takes_packets_of_any_sender_and_a_pair_only_of_its_own() {
    let group: IpAddr = Ipv4Addr::new(239, 1, 2, 3).into();
    let mut sad = InboundSad::new();
    sad.insert(sa(0x1000, KeyClass::SpiDestination, group, address(1))).unwrap();
    sad.insert(sa(0x1000, KeyClass::SpiDestinationSource, group, address(2))).unwrap();
    let found = |source| sad.find(Spi(0x1000), source, group).map(|sa| sa.is_peer(source, group, None));
    assert_eq!((found(address(1)), found(address(9))), (Some(true), Some(true)));
    assert_eq!(sad.find(Spi(0x1000), address(2), group).unwrap().name().source, Some(address(2)));
    assert!(sad.find(Spi(0x1000), address(2), address(3)).is_none());
}

#[test]
fn the_table_is_bounded_and_its_spis_are_not_chosen_for_others() {
    let mut sad = InboundSad::new();
    let promised = sad.allocate_spi(0x1234_5678).unwrap();
    sad.insert(sa(promised.0, KeyClass::SpiDestination, address(1), address(2))).unwrap();
    // Its slot is free again, its SPI is not.
    sad.insert(inbound(promised.0)).unwrap();
    sad.remove(promised).unwrap();
    for n in 1..MAX_SCOPED as u32 {
        sad.insert(sa(0x2000 + n, KeyClass::SpiDestinationSource, address(1), address(2))).unwrap();
    }
    let one_more = sa(0x9000, KeyClass::SpiDestination, address(1), address(2));
    assert_eq!(sad.insert(one_more), Err(SadError::TooMany(MAX_SCOPED)));
    for random in 0..u32::from(u16::MAX) {
        let spi = sad.allocate_spi(random << 12).unwrap();
        assert_ne!(spi, promised);
        sad.release_spi(spi);
    }
}

#[test]
fn members_without_a_key_have_no_class() {
    let mut config = config(Direction::Inbound, 0x1000);
    config.options.class = KeyClass::SpiDestination;
    config.options.protocol = SaProtocol::IpIp;
    config.options.encapsulation = sadb::sa::Encapsulation::None;
    config.mode = Mode::Tunnel;
    config.keymat = crypto::Secret::new(Vec::new());
    assert_eq!(config.check(), Err(SadError::ClassWithoutKey(SaProtocol::IpIp)));
}
