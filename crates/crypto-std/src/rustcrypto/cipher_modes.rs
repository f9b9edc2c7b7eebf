//! Ciphers that need a MAC beside them: CBC (RFC 3602, RFC 2451, RFC 2405), CTR (RFC 3686), and NULL (RFC 2410).

use aes::Block;
use cbc::Decryptor;
use cipher::array::Array;
use cipher::common::BlockSizeUser;
use cipher::consts::U16;
use cipher::{BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, InnerIvInit, StreamCipherCore};
use crypto::{MAX_IV_LEN, OpenOp, SealOp, UnitFailed};
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

    /// Encrypt about `most` octets of a packet from this place on, whose octets before it are encrypted, and write its IV
    /// at the first call. `chain` is kept from call to call. Returns the place up to which it is encrypted. A cipher that
    /// does not work in parts encrypts all.
    ///
    /// # Errors
    /// [`UnitFailed`]: the content of the packet is undefined.
    fn encrypt_part(
        &self,
        op: &mut SealOp<'_>,
        _from: usize,
        _most: usize,
        _chain: &mut [u8; MAX_IV_LEN],
    ) -> Result<usize, UnitFailed> {
        self.encrypt(std::slice::from_mut(op))?;
        Ok(op.data.len())
    }

    /// Decrypt about `most` octets of a packet that is `ok`, like [`Self::encrypt_part`].
    ///
    /// # Errors
    /// [`UnitFailed`]: the content of the packet is undefined.
    fn decrypt_part(
        &self,
        op: &mut OpenOp<'_>,
        _from: usize,
        _most: usize,
        _chain: &mut [u8; MAX_IV_LEN],
    ) -> Result<usize, UnitFailed> {
        self.decrypt(std::slice::from_mut(op))?;
        Ok(op.data.len())
    }

    /// The number of octets that any MAC takes in while the cipher does one. A step of the MAC alone is as many times
    /// longer.
    fn slowness(&self) -> usize {
        1
    }
}

/// The place behind about `most` octets from `from` on, at the end of a block, and one block further at least; the end of
/// the data, if that comes first.
fn part_end(from: usize, most: usize, block: usize, len: usize) -> usize {
    let whole = most / block * block;
    from.saturating_add(whole.max(block)).min(len)
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

    fn encrypt_part(
        &self,
        op: &mut SealOp<'_>,
        from: usize,
        most: usize,
        _: &mut [u8; MAX_IV_LEN],
    ) -> Result<usize, UnitFailed> {
        Ok(part_end(from, most, 1, op.data.len()))
    }
}

/// CBC under any block cipher, with what [`PacketCipher::slowness`] says of that.
pub(super) struct Cbc<C>(pub C, pub usize);

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

    fn encrypt_part(
        &self,
        op: &mut SealOp<'_>,
        from: usize,
        most: usize,
        chain: &mut [u8; MAX_IV_LEN],
    ) -> Result<usize, UnitFailed> {
        let block = C::block_size();
        let chained = chain.get_mut(..block).ok_or(UnitFailed)?;
        let chained = <&mut Array<u8, C::BlockSize>>::try_from(chained).map_err(|_| UnitFailed)?;
        if from == 0 {
            chain::cbc_begin(&self.0, op, chained);
        }
        let end = part_end(from, most, block, op.data.len());
        let data = op.data.get_mut(from..end).ok_or(UnitFailed)?;
        chain::cbc_continue(&self.0, data, chained);
        Ok(end)
    }

    fn decrypt_part(
        &self,
        op: &mut OpenOp<'_>,
        from: usize,
        most: usize,
        chain: &mut [u8; MAX_IV_LEN],
    ) -> Result<usize, UnitFailed> {
        let block = C::block_size();
        let chained = chain.get_mut(..block).ok_or(UnitFailed)?;
        if from == 0 {
            chained.copy_from_slice(op.iv.get(..block).ok_or(UnitFailed)?);
        }
        let end = part_end(from, most, block, op.data.len());
        let data = op.data.get_mut(from..end).ok_or(UnitFailed)?;
        let iv = Array::<u8, C::BlockSize>::try_from(&*chained).map_err(|_| UnitFailed)?;
        // The last block of ciphertext is what the next part is chained to.
        if let Some(last) = data.len().checked_sub(block).and_then(|last| data.get(last..)) {
            chained.copy_from_slice(last);
        }
        let (blocks, _) = Array::slice_as_chunks_mut(data);
        Decryptor::<&C>::inner_iv_init(&self.0, &iv).decrypt_blocks(blocks);
        Ok(end)
    }

    fn slowness(&self) -> usize {
        self.1
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

    fn encrypt_part(
        &self,
        op: &mut SealOp<'_>,
        from: usize,
        most: usize,
        _: &mut [u8; MAX_IV_LEN],
    ) -> Result<usize, UnitFailed> {
        let iv = op.sequence.to_be_bytes();
        if from == 0 {
            op.iv.copy_from_slice(&iv);
        }
        self.apply_part(&iv, op.data, from, most)
    }

    fn decrypt_part(
        &self,
        op: &mut OpenOp<'_>,
        from: usize,
        most: usize,
        _: &mut [u8; MAX_IV_LEN],
    ) -> Result<usize, UnitFailed> {
        let iv = op.iv.try_into().map_err(|_| UnitFailed)?;
        self.apply_part(iv, op.data, from, most)
    }
}

impl<A> Ctr<A>
where
    A: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    /// Add the key stream to about `most` octets from this place on. Returns the place behind them.
    fn apply_part(
        &self,
        iv: &[u8; 8],
        data: &mut [u8],
        from: usize,
        most: usize,
    ) -> Result<usize, UnitFailed> {
        let end = part_end(from, most, 16, data.len());
        let mut first = counter_block(&self.salt, iv, 1);
        // The data is short, so that the counter of 32 bits does not wrap.
        let counter = (from / 16) as u32 + 1;
        first[12..].copy_from_slice(&counter.to_be_bytes());
        apply(&self.cipher, &first, data.get_mut(from..end).ok_or(UnitFailed)?);
        Ok(end)
    }
}

impl<A> Drop for Ctr<A> {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}
