//! The test of one suite.

use super::answers::ANSWERS;
use super::input::{keymat, unhex};
use crate::{CryptoError, HEADER_LEN, MAX_ICV_LEN, MAX_IV_LEN, OpenOp, Provider, SealOp, SuiteId, Transform};

/// SPI and lower half of the sequence number.
const HEADER: [u8; HEADER_LEN] = [1, 2, 3, 4, 0, 0, 0, 7];
const SEQUENCE: u64 = 0x5_0000_0007;
const DATA: usize = 64;
/// Packets of the batch test: more than a unit is likely to take at once.
const BATCH: u64 = 11;

pub(super) fn passes(provider: &dyn Provider, suite: SuiteId) -> bool {
    let name = suite.to_string();
    let Some(answer) = ANSWERS.iter().find(|answer| answer.suite == name) else { return false };
    let refuses = |len: usize| {
        let refused = provider.transform(suite, &keymat(len), false).err();
        refused == Some(CryptoError::KeyLength { suite, want: suite.keymat_len(), got: len })
    };
    let forms = [(false, answer.short), (true, answer.extended)];
    refuses(suite.keymat_len() - 1)
        && refuses(suite.keymat_len() + 1)
        && forms.into_iter().all(|(extended, icv)| {
            let Ok(key) = provider.transform(suite, &keymat(suite.keymat_len()), extended) else {
                return false;
            };
            let probe = Probe { key: key.as_ref(), suite };
            probe.passes(icv, extended) && (!extended || probe.passes_long(answer.long))
        })
}

/// One packet that was sealed, in its parts.
#[derive(Clone, PartialEq)]
struct Sealed {
    sequence: u64,
    header: [u8; HEADER_LEN],
    iv: Vec<u8>,
    data: Vec<u8>,
    icv: Vec<u8>,
}

struct Probe<'a> {
    key: &'a dyn Transform,
    suite: SuiteId,
}

fn plain(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i % 251) as u8).collect()
}

impl Probe<'_> {
    fn passes(&self, icv: &str, extended: bool) -> bool {
        let sealed = self.seal(SEQUENCE, DATA);
        let elsewhere = Sealed { sequence: SEQUENCE ^ 1 << 32, ..sealed.clone() };
        unhex(icv).is_some_and(|icv| icv.len() == self.suite.icv_len() && icv == sealed.icv)
            && self.opens(&sealed) == Some(plain(DATA))
            // The upper half counts exactly where it should.
            && self.opens(&elsewhere).is_some() != extended
            && self.refuses_changes(&sealed)
            && self.refuses_other_lengths(&sealed)
            && self.batches()
    }

    /// The wide paths of an implementation.
    fn passes_long(&self, icv: &str) -> bool {
        let octets = if self.suite.block_len() == 1 { 1109 } else { 1104 };
        let sealed = self.seal(SEQUENCE, octets);
        unhex(icv).is_some_and(|icv| icv == sealed.icv) && self.opens(&sealed) == Some(plain(octets))
    }

    fn blank(&self, sequence: u64, octets: usize) -> Sealed {
        Sealed {
            sequence,
            header: HEADER,
            iv: vec![0; self.suite.iv_len().min(MAX_IV_LEN)],
            data: plain(octets),
            icv: vec![0; self.suite.icv_len().min(MAX_ICV_LEN)],
        }
    }

    fn seal(&self, sequence: u64, octets: usize) -> Sealed {
        let mut out = self.blank(sequence, octets);
        // Without its ICV the packet is no answer to anything.
        if self.key.seal(out.seal_op()).is_err() {
            out.icv.clear();
        }
        out
    }

    fn opens(&self, sealed: &Sealed) -> Option<Vec<u8>> {
        let mut opened = sealed.clone();
        (self.key.open(opened.open_op(false)) == Ok(true)).then_some(opened.data)
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
                self.opens(&changed).is_none()
            })
        })
    }

    /// An ICV or an IV that is cut short, or one octet too long.
    fn refuses_other_lengths(&self, sealed: &Sealed) -> bool {
        let changes: [fn(&mut Sealed); 5] = [
            |s| s.icv.truncate(s.icv.len().saturating_sub(1)),
            |s| s.icv.truncate(s.icv.len() / 2),
            |s| s.icv.clear(),
            |s| s.icv.push(0),
            |s| s.iv.push(0),
        ];
        changes.into_iter().all(|change| {
            let mut changed = sealed.clone();
            change(&mut changed);
            self.opens(&changed).is_none()
        })
    }

    /// Packets of different lengths in one batch come out as they do alone, and of them those alone open that are genuine.
    fn batches(&self) -> bool {
        let octets = |n: u64| 16 * (1 + (n * 5 % 4) as usize);
        let mut sealed: Vec<_> = (0..BATCH).map(|n| self.blank(SEQUENCE + n, octets(n))).collect();
        if self.key.seal_batch(&mut sealed.iter_mut().map(Sealed::seal_op).collect::<Vec<_>>()).is_err() {
            return false;
        }
        let alone = |n: u64| self.seal(SEQUENCE + n, octets(n));
        if (0..BATCH).zip(&sealed).any(|(n, packet)| alone(n) != *packet) {
            return false;
        }
        let counted = sealed.iter().map(|packet| &packet.iv).collect::<std::collections::HashSet<_>>();
        if self.suite.iv_len() > 0 && counted.len() != sealed.len() {
            return false;
        }
        // Every third is forged.
        let genuine = |n: u64| n % 3 != 1;
        for (n, packet) in (0..BATCH).zip(&mut sealed) {
            if let (false, Some(octet)) = (genuine(n), packet.icv.last_mut()) {
                *octet ^= 1;
            }
        }
        // `ok` starts as the opposite of what it must become.
        let mut ops: Vec<_> = (0..BATCH).zip(&mut sealed).map(|(n, p)| p.open_op(!genuine(n))).collect();
        let done = self.key.open_batch(&mut ops).is_ok();
        let right = done && (0..BATCH).zip(&ops).all(|(n, op)| op.ok == genuine(n));
        right && (0..BATCH).zip(&sealed).all(|(n, p)| !genuine(n) || p.data == plain(octets(n)))
    }
}

impl Sealed {
    fn seal_op(&mut self) -> SealOp<'_> {
        let Sealed { sequence, header, iv, data, icv } = self;
        SealOp { sequence: *sequence, header, iv, data, icv }
    }

    fn open_op(&mut self, ok: bool) -> OpenOp<'_> {
        let Sealed { sequence, header, iv, data, icv } = self;
        OpenOp { sequence: *sequence, header, iv, data, icv, ok }
    }
}
