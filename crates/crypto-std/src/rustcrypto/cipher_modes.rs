//! Ciphers that need a MAC beside them: CBC (RFC 3602, RFC 2451, RFC 2405), CTR (RFC 3686), and NULL (RFC 2410).

use aes::Block;
use cbc::Decryptor;
use cipher::array::Array;
use cipher::common::BlockSizeUser;
use cipher::consts::U16;
use cipher::{BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, InnerIvInit, StreamCipherCore};
use crypto::{OpenOp, SealOp, UnitFailed};
use ctr::{CtrCore, flavors::Ctr32BE};
use zeroize::Zeroize;

use super::chain;

/// Encryption without integrity; only [`super::compose`] may hold one. Lengths were checked there.
pub(crate) trait PacketCipher: Send + Sync {
    /// Write the IV of each packet and encrypt it; at most [`chain::LANES`] packets.
    ///
    /// # Errors
    /// [`UnitFailed`]: the content of all packets is undefined.
    fn encrypt(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed>;

    /// Decrypt in place the data of the packets that are `ok`, and touch no other; at most [`chain::LANES`] packets.
    ///
    /// # Errors
    /// [`UnitFailed`]: the content of all packets is undefined.
    fn decrypt(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed>;
}

/// The NULL cipher, which leaves the data as it is (RFC 2410).
pub(super) struct Null;

impl PacketCipher for Null {
    fn encrypt(&self, _: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        Ok(())
    }

    fn decrypt(&self, _: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        Ok(())
    }
}

/// CBC under any block cipher.
pub(super) struct Cbc<C>(pub C);

impl<C> PacketCipher for Cbc<C>
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + Send + Sync,
{
    fn encrypt(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        chain::cbc_encrypt(&self.0, ops);
        Ok(())
    }

    fn decrypt(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops.iter_mut().filter(|op| op.ok) {
            let iv = <&Array<u8, C::BlockSize>>::try_from(op.iv).map_err(|_| UnitFailed)?;
            let (blocks, _) = Array::slice_as_chunks_mut(op.data);
            Decryptor::<&C>::inner_iv_init(&self.0, iv).decrypt_blocks(blocks);
        }
        Ok(())
    }
}

/// CTR with a block counter of 32 bits behind 12 octets that are the packet's own; GCM and CCM encrypt so, too.
pub(super) struct Ctr<A> {
    cipher: A,
    salt: [u8; 4],
}

impl<A> Ctr<A> {
    pub(super) fn new(cipher: A, salt: [u8; 4]) -> Ctr<A> {
        Ctr { cipher, salt }
    }
}

/// Add the key stream to `data`. The counter of `first` is that of the first block.
#[inline]
pub(super) fn apply<A>(cipher: &A, first: &Block, data: &mut [u8])
where
    A: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    CtrCore::<&A, Ctr32BE>::inner_iv_init(cipher, first).apply_keystream_partial(data.into());
}

/// Salt, IV and a counter that starts with 1 (RFC 3686 section 4).
#[inline]
pub(super) fn counter_block(salt: &[u8; 4], iv: &[u8; 8], counter: u8) -> Block {
    let mut block = [0; 16];
    block[..4].copy_from_slice(salt);
    block[4..12].copy_from_slice(iv);
    block[15] = counter;
    block.into()
}

impl<A> PacketCipher for Ctr<A>
where
    A: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Send + Sync,
{
    fn encrypt(&self, ops: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops {
            let iv = op.sequence.to_be_bytes();
            apply(&self.cipher, &counter_block(&self.salt, &iv, 1), op.data);
            op.iv.copy_from_slice(&iv);
        }
        Ok(())
    }

    fn decrypt(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        for op in ops.iter_mut().filter(|op| op.ok) {
            let iv = op.iv.try_into().map_err(|_| UnitFailed)?;
            apply(&self.cipher, &counter_block(&self.salt, iv, 1), op.data);
        }
        Ok(())
    }
}

impl<A> Drop for Ctr<A> {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}
