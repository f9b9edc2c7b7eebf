//! The interface that every cipher suite implements, and secrets that wipe themselves. This crate knows nothing of
//! IPsec.
//!
//! A provider is a crate that implements [`Provider`] and is handed to a [`Registry`] by value; several live side
//! by side. Batch calls come first, single calls are made on top of them. Sources: RFC 5116 (AEAD interface),
//! RFC 8221 (which algorithms), paper 001 section 2.1 (the transform table switch).
#![forbid(unsafe_code)]

mod aad;
mod benchmark;
pub mod custom;
mod error;
mod fingerprint;
pub mod known_answer;
mod mode;
mod provider;
mod registry;
mod secret;
mod steps;
mod suite;
mod suites;
mod transform;

pub use aad::AssociatedData;
pub use benchmark::Measurement;
pub use error::CryptoError;
pub use fingerprint::Fingerprint;
pub use mode::{CustomMode, ModeKind};
pub use provider::{Provider, WorkerCounts, WorkerState};
pub use registry::{ChoiceReason, Registry, Unit};
pub use secret::Secret;
pub use steps::{HashState, MAX_HASH_BLOCK, StepState};
pub use suite::{Cipher, Integrity, SuiteId, UnknownSuite};
pub use suites::{RegisterError, Suites};
pub use transform::{
    Authenticator, HEADER_LEN, MAX_ICV_LEN, MAX_IV_LEN, OpenOp, SealOp, Transform, UnitFailed,
};
