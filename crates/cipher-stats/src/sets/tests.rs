use std::sync::Arc;

use crate::controls::{TableAes, reference};

use super::*;

fn subject() -> Subject {
    Subject::new(reference())
}

#[test]
fn density_has_every_value_once() {
    let low = density(2, false);
    let mut values: Vec<&[u8]> = low.chunks(2).collect();
    assert_eq!(values.len(), 1 + 16 + 120);
    assert!(values.iter().all(|value| value.iter().map(|octet| octet.count_ones()).sum::<u32>() <= 2));
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), 137);
    let high: Vec<u8> = low.iter().map(|octet| !octet).collect();
    assert_eq!(density(2, true), high);
}

#[test]
fn chained_outputs_are_cbc_of_zeros() {
    let (mut random, mut refused) = (Random::new(1), 0);
    let set = chained(&subject(), 64, &mut random.clone(), &mut refused).unwrap().unwrap();
    let (_, keyed) = subject().random_key(&mut random, &mut refused).unwrap();
    let mut out = Vec::new();
    keyed.outputs(set.get(..48).unwrap(), &mut out).unwrap();
    assert_eq!(out, set.get(16..).unwrap());
}

#[test]
fn key_stream_is_the_counter_mode_of_packets() {
    let (mut random, mut refused) = (Random::new(1), 0);
    let set = counter(&subject(), PIECE + 4096, &mut random.clone(), &mut refused).unwrap().unwrap();
    let (_, keyed) = subject().random_key(&mut random, &mut refused).unwrap();
    let mut salt = [0; 4];
    random.fill(&mut salt);
    // Block 3 of packet 65, which is the first of the second piece, has sequence number 65 and counter 4.
    let mut block = salt.to_vec();
    block.extend(65u64.to_be_bytes());
    block.extend(4u32.to_be_bytes());
    let mut out = Vec::new();
    keyed.outputs(&block, &mut out).unwrap();
    assert_eq!(set.get(PIECE + 48..PIECE + 64).unwrap(), out);
}

#[test]
fn three_rounds_of_aes_have_sums_of_zero_and_four_have_not() {
    let sums = |rounds| {
        let subject = Subject::new(Arc::new(TableAes::new(rounds)));
        integral_sums(&subject, 8, 1, &mut Random::new(1), &mut 0).unwrap()
    };
    assert_eq!(sums(3), [0; 256]);
    let zeros = sums(4).iter().filter(|octet| **octet == 0).count();
    assert!(zeros < 10, "{zeros}");
}

#[test]
fn sums_take_each_place() {
    let sums = |width| integral_sums(&subject(), width, 1, &mut Random::new(1), &mut 0).unwrap().len() / 16;
    assert_eq!((sums(4), sums(8), sums(16)), (32, 16, 15));
}

#[test]
fn difference_of_the_identity_is_zero() {
    let identity = crate::controls::controls().into_iter().find(|control| control.name.contains("identity"));
    let subject = Subject::new(identity.unwrap().cipher);
    let set = difference(&subject, 1600, &mut Random::new(1), &mut 0).unwrap().unwrap();
    assert_eq!(set, vec![0; 1600]);
}
