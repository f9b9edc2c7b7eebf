//! The ICMP errors that are believed of networks behind a gateway (RFC 4301 section 6.1.2).

/// ICMP errors by type and code, as the kernel half has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsideIcmp {
    /// The words of the set, one for each type: those of ICMP before those of ICMPv6. A word has a bit for each code,
    /// and the last bit stands for all codes from 31 on.
    words: Vec<u32>,
}

impl InsideIcmp {
    /// A set without any error.
    pub fn none() -> InsideIcmp {
        InsideIcmp { words: vec![0; 512] }
    }

    /// The set with this type of IP version 4 or 6 added, with this code; `None`: with every code.
    #[must_use]
    pub fn with(mut self, version: u8, kind: u8, code: Option<u8>) -> InsideIcmp {
        let at = usize::from(kind) + if version == 4 { 0 } else { 256 };
        self.words[at] |= code.map_or(u32::MAX, |code| 1 << code.min(31));
        self
    }

    pub(crate) fn octets(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

impl Default for InsideIcmp {
    /// All but redirects, which would lead traffic elsewhere (RFC 4301 section 6.1.2).
    fn default() -> InsideIcmp {
        let mut all = InsideIcmp { words: vec![u32::MAX; 512] };
        (all.words[5], all.words[256 + 137]) = (0, 0);
        all
    }
}
