//! The form of a known answer.

/// The ICVs of one suite, in hexadecimal.
pub struct Answer {
    /// The name of the suite.
    pub suite: &'static str,
    /// The ICV with sequence numbers of 32 bits.
    pub short: &'static str,
    /// The ICV with extended sequence numbers.
    pub extended: &'static str,
    /// The ICV of the long packet, with extended sequence numbers.
    pub long: &'static str,
}

/// The output of one algorithm of AH, in hexadecimal.
pub struct AhAnswer {
    /// The name of the integrity algorithm.
    pub integrity: &'static str,
    /// IV, if it has one, and ICV.
    pub icv: &'static str,
}
