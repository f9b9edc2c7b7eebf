//! Other ways to call one library, for checks that compare them.

use std::sync::Arc;

use super::{Functions, Inner, LoadedCipher};

/// A way to call a library. The default is that of the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Contexts stay writable behind `setkey`. A check of something else than contexts is then not ended by a library
    /// that writes them.
    pub writable: bool,
    /// Source and destination are two places, also where the library says that they may be one.
    pub apart: bool,
    /// The functions that a library may leave out are not called: the host makes counter mode, CBC and batches of the
    /// others.
    pub plain: bool,
}

impl LoadedCipher {
    /// The same cipher, called in another way.
    #[must_use]
    pub fn in_form(&self, form: Form) -> LoadedCipher {
        let Inner { description, setkey, functions, pool } = &*self.inner;
        let functions = match *functions {
            Functions::Block(mut functions) => {
                functions.in_place &= !form.apart;
                Functions::Block(if form.plain { functions.plain() } else { functions })
            }
            Functions::Stream(mut functions) => {
                functions.in_place &= !form.apart;
                Functions::Stream(functions)
            }
            Functions::Aead(mut functions) => {
                functions.in_place &= !form.apart;
                Functions::Aead(if form.plain { functions.plain() } else { functions })
            }
        };
        let (description, pool) = (description.clone(), pool.again(form.writable));
        let inner = Inner { description, setkey: *setkey, functions, pool };
        LoadedCipher { inner: Arc::new(inner) }
    }

    /// Whether the memory of all keys that are gone has zeros alone.
    pub(crate) fn contexts_are_wiped(&self) -> bool {
        self.inner.pool.is_wiped()
    }

    /// The words of the context that ends in front of this address. Only while its key is there.
    pub(crate) fn context_words(&self, end: usize) -> impl Iterator<Item = u64> {
        let size = self.inner.pool.span();
        let start = end.saturating_sub(size);
        (0..size / 8).map(move |number| {
            // SAFETY: the pages of the context end there, have so many octets, and can be read while the key is there.
            unsafe { ((start + 8 * number) as *const u64).read_unaligned() }
        })
    }

    /// Whether the library says that source and destination may be one place.
    pub fn works_in_place(&self) -> bool {
        match self.inner.functions {
            Functions::Block(functions) => functions.in_place,
            Functions::Stream(functions) => functions.in_place,
            Functions::Aead(functions) => functions.in_place,
        }
    }

    /// Whether the library has functions that it may leave out.
    pub fn has_optional_functions(&self) -> bool {
        match self.inner.functions {
            Functions::Block(functions) => functions.has_more(),
            Functions::Stream(_) => false,
            Functions::Aead(functions) => functions.has_more(),
        }
    }
}
