//! The replay window: the sequence numbers that an inbound association has accepted.
//!
//! The window is a ring of 64-bit words that the sequence number itself indexes, so that moving the window clears whole
//! words and shifts nothing (RFC 6479). The ring is twice as long as the window: one word more would be enough, but a
//! power of two makes the index a mask. Numbers are 64 bits wide, ready for extended sequence numbers; RFC 4303 section
//! 3.4.3 says what a receiver must refuse.

use wire::DropReason;

const WORD: u64 = u64::BITS as u64;

/// The sequence numbers that were accepted, within a window that ends at the highest of them.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    top: u64,
    size: u64,
    /// The number of words in the ring, less one.
    mask: usize,
    ring: Box<[u64]>,
}

/// A window in a form that does not depend on where its ring starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayState {
    /// The number of sequence numbers that the window covers.
    pub size: u32,
    /// The highest number that was accepted; zero: none yet.
    pub top: u64,
    /// `size / 64` words; bit 63 of word `i` is number `top - 64 * i`, bit 62 the one below.
    pub seen: Vec<u64>,
}

impl ReplayWindow {
    /// The smallest window (RFC 4303 section 3.4.3 asks for 32 at least and prefers 64).
    pub const MIN: u32 = 64;
    /// The largest window, in sequence numbers.
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

    /// A window that is switched off: every number passes, any number of times. It is for an operator whose peer cannot
    /// keep a counter (RFC 4303 section 3.4.3 lets the receiver decide).
    pub fn off() -> ReplayWindow {
        ReplayWindow { top: 0, size: 0, mask: 0, ring: Box::default() }
    }

    /// A window of another size that remembers what both can; `None` unless [`Self::is_size`]. A larger one treats the
    /// numbers below the old one as seen, since the old one would have refused them.
    #[must_use]
    pub fn resized(&self, size: u32) -> Option<ReplayWindow> {
        let mut window = ReplayWindow::new(size)?;
        window.top = self.top;
        let least = self.top.saturating_sub(window.size - 1).max(1);
        for sequence in least..=self.top {
            if self.size > 0 && self.check(sequence).is_err() {
                let (word, bit) = window.place(sequence);
                window.ring[word] |= bit;
            }
        }
        // Without a window before, nothing below the top is known: refuse it rather than accept a replay.
        if self.size == 0 && self.top > 0 {
            window.ring.fill(u64::MAX);
            let word = (self.top / WORD) as usize & window.mask;
            window.ring[word] = u64::MAX >> (WORD - 1 - self.top % WORD);
        }
        Some(window)
    }

    /// The 64-bit number whose lower half is `low` and that lies nearest to the window (RFC 4303 appendix A2): at most
    /// half the space above it, else below.
    #[inline]
    pub fn infer(&self, low: u32) -> u64 {
        let (top_high, top_low) = (self.top >> 32, self.top as u32);
        // The lower half of the window's bottom.
        let bottom = top_low.wrapping_sub((self.size as u32).saturating_sub(1));
        let high = if u64::from(top_low) + 1 >= self.size {
            // The window lies within one lap: what is below its bottom belongs to the next.
            if low >= bottom { top_high } else { top_high.wrapping_add(1) }
        } else if low >= bottom {
            // The window spans two laps, and this is in the earlier one. In lap zero there is none.
            match top_high.checked_sub(1) {
                Some(before) => before,
                None => top_high,
            }
        } else {
            top_high
        };
        high << 32 | u64::from(low)
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
        if self.size == 0 {
            // Without replay protection the number may come round to zero (RFC 4303 section 3.3.3).
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

    /// Remember this number, and move the window if it is the highest. Call this once the ICV was right. The number is
    /// checked again, since only one of two copies may pass that were both checked before either was opened.
    ///
    /// # Errors
    /// The errors of [`Self::check`]; the packet must then be dropped.
    #[inline]
    pub fn commit(&mut self, sequence: u64) -> Result<(), DropReason> {
        self.check(sequence)?;
        if self.size == 0 {
            self.top = self.top.max(sequence);
            return Ok(());
        }
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

    /// The highest number that was accepted; zero: none yet.
    pub fn top(&self) -> u64 {
        self.top
    }

    /// The number of sequence numbers that the window covers.
    pub fn size(&self) -> u32 {
        self.size as u32
    }

    #[inline]
    fn place(&self, sequence: u64) -> (usize, u64) {
        ((sequence / WORD) as usize & self.mask, 1 << (sequence % WORD))
    }

    /// The state of the window in portable form.
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

    /// The window of a portable form; `None` if no window exports that: wrong size or number of words, the top not
    /// marked, or a number below one marked.
    pub fn import(state: &ReplayState) -> Option<ReplayWindow> {
        if state.size == 0 {
            return state.seen.is_empty().then(|| ReplayWindow { top: state.top, ..ReplayWindow::off() });
        }
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
