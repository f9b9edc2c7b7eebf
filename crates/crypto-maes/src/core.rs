//! AES-256 over many blocks. The crate `aes` takes up to 64 at once, and what is left over one by one, each with the
//! whole latency of a block: a rest that is long enough is made a full run instead.

use aes::{Aes256, Block};
use cipher::array::Array;
use cipher::common::BlockSizeUser;
use cipher::consts::U16;
use cipher::typenum::Unsigned;
use cipher::{
    BlockCipherDecBackend, BlockCipherDecClosure, BlockCipherDecrypt, BlockCipherEncBackend,
    BlockCipherEncClosure, BlockCipherEncrypt,
};

/// A rest of at least one part in so many of a full run is made a full run.
const WORTH: usize = 3;

struct All<'a>(&'a mut [Block]);

impl BlockSizeUser for All<'_> {
    type BlockSize = U16;
}

/// Encrypt every block.
#[inline]
pub(crate) fn encrypt(key: &Aes256, blocks: &mut [[u8; 16]]) {
    key.encrypt_with_backend(All(Array::cast_slice_from_core_mut(blocks)));
}

/// Decrypt every block.
#[inline]
pub(crate) fn decrypt(key: &Aes256, blocks: &mut [[u8; 16]]) {
    key.decrypt_with_backend(All(Array::cast_slice_from_core_mut(blocks)));
}

macro_rules! all_blocks {
    ($blocks:expr, $backend:expr, $width:ty, $many:ident, $one:ident) => {{
        let (runs, rest) = Array::<Block, $width>::slice_as_chunks_mut($blocks);
        for run in runs {
            $backend.$many(run.into());
        }
        if <$width>::USIZE > 1 && rest.len() * WORTH >= <$width>::USIZE {
            let mut run = Array::<Block, $width>::default();
            run.iter_mut().zip(&*rest).for_each(|(to, from)| *to = *from);
            $backend.$many((&mut run).into());
            rest.iter_mut().zip(&run).for_each(|(to, from)| *to = *from);
        } else {
            for block in rest {
                $backend.$one(block.into());
            }
        }
    }};
}

impl BlockCipherEncClosure for All<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        all_blocks!(self.0, backend, B::ParBlocksSize, encrypt_par_blocks, encrypt_block);
    }
}

impl BlockCipherDecClosure for All<'_> {
    #[inline(always)]
    fn call<B: BlockCipherDecBackend<BlockSize = U16>>(self, backend: &B) {
        all_blocks!(self.0, backend, B::ParBlocksSize, decrypt_par_blocks, decrypt_block);
    }
}
