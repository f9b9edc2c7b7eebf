//! A crypto unit that fails when it is told to, and packets whose plaintext is recognised wherever it turns up.
#![allow(dead_code, missing_docs, reason = "each test binary uses its part")]

use crate::support::*;
use crypto::{
    Authenticator, CryptoError, Integrity, OpenOp, Provider, Registry, SealOp, Secret, SuiteId, Transform,
    UnitFailed,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a unit has made of a batch by the time it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every packet is as it came.
    First,
    /// Every packet but the last is done.
    Last,
    /// Plaintext is everywhere: sealing has put it into IV and ICV, opening has decrypted and calls all of it genuine.
    Spill,
}

pub const FAULTS: [Fault; 3] = [Fault::First, Fault::Last, Fault::Spill];

/// The calls of a unit that fail.
#[derive(Debug)]
pub struct Plan {
    fault: Fault,
    /// The calls from one that fails to the next; zero: none fails.
    every: AtomicU64,
    calls: AtomicU64,
}

impl Plan {
    pub fn new(fault: Fault, every: u64) -> Arc<Plan> {
        Arc::new(Plan { fault, every: AtomicU64::new(every), calls: AtomicU64::new(0) })
    }

    /// Let every n-th call from now on fail; zero: none.
    pub fn fail_every(&self, every: u64) {
        self.every.store(every, Ordering::Relaxed);
        self.calls.store(0, Ordering::Relaxed);
    }

    /// The registry whose only unit has this plan.
    pub fn registry(self: &Arc<Plan>) -> Registry {
        Registry::new().with(Faulty(Arc::clone(self)))
    }

    fn fails(&self) -> bool {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let every = self.every.load(Ordering::Relaxed);
        every > 0 && call.is_multiple_of(every)
    }
}

/// A unit that computes like those of the product, but for the calls that its plan lets fail.
struct Faulty(Arc<Plan>);

struct FaultyKey {
    key: Box<dyn Transform>,
    plan: Arc<Plan>,
}

impl Provider for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn offers(&self, suite: SuiteId) -> bool {
        registry().provider(suite).is_some()
    }

    fn transform(
        &self,
        suite: SuiteId,
        keymat: &Secret,
        extended: bool,
    ) -> Result<Box<dyn Transform>, CryptoError> {
        let key = registry().transform(suite, keymat, extended)?;
        Ok(Box::new(FaultyKey { key, plan: Arc::clone(&self.0) }))
    }

    fn authenticator(
        &self,
        integrity: Integrity,
        keymat: &Secret,
    ) -> Result<Box<dyn Authenticator>, CryptoError> {
        registry().authenticator(integrity, keymat)
    }
}

impl Transform for FaultyKey {
    fn seal_batch(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        if !self.plan.fails() {
            return self.key.seal_batch(ops);
        }
        let most = ops.len() - 1;
        match self.plan.fault {
            Fault::First => {}
            Fault::Last => self.key.seal_batch(&mut ops[..most])?,
            Fault::Spill => {
                for op in ops {
                    let plain = op.data[op.data.len() / 2..].iter().copied();
                    let places = op.iv.iter_mut().chain(op.icv.iter_mut());
                    places.zip(plain.cycle()).for_each(|(to, from)| *to = from);
                }
            }
        }
        Err(UnitFailed)
    }

    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        if !self.plan.fails() {
            return self.key.open_batch(ops);
        }
        let most = ops.len() - 1;
        match self.plan.fault {
            Fault::First => {}
            Fault::Last => self.key.open_batch(&mut ops[..most])?,
            Fault::Spill => self.key.open_batch(ops)?,
        }
        ops.iter_mut().for_each(|op| op.ok = true);
        Err(UnitFailed)
    }
}

/// The octets that marked plaintext repeats, no two of them alike.
const MARKER: [u8; 8] = *b"\xa5plain!\x5a";

/// Plaintext of `len` octets that [`shows_plaintext`] finds again.
pub fn marked(len: usize) -> Vec<u8> {
    MARKER.into_iter().cycle().take(len).collect()
}

/// A datagram from Alice to Bob around [`marked`] octets.
pub fn marked_datagram(v6: bool, len: usize) -> Vec<u8> {
    let (alice, bob) = hosts(v6);
    udp_packet((alice, 40000), (bob, 53), 0, true, &marked(len))
}

/// Whether eight octets in a row are from [`marked`] plaintext, wherever in it.
pub fn shows_plaintext(octets: &[u8]) -> bool {
    octets.windows(MARKER.len()).any(|window| {
        let Some(at) = MARKER.iter().position(|octet| *octet == window[0]) else { return false };
        window.iter().zip(MARKER.iter().cycle().skip(at)).all(|(found, marker)| found == marker)
    })
}
