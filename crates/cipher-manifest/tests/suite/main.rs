//! The readers of manifests and vector files, and the vectors before ciphers that are right or wrong in one place.

mod ciphers;
mod manifest;
mod published;
mod vectors;
mod wrong;
