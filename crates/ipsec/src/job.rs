//! The part of cryptography that needs no association: what a cipher or a MAC has to do for one packet.
//!
//! The owner of an association prepares a packet ([`crate::prepare_seal`], [`crate::prepare_open`]): it takes the
//! sequence number, asks the lifetime or the replay window, and writes every octet that is not secret. A job is what is
//! left: plain data, which with a clone of the key ([`Key`]) and the packet may go to another thread, and outlives the
//! association. The owner finishes the packet ([`crate::finish_seal`], [`crate::finish_open`]).

use std::net::IpAddr;

use crate::ah::{self, AhSeal};
use crate::esp::slot::seal_op;
use sadb::sa::{Key, Shape};
use wire::stage::{self, Scheduled};
use wire::udp::{self, Udp};
use wire::{DropReason, Evidence};

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

/// The proof that a packet is sealed: no octet of it is to be changed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealProof(());

impl SealJob {
    /// Encrypt and authenticate `bytes`, the packet that was prepared for this job, with the key of its association.
    ///
    /// # Errors
    /// [`DropReason::WrongProtocol`] if the key is of another protocol, [`DropReason::NoRoom`] if the packet is not the
    /// one that was prepared. The packet must not leave then.
    pub fn compute(&self, key: &Key, bytes: &mut [u8]) -> Result<SealProof, DropReason> {
        match &self.0 {
            Seal::Esp(job) => job.compute(key, bytes),
            Seal::Ah(job) => ah::compute_seal(job, key, bytes),
            Seal::Done => Ok(SealProof::done()),
        }
    }
}

impl Evidence<Scheduled, stage::Outer> for SealProof {}

impl SealProof {
    /// The proof, where the last octet was written.
    pub(crate) fn done() -> SealProof {
        SealProof(())
    }
}

/// The proof that the ICV of a packet was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcvProof(());

impl IcvProof {
    /// The proof, if the ICV was right.
    ///
    /// # Errors
    /// [`DropReason::AuthFailed`].
    #[inline]
    pub(crate) fn if_right(right: bool) -> Result<IcvProof, DropReason> {
        if right { Ok(IcvProof(())) } else { Err(DropReason::AuthFailed) }
    }
}

/// The proof that the inner packet lies alone in its buffer, and was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerProof(());

impl Evidence<Scheduled, stage::Inner> for InnerProof {}

impl InnerProof {
    /// The proof, where the packet was counted.
    pub(crate) fn done() -> InnerProof {
        InnerProof(())
    }
}

/// An ESP packet that is complete but for IV, ciphertext, ICV and the checksum of a UDP header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EspSeal {
    pub sequence: u64,
    /// Offset of the ESP header, which goes to the end of the packet.
    pub at: usize,
    pub shape: Shape,
    /// The addresses for the checksum of the UDP header in front of the ESP header, if it has one.
    pub checksum: Option<(IpAddr, IpAddr)>,
}

impl EspSeal {
    #[inline]
    pub(crate) fn compute(&self, key: &Key, bytes: &mut [u8]) -> Result<SealProof, DropReason> {
        let Key::Esp(key) = key else { return Err(DropReason::WrongProtocol) };
        let esp = bytes.get_mut(self.at..).ok_or(DropReason::NoRoom)?;
        key.seal(seal_op(self.shape, esp, self.sequence)?);
        if let Some((src, dst)) = self.checksum {
            let from = self.at.checked_sub(udp::HEADER_LEN).ok_or(DropReason::NoRoom)?;
            Udp::new_checked(bytes.get_mut(from..).ok_or(DropReason::NoRoom)?)?.fill_checksum(src, dst);
        }
        Ok(SealProof::done())
    }
}

/// The work that is left for a packet which is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenJob(pub(crate) Open);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Open {
    Esp(crate::esp::decap::EspOpen),
    Ah(ah::AhOpen),
}

impl OpenJob {
    /// Verify and decrypt `bytes`, the packet that was prepared for this job, with the key of its association.
    ///
    /// # Errors
    /// [`DropReason::AuthFailed`], and the reasons why what is authenticated cannot be put together. The content of the
    /// packet is worthless then.
    pub fn compute(&self, key: &Key, bytes: &mut [u8]) -> Result<IcvProof, DropReason> {
        match &self.0 {
            Open::Esp(job) => job.compute(key, bytes),
            Open::Ah(job) => job.compute(key, bytes),
        }
    }
}
