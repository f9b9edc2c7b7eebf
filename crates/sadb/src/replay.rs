//! The replay window: which sequence numbers an inbound association has accepted.
//!
//! A ring of 64-bit words indexed by the sequence number itself, so that moving the window clears whole words and
//! shifts nothing (RFC 6479). The ring is twice the window: one word would be enough more than the window needs, and a
//! power of two makes the index a mask. Numbers are 64 bits wide, ready for extended sequence numbers; RFC 4303
//! section 3.4.3 says what a receiver must refuse.

use wire::DropReason;

const WORD: u64 = u64::BITS as u64;

/// The sequence numbers that were accepted, within a window that ends at the highest of them.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    top: u64,
    size: u64,
    /// Words of the ring, less one.
    mask: usize,
    ring: Box<[u64]>,
}

/// A window in a form that does not depend on where its ring starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayState {
    /// Sequence numbers it covers.
    pub size: u32,
    /// The highest number accepted; zero: none yet.
    pub top: u64,
    /// `size / 64` words; bit 63 of word `i` is number `top - 64 * i`, bit 62 the one below.
    pub seen: Vec<u64>,
}

impl ReplayWindow {
    /// The smallest window (RFC 4303 section 3.4.3 asks for 32 at least and prefers 64).
    pub const MIN: u32 = 64;
    /// The largest window.
    pub const MAX: u32 = 65536;

    /// Whether there can be a window of this size: a power of two from [`Self::MIN`] to [`Self::MAX`].
    pub const fn is_size(size: u32) -> bool {
        size.is_power_of_two() && size >= Self::MIN && size <= Self::MAX
    }

    /// A window that has seen nothing; `None` unless [`Self::is_size`].
    pub fn new(size: u32) -> Option<ReplayWindow> {
        if !Self::is_size(size) {
            return None;
        }
        let words = 2 * size as usize / u64::BITS as usize;
        Some(ReplayWindow {
            top: 0,
            size: size.into(),
            mask: words - 1,
            ring: vec![0; words].into_boxed_slice(),
        })
    }

    /// Whether a packet with this number may be new. Call before decryption.
    ///
    /// # Errors
    /// [`DropReason::SequenceZero`], [`DropReason::ReplayTooOld`], [`DropReason::Replayed`].
    #[inline]
    pub fn check(&self, sequence: u64) -> Result<(), DropReason> {
        if sequence > self.top {
            return Ok(());
        }
        if sequence == 0 {
            return Err(DropReason::SequenceZero);
        }
        if self.top - sequence >= self.size {
            return Err(DropReason::ReplayTooOld);
        }
        let (word, bit) = self.place(sequence);
        if self.ring[word] & bit == 0 { Ok(()) } else { Err(DropReason::Replayed) }
    }

    /// Remember this number and move the window if it is the highest. Call once the ICV was right. Checks again, since
    /// of two copies that were both checked before either was opened only one may pass.
    ///
    /// # Errors
    /// As [`Self::check`]; the packet must then be dropped.
    #[inline]
    pub fn commit(&mut self, sequence: u64) -> Result<(), DropReason> {
        self.check(sequence)?;
        if sequence > self.top {
            let (from, to) = (self.top / WORD, sequence / WORD);
            if to - from > self.mask as u64 {
                self.ring.fill(0);
            } else {
                for word in from + 1..=to {
                    self.ring[word as usize & self.mask] = 0;
                }
            }
            self.top = sequence;
        }
        let (word, bit) = self.place(sequence);
        self.ring[word] |= bit;
        Ok(())
    }

    /// The highest number accepted; zero: none yet.
    pub fn top(&self) -> u64 {
        self.top
    }

    /// Sequence numbers it covers.
    pub fn size(&self) -> u32 {
        self.size as u32
    }

    #[inline]
    fn place(&self, sequence: u64) -> (usize, u64) {
        ((sequence / WORD) as usize & self.mask, 1 << (sequence % WORD))
    }

    /// The window in portable form.
    pub fn export(&self) -> ReplayState {
        let seen = (0..self.size / WORD).map(|index| self.sixty_four_up_to(index * WORD)).collect();
        ReplayState { size: self.size(), top: self.top, seen }
    }

    /// The bits of `top - back` (bit 63) and the 63 numbers below it; zero where there is no number.
    fn sixty_four_up_to(&self, back: u64) -> u64 {
        let Some(last) = self.top.checked_sub(back) else { return 0 };
        let (word, used) = ((last / WORD) as usize, last % WORD + 1);
        let high = self.ring[word & self.mask] << (WORD - used);
        // What the word below contributes, unless the first word of all was already the one.
        if used == WORD || last < WORD { high } else { high | self.ring[(word - 1) & self.mask] >> used }
    }

    /// A window from its portable form; `None` if no window exports that: wrong size or number of words, the top not
    /// marked, a number below one marked.
    pub fn import(state: &ReplayState) -> Option<ReplayWindow> {
        let mut window = ReplayWindow::new(state.size)?;
        if state.seen.len() as u64 != window.size / WORD {
            return None;
        }
        window.top = state.top;
        for (index, &bits) in state.seen.iter().enumerate() {
            let back = index as u64 * WORD;
            // Numbers from 1 up to `top - back` that this word can name.
            let named = state.top.saturating_sub(back).min(WORD);
            if named < WORD && bits << named != 0 {
                return None;
            }
            if bits != 0 {
                let last = state.top - back;
                let (word, used) = ((last / WORD) as usize, last % WORD + 1);
                window.ring[word & window.mask] |= bits >> (WORD - used);
                if used < WORD && word > 0 {
                    window.ring[(word - 1) & window.mask] |= bits << used;
                }
            }
        }
        (state.top == 0 || window.check(state.top) == Err(DropReason::Replayed)).then_some(window)
    }
}
