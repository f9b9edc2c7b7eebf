//! The ICVs, as tests/oracle.py prints them.

use super::Answer;

/// One of every suite.
pub const ANSWERS: &[Answer] = &[
    Answer {
        suite: "aes128gcm",
        short: "a1d7f45009b4baa95470e7f05922143d",
        extended: "0abf65148e5de8ab8fd2e729858e43af",
    },
    Answer {
        suite: "aes256gcm",
        short: "32bd1b442dd55c3751923293000fb0a3",
        extended: "82a4a375f0f727026cef393108310cbc",
    },
    Answer {
        suite: "chacha20poly1305",
        short: "7631afc95f6c32f786fe63091b68c320",
        extended: "bcf134b1de7f75cbb8bae60caa94c36c",
    },
];
