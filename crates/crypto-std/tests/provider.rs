//! The provider as the house uses it, and providers that the house must refuse.

use crypto::{Aead, CryptoError, OpenOp, Provider, Registry, SealOp, Secret, SuiteId, known_answer};
use crypto_std::Ring;
use proptest::prelude::*;

#[test]
fn the_registry_offers_every_suite() {
    assert_eq!(Ring::self_test(), Ok(()));
    let registry = crypto_std::registry().unwrap();
    for suite in SuiteId::ALL {
        assert_eq!(registry.provider(suite).unwrap().name(), "ring");
        let want = suite.suite().key_len;
        assert!(registry.aead(suite, &Secret::new(vec![1; want])).is_ok());
        for got in [0, 1, want - 1, want + 1, suite.keymat_len(), 64] {
            let refused = registry.aead(suite, &Secret::new(vec![1; got])).err();
            assert_eq!(refused, Some(CryptoError::KeyLength { suite, want, got }));
        }
    }
}

/// `ring` with one thing wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    Ciphertext,
    Tag,
    AcceptsAll,
    RefusesAll,
    IgnoresAad,
    BatchSealsOnlyFirst,
    BatchOpensAlike,
    AnyKeyLength,
}

struct Broken(Fault);
struct BrokenKey(Box<dyn Aead>, Fault);

impl Provider for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn suites(&self) -> &[SuiteId] {
        &SuiteId::ALL
    }
    fn aead(&self, suite: SuiteId, key: &Secret) -> Result<Box<dyn Aead>, CryptoError> {
        let padded = match self.0 {
            Fault::AnyKeyLength => {
                let mut octets = key.expose().to_vec();
                octets.resize(suite.suite().key_len, 0);
                Secret::new(octets)
            }
            _ => key.clone(),
        };
        Ok(Box::new(BrokenKey(Ring.aead(suite, &padded)?, self.0)))
    }
}

impl Aead for BrokenKey {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) {
        let many = ops.len() > 1;
        for (index, op) in ops.iter_mut().enumerate() {
            if many && index > 0 && self.1 == Fault::BatchSealsOnlyFirst {
                continue;
            }
            let aad = if self.1 == Fault::IgnoresAad { &[] } else { op.aad };
            self.0.seal(SealOp { nonce: op.nonce, aad, data: op.data, tag: op.tag });
            match self.1 {
                Fault::Ciphertext => op.data[op.data.len() - 1] ^= 1,
                Fault::Tag => op.tag[3] ^= 1,
                _ => {}
            }
        }
    }
    fn open_batch(&self, ops: &mut [OpenOp<'_>]) {
        for op in ops.iter_mut() {
            let aad = if self.1 == Fault::IgnoresAad { &[] } else { op.aad };
            let right = self.0.open(OpenOp { nonce: op.nonce, aad, data: op.data, tag: op.tag, ok: false });
            op.ok = right && self.1 != Fault::RefusesAll || self.1 == Fault::AcceptsAll;
        }
        if self.1 == Fault::BatchOpensAlike {
            let any = ops.iter().any(|op| op.ok);
            ops.iter_mut().for_each(|op| op.ok = any);
        }
    }
}

#[test]
fn a_provider_with_any_one_fault_is_refused() {
    assert_eq!(known_answer::check(&Broken(Fault::None)), Ok(()));
    for fault in [
        Fault::Ciphertext,
        Fault::Tag,
        Fault::AcceptsAll,
        Fault::RefusesAll,
        Fault::IgnoresAad,
        Fault::BatchSealsOnlyFirst,
        Fault::BatchOpensAlike,
        Fault::AnyKeyLength,
    ] {
        let refused = Registry::new().with_tested(Broken(fault)).err();
        let want = CryptoError::SelfTest { provider: "broken", suite: SuiteId::Aes128Gcm };
        assert_eq!(refused, Some(want), "{fault:?}");
    }
}

proptest! {
    #[test]
    fn what_is_sealed_opens_alone_and_in_batches(
        suite in prop::sample::select(SuiteId::ALL.to_vec()),
        key in any::<[u8; 32]>(),
        aad in prop::collection::vec(any::<u8>(), 0..24),
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
    ) {
        let aead = Ring.aead(suite, &Secret::new(key[..suite.suite().key_len].to_vec())).unwrap();
        let nonce = |index: usize| [index as u8; 12];
        let mut sealed = packets.clone();
        let mut tags = vec![[0; 16]; packets.len()];
        let mut ops: Vec<_> = sealed
            .iter_mut()
            .zip(&mut tags)
            .enumerate()
            .map(|(index, (data, tag))| SealOp { nonce: nonce(index), aad: &aad, data, tag })
            .collect();
        aead.seal_batch(&mut ops);
        for (index, plain) in packets.iter().enumerate() {
            // One by one gives what the batch gave.
            let (mut data, mut tag) = (plain.clone(), [0; 16]);
            aead.seal(SealOp { nonce: nonce(index), aad: &aad, data: &mut data, tag: &mut tag });
            prop_assert_eq!((&data, &tag), (&sealed[index], &tags[index]));
            // The wrong nonce does not open it.
            let wrong = OpenOp { nonce: [0xee; 12], aad: &aad, data: &mut data, tag, ok: true };
            prop_assert!(!aead.open(wrong));
        }
        let mut ops: Vec<_> = sealed
            .iter_mut()
            .zip(&tags)
            .enumerate()
            .map(|(index, (data, tag))| OpenOp { nonce: nonce(index), aad: &aad, data, tag: *tag, ok: false })
            .collect();
        aead.open_batch(&mut ops);
        prop_assert!(ops.iter().all(|op| op.ok));
        drop(ops);
        prop_assert_eq!(sealed, packets);
    }
}
