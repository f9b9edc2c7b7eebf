//! AES-256 over a run of blocks, with a step before and a step after it.
//!
//! The crate `aes` chooses the widest instructions of the processor, and hands a backend to code that is compiled for
//! these instructions. The steps run there as well, so that they are as wide as AES is; this is why everything here is
//! inlined. Between two steps a run stays in the first-level cache.

use aes::{Aes256, Block};
use cipher::array::Array;
use cipher::common::BlockSizeUser;
use cipher::consts::U16;
use cipher::{
    BlockCipherDecBackend, BlockCipherDecClosure, BlockCipherDecrypt, BlockCipherEncBackend,
    BlockCipherEncClosure, BlockCipherEncrypt,
};

use crate::words;

/// Blocks of a run: a multiple of what any backend takes at once (64 with VAES and AVX-512).
pub(crate) const RUN: usize = 128;

/// What is done to a run of blocks around AES.
pub(crate) trait Around {
    /// The step that runs before AES.
    fn before(&mut self, blocks: &mut [words::Block]);
    /// The step that runs after AES.
    fn after(&mut self, blocks: &mut [words::Block]);
}

struct Call<'a, A> {
    blocks: &'a mut [words::Block],
    around: &'a mut A,
}

impl<A> BlockSizeUser for Call<'_, A> {
    type BlockSize = U16;
}

/// Encrypt every block under this key.
#[inline(always)]
pub(crate) fn encrypt(key: &Aes256, blocks: &mut [words::Block], around: &mut impl Around) {
    key.encrypt_with_backend(Call { blocks, around });
}

/// Decrypt every block under this key.
#[inline(always)]
pub(crate) fn decrypt(key: &Aes256, blocks: &mut [words::Block], around: &mut impl Around) {
    key.decrypt_with_backend(Call { blocks, around });
}

macro_rules! call {
    ($call:expr, $backend:expr, $width:ty, $many:ident, $one:ident) => {{
        let Call { blocks, around } = $call;
        around.before(blocks);
        let (runs, rest) =
            Array::<Block, $width>::slice_as_chunks_mut(Array::cast_slice_from_core_mut(&mut *blocks));
        for run in runs {
            $backend.$many(run.into());
        }
        for block in rest {
            $backend.$one(block.into());
        }
        around.after(blocks);
    }};
}

impl<A: Around> BlockCipherEncClosure for Call<'_, A> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        call!(self, backend, B::ParBlocksSize, encrypt_par_blocks, encrypt_block);
    }
}

impl<A: Around> BlockCipherDecClosure for Call<'_, A> {
    #[inline(always)]
    fn call<B: BlockCipherDecBackend<BlockSize = U16>>(self, backend: &B) {
        call!(self, backend, B::ParBlocksSize, decrypt_par_blocks, decrypt_block);
    }
}

#[cfg(test)]
mod tests {
    use cipher::KeyInit;

    use super::*;

    struct Nothing;

    impl Around for Nothing {
        fn before(&mut self, _: &mut [words::Block]) {}
        fn after(&mut self, _: &mut [words::Block]) {}
    }

    /// FIPS 197 appendix C.3, in runs of every length: one by one and as many at once as the processor takes.
    #[test]
    fn a_core_alone_is_aes_256() {
        let key = Aes256::new(&Array(std::array::from_fn(|i| i as u8)));
        let plain: words::Block = std::array::from_fn(|i| i as u8 * 0x11);
        let cipher = 0x8ea2_b7ca_5167_45bf_eafc_4990_4b49_6089_u128.to_be_bytes();
        for len in 0..=2 * RUN {
            let mut blocks = vec![plain; len];
            encrypt(&key, &mut blocks, &mut Nothing);
            assert_eq!(blocks, vec![cipher; len]);
            decrypt(&key, &mut blocks, &mut Nothing);
            assert_eq!(blocks, vec![plain; len]);
        }
    }
}
