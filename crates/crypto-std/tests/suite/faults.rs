//! Units with one thing wrong: the load-time test must refuse each.

use crate::packet;

use crypto::{
    Authenticator, Cipher, CryptoError, Integrity, OpenOp, Provider, Registry, SealOp, Secret, SuiteId,
    Transform, UnitFailed, known_answer,
};
use crypto_std::RustCrypto;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    Ciphertext,
    Tag,
    IvConstant,
    AcceptsAll,
    AcceptsTruncatedTag,
    RefusesAll,
    IgnoresUpperHalf,
    IgnoresHeader,
    AlwaysExtended,
    LongPackets,
    BatchSealsOnlyFirst,
    BatchSealsNinthWrong,
    BatchOpensAlike,
    BatchOpensNothingDecrypted,
    SealFails,
    BatchSealFails,
    OpenFails,
    BatchOpenFails,
    /// A forged packet takes its batch with it.
    ForgeryFails,
    AnyKeyLength,
    WrongKeyError,
}

const FAULTS: [Fault; 21] = [
    Fault::Ciphertext,
    Fault::Tag,
    Fault::IvConstant,
    Fault::AcceptsAll,
    Fault::AcceptsTruncatedTag,
    Fault::RefusesAll,
    Fault::IgnoresUpperHalf,
    Fault::IgnoresHeader,
    Fault::AlwaysExtended,
    Fault::LongPackets,
    Fault::BatchSealsOnlyFirst,
    Fault::BatchSealsNinthWrong,
    Fault::BatchOpensAlike,
    Fault::BatchOpensNothingDecrypted,
    Fault::SealFails,
    Fault::BatchSealFails,
    Fault::OpenFails,
    Fault::BatchOpenFails,
    Fault::ForgeryFails,
    Fault::AnyKeyLength,
    Fault::WrongKeyError,
];

/// RustCrypto for one suite, with a fault.
struct BrokenProvider(SuiteId, Fault);

struct BrokenKey {
    key: Box<dyn Transform>,
    suite: SuiteId,
    fault: Fault,
}

fn fit(keymat: &Secret, len: usize) -> Secret {
    let mut octets = keymat.expose().to_vec();
    octets.resize(len, 0);
    Secret::new(octets)
}

impl Provider for BrokenProvider {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn offers(&self, suite: SuiteId) -> bool {
        suite == self.0
    }
    fn transform(
        &self,
        suite: SuiteId,
        keymat: &Secret,
        extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError> {
        let want = suite.keymat_len();
        let made = match self.1 {
            Fault::AnyKeyLength => RustCrypto.transform(suite, &fit(keymat, want), extended),
            Fault::AlwaysExtended => RustCrypto.transform(suite, keymat, true),
            Fault::IgnoresUpperHalf => RustCrypto.transform(suite, keymat, false),
            Fault::WrongKeyError if keymat.len() != want => Err(CryptoError::NoProvider(suite)),
            _ => RustCrypto.transform(suite, keymat, extended),
        };
        Ok(Box::new(BrokenKey { key: made?, suite, fault: self.1 }))
    }
}

impl Transform for BrokenKey {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        for (index, op) in ops.iter_mut().enumerate() {
            if index > 0 && self.fault == Fault::BatchSealsOnlyFirst {
                continue;
            }
            let sequence = if self.fault == Fault::IvConstant { 0x5_0000_0007 } else { op.sequence };
            let header = if self.fault == Fault::IgnoresHeader { &[0; 8] } else { op.header };
            self.key.seal(SealOp { sequence, header, iv: op.iv, data: op.data, icv: op.icv })?;
            let last = op.data.len() - 1;
            match self.fault {
                Fault::Ciphertext => op.data[last] ^= 1,
                Fault::LongPackets if last > 1000 => op.data[1023] ^= 1,
                Fault::BatchSealsNinthWrong if index == 8 => op.data[0] ^= 1,
                Fault::Tag => op.icv[3] ^= 1,
                _ => {}
            }
        }
        match self.fault {
            Fault::SealFails => Err(UnitFailed),
            Fault::BatchSealFails if ops.len() > 1 => Err(UnitFailed),
            _ => Ok(()),
        }
    }
    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops.iter_mut() {
            let header = if self.fault == Fault::IgnoresHeader { &[0; 8] } else { op.header };
            let sequence = op.sequence;
            let mut icv = op.icv.to_vec();
            if self.fault == Fault::AcceptsTruncatedTag && icv.len() < self.suite.icv_len() {
                // Compares as many octets as there are.
                let mut probe = op.data.to_vec();
                icv.resize(self.suite.icv_len(), 0);
                let len = op.icv.len();
                icv = self.right_icv(op, &mut probe, &icv, len);
            }
            let before = op.data.to_vec();
            let asked = OpenOp { sequence, header, iv: op.iv, data: op.data, icv: &icv, ok: false };
            let right = self.key.open(asked)?;
            if self.fault == Fault::BatchOpensNothingDecrypted {
                op.data.copy_from_slice(&before);
            }
            op.ok = right && self.fault != Fault::RefusesAll || self.fault == Fault::AcceptsAll;
        }
        if self.fault == Fault::BatchOpensAlike {
            let any = ops.iter().any(|op| op.ok);
            ops.iter_mut().for_each(|op| op.ok = any);
        }
        match self.fault {
            Fault::OpenFails => Err(UnitFailed),
            Fault::BatchOpenFails if ops.len() > 1 => Err(UnitFailed),
            Fault::ForgeryFails if ops.iter().any(|op| !op.ok) => Err(UnitFailed),
            _ => Ok(()),
        }
    }
}

impl BrokenKey {
    /// The whole ICV if the first `len` octets of `icv` are right: the decrypted data sealed again.
    fn right_icv(&self, op: &OpenOp<'_>, data: &mut [u8], icv: &[u8], len: usize) -> Vec<u8> {
        // The known answer has these octets as data.
        for (i, octet) in data.iter_mut().enumerate() {
            *octet = (i % 251) as u8;
        }
        let (mut iv, mut whole) = (vec![0; self.suite.iv_len()], vec![0; self.suite.icv_len()]);
        let seal = SealOp { sequence: op.sequence, header: op.header, iv: &mut iv, data, icv: &mut whole };
        self.key.seal(seal).unwrap();
        if whole[..len] == icv[..len] { whole } else { icv.to_vec() }
    }
}

/// One suite of each kind of code.
fn kinds() -> Vec<SuiteId> {
    ["aes128gcm", "aes256gcm8", "aes192ccm", "chacha20poly1305", "null-aes128gmac", "aes128cbc-sha256"]
        .into_iter()
        .chain(["aes256ctr-sha1", "null-aescmac", "aes256cbc-aesxcbc", "aes128ctr-sha512", "des-md5"])
        .map(|name| name.parse().unwrap())
        .collect()
}

#[test]
fn a_unit_with_any_one_fault_is_refused() {
    for suite in kinds() {
        assert_eq!(known_answer::check(&BrokenProvider(suite, Fault::None)), Ok(()), "{suite}");
        for fault in FAULTS {
            let invisible = match fault {
                // There is no IV, or nothing is decrypted.
                Fault::IvConstant => suite.iv_len() == 0,
                Fault::BatchOpensNothingDecrypted => !suite.encrypts(),
                _ => false,
            };
            if invisible {
                continue;
            }
            let refused = known_answer::check(&BrokenProvider(suite, fault)).err();
            assert_eq!(refused, Some(CryptoError::SelfTest { provider: "broken", suite }), "{fault:?}");
        }
    }
}

#[test]
fn the_registry_takes_no_faulty_unit() {
    let suite = SuiteId::AES_128_GCM;
    let refused = Registry::new().with_tested(BrokenProvider(suite, Fault::Tag)).err();
    assert_eq!(refused, Some(CryptoError::SelfTest { provider: "broken", suite }));
    // What is legacy is tested when it is allowed.
    let legacy = SuiteId::new(Cipher::DesCbc, Integrity::HmacMd5).unwrap();
    let mut registry = Registry::new().with_tested(BrokenProvider(legacy, Fault::Tag)).unwrap();
    let refused = Err(CryptoError::SelfTest { provider: "broken", suite: legacy });
    assert_eq!(registry.allow_legacy(true), refused);
    let key = packet::keymat(legacy.keymat_len(), 0);
    assert_eq!(registry.transform(legacy, &key, true).err(), Some(CryptoError::Legacy { suite: legacy }));
}

#[test]
fn a_faulty_unit_that_can_be_done_without_is_left_out() {
    let suite = SuiteId::AES_128_GCM;
    let refused = CryptoError::SelfTest { provider: "broken", suite };
    let mut registry = crypto_std::registry().unwrap().with_optional(BrokenProvider(suite, Fault::Tag));
    assert_eq!(registry.left_out().collect::<Vec<_>>(), [&refused]);
    assert_eq!(registry.prefer(None, "broken"), Err(refused));
    let (key, now) = (packet::keymat(suite.keymat_len(), 0), &mut 0);
    registry.choose(&mut || {
        *now += 1;
        *now
    });
    assert!(registry.units().all(|unit| unit.provider != "broken"));
    registry.transform(suite, &key, true).unwrap();
    // One that knows its answers serves, and what was left out before says nothing about the next.
    let registry = registry.with_optional(BrokenProvider(suite, Fault::None));
    assert_eq!(registry.left_out().count(), 1);
    let registry = Registry::new()
        .with_optional(BrokenProvider(suite, Fault::Tag))
        .with_tested(BrokenProvider(suite, Fault::None));
    assert_eq!(registry.unwrap().units().map(|unit| unit.provider).collect::<Vec<_>>(), ["broken"]);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum AhFault {
    None,
    Icv,
    IvOfZeros,
    AcceptsAll,
    AcceptsTruncated,
    RefusesAll,
    OnlyFirstPart,
    SkipsEnd,
    AnyKeyLength,
}

struct BrokenAh(Integrity, AhFault);
struct BrokenAhKey(Box<dyn Authenticator>, AhFault);

impl Provider for BrokenAh {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn offers(&self, _: SuiteId) -> bool {
        false
    }
    fn transform(&self, suite: SuiteId, _: &Secret, _: bool) -> Result<Box<dyn Transform>, CryptoError> {
        Err(CryptoError::NoProvider(suite))
    }
    fn authenticator(
        &self,
        integrity: Integrity,
        keymat: &Secret,
    ) -> Result<Box<dyn Authenticator>, CryptoError> {
        if integrity != self.0 {
            return Err(CryptoError::NoAuthenticator(integrity));
        }
        let any = fit(keymat, integrity.keymat_len());
        let keymat = if self.1 == AhFault::AnyKeyLength { &any } else { keymat };
        Ok(Box::new(BrokenAhKey(RustCrypto.authenticator(integrity, keymat)?, self.1)))
    }
}

impl BrokenAhKey {
    fn seen<'a>(&self, parts: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let mut parts = parts.to_vec();
        match self.1 {
            AhFault::OnlyFirstPart => parts.truncate(1),
            AhFault::SkipsEnd => {
                if let Some(last) = parts.last_mut() {
                    *last = &last[..last.len() - 1];
                }
            }
            _ => {}
        }
        parts
    }
}

impl Authenticator for BrokenAhKey {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn sign(&self, sequence: u64, parts: &[&[u8]], out: &mut [u8]) {
        let sequence = if self.1 == AhFault::IvOfZeros { 0 } else { sequence };
        self.0.sign(sequence, &self.seen(parts), out);
        if self.1 == AhFault::Icv {
            out[10] ^= 1;
        }
    }
    fn verify(&self, parts: &[&[u8]], icv: &[u8]) -> bool {
        match self.1 {
            AhFault::AcceptsAll => true,
            AhFault::RefusesAll => false,
            AhFault::AcceptsTruncated if icv.len() < self.len() => {
                let mut right = vec![0; self.len()];
                self.0.sign(0x5_0000_0007, parts, &mut right);
                right.starts_with(icv)
            }
            _ => self.0.verify(&self.seen(parts), icv),
        }
    }
}

#[test]
fn an_authenticator_with_any_one_fault_is_refused() {
    for integrity in Integrity::ALL[1..].iter().copied() {
        assert_eq!(known_answer::check(&BrokenAh(integrity, AhFault::None)), Ok(()));
        for fault in [
            AhFault::Icv,
            AhFault::IvOfZeros,
            AhFault::AcceptsAll,
            AhFault::AcceptsTruncated,
            AhFault::RefusesAll,
            AhFault::OnlyFirstPart,
            AhFault::SkipsEnd,
            AhFault::AnyKeyLength,
        ] {
            if fault == AhFault::IvOfZeros && integrity.iv_len() == 0 {
                continue;
            }
            let refused = known_answer::check(&BrokenAh(integrity, fault)).err();
            let want = CryptoError::AuthenticatorSelfTest { provider: "broken", integrity };
            assert_eq!(refused, Some(want), "{} {fault:?}", integrity.name());
        }
    }
}
