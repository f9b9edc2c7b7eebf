//! The part of cryptography that needs no association: what a cipher or a MAC has to do for one packet.
//!
//! The owner of an association prepares a packet ([`crate::prepare_seal`], [`crate::prepare_open`]): it takes the
//! sequence number, asks the lifetime or the replay window, and writes every octet that is not secret. A job is what is
//! left: plain data, which with a clone of the key ([`Key`]) and the packet may go to another thread, and outlives the
//! association. The owner finishes the packet ([`crate::finish_seal`], [`crate::finish_open`]).

use crate::ah::{self, AhOpen, AhSeal};
use crate::esp::decap::EspOpen;
use crate::esp::encap::EspSeal;
use crate::proof::{IcvProof, SealProof};
use crate::steps::Steps;
use sadb::sa::Key;
use wire::DropReason;

/// The work that is left for a packet which is to be sealed.
#[derive(Clone, Copy, Debug)]
pub struct SealJob(pub(crate) Seal);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Seal {
    Esp(EspSeal),
    Ah(AhSeal),
    /// A protocol without a key: nothing is left to do.
    Done,
}

impl SealJob {
    /// Encrypt and authenticate `bytes`, the packet that was prepared for this job, with the key of its association.
    ///
    /// # Errors
    /// [`DropReason::WrongProtocol`] if the key is of another protocol, [`DropReason::NoRoom`] if the packet is not the
    /// one that was prepared, [`DropReason::UnitFailed`] if the crypto unit failed: then no octet of the payload is left
    /// in the packet. It must not leave in any of these cases, and its sequence number is not used again.
    pub fn compute(&self, key: &Key, bytes: &mut [u8]) -> Result<SealProof, DropReason> {
        match &self.0 {
            Seal::Esp(job) => job.compute(key, bytes),
            Seal::Ah(job) => ah::compute_seal(job, key, bytes),
            Seal::Done => Ok(SealProof::done()),
        }
    }

    /// Do a part of [`Self::compute`]: about as much as `octets` octets take, which what was done is taken off. Returns
    /// the proof once the packet is sealed; `None` while there is more to do. AH is computed in one step.
    ///
    /// # Errors
    /// The errors of [`Self::compute`].
    pub fn step(
        &self,
        key: &Key,
        bytes: &mut [u8],
        steps: &mut Steps,
        octets: &mut usize,
    ) -> Result<Option<SealProof>, DropReason> {
        match &self.0 {
            Seal::Esp(job) => job.step(key, bytes, steps, octets),
            Seal::Ah(_) | Seal::Done => {
                *octets = octets.saturating_sub(bytes.len());
                self.compute(key, bytes).map(Some)
            }
        }
    }
}

/// The work that is left for a packet which is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenJob(pub(crate) Open);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Open {
    Esp(EspOpen),
    Ah(AhOpen),
}

impl Open {
    /// The whole sequence number that the packet has, if it is authentic.
    pub(crate) fn sequence(&self) -> u64 {
        match self {
            Open::Esp(job) => job.sequence,
            Open::Ah(job) => job.sequence,
        }
    }
}

impl OpenJob {
    /// Verify and decrypt `bytes`, the packet that was prepared for this job, with the key of its association.
    ///
    /// # Errors
    /// [`DropReason::AuthFailed`], and the reasons why what is authenticated cannot be put together. The content of the
    /// packet is worthless then. [`DropReason::UnitFailed`] if the crypto unit failed: nobody knows whether the packet is
    /// authentic, and nothing of it is left.
    pub fn compute(&self, key: &Key, bytes: &mut [u8]) -> Result<IcvProof, DropReason> {
        match &self.0 {
            Open::Esp(job) => job.compute(key, bytes),
            Open::Ah(job) => job.compute(key, bytes),
        }
    }

    /// Do a part of [`Self::compute`], like [`SealJob::step`]. Nothing is decrypted before the ICV was right.
    ///
    /// # Errors
    /// The errors of [`Self::compute`].
    pub fn step(
        &self,
        key: &Key,
        bytes: &mut [u8],
        steps: &mut Steps,
        octets: &mut usize,
    ) -> Result<Option<IcvProof>, DropReason> {
        match &self.0 {
            Open::Esp(job) => job.step(key, bytes, steps, octets),
            Open::Ah(_) => {
                *octets = octets.saturating_sub(bytes.len());
                self.compute(key, bytes).map(Some)
            }
        }
    }
}
