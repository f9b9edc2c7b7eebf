//! The proof that this processor has the instructions of the wide unit.
//!
//! What enters: the answers of the processor. What leaves: a [`Wide`] for each width that it has. Only this module makes
//! one, so whoever holds one may call code that is compiled for these instructions.

/// The crypto provider of one width. A value of it proves that this processor has the instructions.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    /// Whether one instruction takes four blocks, otherwise two.
    four: bool,
    /// Whether the processor also multiplies 52 bits (AVX-512 IFMA).
    ifma: bool,
}

impl Wide {
    /// Whether one instruction takes four blocks, otherwise two.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn takes_four(self) -> bool {
        self.four
    }

    /// Whether the processor also multiplies 52 bits (AVX-512 IFMA).
    pub(crate) fn has_ifma(self) -> bool {
        self.ifma
    }

    /// The widest that this processor has: `None` where it lacks AVX2, PCLMULQDQ, VAES or VPCLMULQDQ, two blocks an instruction where
    /// it lacks AVX-512 (F, BW, VL), four where it has everything.
    pub fn detect() -> Option<Wide> {
        let all = Wide::detect_all();
        all.last().copied()
    }

    /// Every width that this processor has.
    pub fn detect_all() -> Vec<Wide> {
        #[cfg(target_arch = "x86_64")]
        return Wide::of_processor(|instructions| match instructions {
            "avx2" => is_x86_feature_detected!("avx2"),
            "aes" => is_x86_feature_detected!("aes"),
            "pclmulqdq" => is_x86_feature_detected!("pclmulqdq"),
            "vaes" => is_x86_feature_detected!("vaes"),
            "vpclmulqdq" => is_x86_feature_detected!("vpclmulqdq"),
            "avx512f" => is_x86_feature_detected!("avx512f"),
            "avx512bw" => is_x86_feature_detected!("avx512bw"),
            "avx512vl" => is_x86_feature_detected!("avx512vl"),
            "avx512ifma" => is_x86_feature_detected!("avx512ifma"),
            _ => false,
        });
        #[cfg(not(target_arch = "x86_64"))]
        Vec::new()
    }

    /// Every width of a processor that has the instructions of these names. All unsafe code of this room rests on this function.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn of_processor(has: impl Fn(&str) -> bool) -> Vec<Wide> {
        let mut widths = Vec::new();
        if ["avx2", "aes", "pclmulqdq", "vaes", "vpclmulqdq"].into_iter().all(&has) {
            widths.push(Wide { four: false, ifma: false });
            if ["avx512f", "avx512bw", "avx512vl"].into_iter().all(&has) {
                widths.push(Wide { four: true, ifma: has("avx512ifma") });
            }
        }
        widths
    }
}
