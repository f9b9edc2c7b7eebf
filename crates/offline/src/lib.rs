//! Captures through the engine, through the scrubber and through a graph of classes, without root, a daemon or a clock.
//!
//! What enters: captures, files of associations and rules, a configuration with its policy. What leaves: captures, and
//! the documents that say what became of each packet ([`replay`], [`scrub`], [`simulation`]). Nothing here touches the
//! kernel half, so neither libbpf nor a web server is linked.
#![forbid(unsafe_code)]

pub mod replay;
pub mod scrub;
pub mod simulation;
mod text;
