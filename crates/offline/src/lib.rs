//! Captures through the engine and through the scrubber, without root, a daemon or a clock.
//!
//! What enters: captures, files of associations and rules, a configuration with its policy. What leaves: captures, and
//! the documents that say what became of each packet ([`replay`], [`scrub`]). Nothing here touches the kernel half, so
//! neither libbpf nor a web server is linked.
#![forbid(unsafe_code)]

pub mod replay;
pub mod scrub;
mod text;
