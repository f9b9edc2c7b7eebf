//! Known-answer tests: what a provider must compute before any key is given to it.
//!
//! One packet a suite and form of sequence number, laid out as ESP does: keying material 0, 1, 2 and so on, SPI 0x01020304, sequence
//! number 0x500000007, 64 octets of data 0 to 63. The answer is the ICV alone: it covers IV and ciphertext, so no other
//! ciphertext has it. The ICVs were computed by another implementation (OpenSSL, through tests/oracle.py), not by a
//! provider of this house; published vectors of each algorithm are among the tests of the providers.

use crate::{
    CryptoError, HEADER_LEN, MAX_ICV_LEN, MAX_IV_LEN, OpenOp, Provider, SealOp, Secret, SuiteId, Transform,
};

mod answers;

pub use answers::ANSWERS;

/// The ICVs of one suite, in hexadecimal.
pub struct Answer {
    /// Its name.
    pub suite: &'static str,
    /// With sequence numbers of 32 bits.
    pub short: &'static str,
    /// With extended sequence numbers.
    pub extended: &'static str,
}

/// SPI and lower half of the sequence number.
const HEADER: [u8; HEADER_LEN] = [1, 2, 3, 4, 0, 0, 0, 7];
const SEQUENCE: u64 = 0x5_0000_0007;
const DATA: usize = 64;

/// Put a provider through the known answers of every suite that it offers: sealing gives the ICV, opening gives the
/// data back, a changed octet anywhere is refused, in a batch as well as alone, and keying material of the wrong length is
/// refused.
///
/// # Errors
/// [`CryptoError::SelfTest`] for the first suite that fails, or that has no known answer.
pub fn check(provider: &dyn Provider) -> Result<(), CryptoError> {
    for suite in SuiteId::all().filter(|suite| provider.offers(*suite)) {
        if !passes(provider, suite) {
            return Err(CryptoError::SelfTest { provider: provider.name(), suite });
        }
    }
    Ok(())
}

fn passes(provider: &dyn Provider, suite: SuiteId) -> bool {
    let Some(answer) = ANSWERS.iter().find(|a| a.suite.parse() == Ok(suite)) else { return false };
    let keymat = |len: usize| Secret::new((0..len).map(|i| i as u8).collect());
    let short = provider.transform(suite, &keymat(suite.keymat_len() - 1), false);
    let refuses_short = matches!(short, Err(CryptoError::KeyLength { suite: named, .. }) if named == suite);
    refuses_short
        && [(false, answer.short), (true, answer.extended)].into_iter().all(|(extended, icv)| {
            let Some(icv) = unhex(icv) else { return false };
            match provider.transform(suite, &keymat(suite.keymat_len()), extended) {
                Ok(key) => {
                    icv.len() == suite.icv_len() && Probe::new(key.as_ref(), suite).passes(&icv, extended)
                }
                Err(_) => false,
            }
        })
}

/// One sealed packet.
#[derive(Clone, PartialEq)]
struct Sealed {
    header: [u8; HEADER_LEN],
    iv: Vec<u8>,
    data: Vec<u8>,
    icv: Vec<u8>,
}

struct Probe<'a> {
    key: &'a dyn Transform,
    suite: SuiteId,
    plain: Vec<u8>,
}

impl<'a> Probe<'a> {
    fn new(key: &'a dyn Transform, suite: SuiteId) -> Probe<'a> {
        Probe { key, suite, plain: (0..DATA).map(|i| i as u8).collect() }
    }

    fn passes(&self, icv: &[u8], extended: bool) -> bool {
        let sealed = self.seal(SEQUENCE);
        sealed.icv == icv
            && self.opens(&sealed, SEQUENCE).as_ref() == Some(&self.plain)
            && self.refuses_changes(&sealed)
            // The upper half counts exactly where it should.
            && self.opens(&sealed, SEQUENCE ^ 1 << 32).is_some() != extended
            && self.batches(&sealed)
    }

    fn seal(&self, sequence: u64) -> Sealed {
        let mut out = Sealed {
            header: HEADER,
            iv: vec![0; self.suite.iv_len().min(MAX_IV_LEN)],
            data: self.plain.clone(),
            icv: vec![0; self.suite.icv_len().min(MAX_ICV_LEN)],
        };
        let Sealed { header, iv, data, icv } = &mut out;
        self.key.seal(SealOp { sequence, header, iv, data, icv });
        out
    }

    fn opens(&self, sealed: &Sealed, sequence: u64) -> Option<Vec<u8>> {
        let mut data = sealed.data.clone();
        let Sealed { header, iv, icv, .. } = sealed;
        self.key.open(OpenOp { sequence, header, iv, data: &mut data, icv, ok: false }).then_some(data)
    }

    fn refuses_changes(&self, sealed: &Sealed) -> bool {
        let parts: [fn(&mut Sealed) -> &mut [u8]; 4] =
            [|s| &mut s.header, |s| &mut s.iv, |s| &mut s.data, |s| &mut s.icv];
        parts.into_iter().all(|part| {
            let ends = |len: usize| [0, len.saturating_sub(1)];
            let len = part(&mut sealed.clone()).len();
            ends(len).into_iter().all(|at| {
                let mut changed = sealed.clone();
                let Some(octet) = part(&mut changed).get_mut(at) else { return true };
                *octet ^= 0x80;
                self.opens(&changed, SEQUENCE).is_none()
            })
        })
    }

    /// Two packets in one batch, of which only the second is genuine when they come back.
    fn batches(&self, genuine: &Sealed) -> bool {
        let (mut first, mut second) = (self.seal(SEQUENCE + 1), genuine.clone());
        let mut other = genuine.clone();
        other.data.copy_from_slice(&self.plain);
        {
            let Sealed { header, iv, data, icv } = &mut other;
            let mut spare = self.seal(SEQUENCE + 2);
            let mut ops = [
                SealOp {
                    sequence: SEQUENCE + 3,
                    header: &spare.header,
                    iv: &mut spare.iv,
                    data: &mut spare.data,
                    icv: &mut spare.icv,
                },
                SealOp { sequence: SEQUENCE, header, iv, data, icv },
            ];
            self.key.seal_batch(&mut ops);
        }
        if other != *genuine {
            return false;
        }
        if let Some(octet) = first.icv.first_mut() {
            *octet ^= 1;
        }
        let (one, two) = (&mut first, &mut second);
        // `ok` starts as the opposite of what it must become.
        let mut ops = [
            OpenOp {
                sequence: SEQUENCE + 1,
                header: &one.header,
                iv: &one.iv,
                data: &mut one.data,
                icv: &one.icv,
                ok: true,
            },
            OpenOp {
                sequence: SEQUENCE,
                header: &two.header,
                iv: &two.iv,
                data: &mut two.data,
                icv: &two.icv,
                ok: false,
            },
        ];
        self.key.open_batch(&mut ops);
        let [forged, opened] = ops.map(|op| op.ok);
        !forged && opened && second.data == self.plain
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    text.as_bytes().chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}
