//! Known-answer tests: what a provider must compute before any key is given to it.
//!
//! Three packets a suite, laid out as ESP does: keying material 0, 1, 2 and so on, SPI 0x01020304, sequence number
//! 0x500000007; 64 octets of data with sequence numbers of 32 bits and with extended ones, and a long packet that no
//! implementation takes at once. The answer is the ICV alone: it covers IV and ciphertext, so no other ciphertext has it. The
//! ICVs were computed by another implementation (OpenSSL, through tests/oracle.py), not by a provider of this house;
//! published vectors of each algorithm are among the tests of the providers.
//!
//! The answers fix how IVs are made, too: counter modes send the sequence number, CBC modes the sequence number encrypted
//! as one block under the same key (NIST SP 800-38A appendix C). Every provider does it so, and an IV repeats nowhere.

use crate::{CryptoError, Integrity, Provider, SuiteId};

mod ah;
mod answer;
mod answers;
mod esp;
mod input;

pub use answer::{AhAnswer, Answer};
pub use answers::{AH_ANSWERS, ANSWERS};

use input::keymat;

/// Put a provider through the known answers of every suite and AH algorithm that it offers: sealing gives the ICV, opening
/// gives the data back, a changed octet anywhere is refused and so is an ICV cut short, in a batch as well as alone, no IV
/// comes twice, and keying material of the wrong length is refused.
///
/// # Errors
/// [`CryptoError::SelfTest`] or [`CryptoError::AuthenticatorSelfTest`] for the first that fails, or that has no known answer.
pub fn check(provider: &dyn Provider) -> Result<(), CryptoError> {
    check_part(provider, false)?;
    check_part(provider, true)
}

/// [`check`] for what is legacy, or for what is not. The legacy ciphers are slow, and most machines never use them.
pub(crate) fn check_part(provider: &dyn Provider, legacy: bool) -> Result<(), CryptoError> {
    let suites = SuiteId::all().filter(|suite| suite.is_legacy() == legacy);
    for suite in suites.filter(|suite| provider.offers(*suite)) {
        if !esp::passes(provider, suite) {
            return Err(CryptoError::SelfTest { provider: provider.name(), suite });
        }
    }
    for integrity in Integrity::ALL.iter().copied() {
        if integrity.legacy_status().is_some() != legacy {
            continue;
        }
        let key = provider.authenticator(integrity, &keymat(integrity.keymat_len()));
        let offered = !matches!(key, Err(CryptoError::NoAuthenticator(_)));
        if offered && !ah::passes(provider, integrity) {
            return Err(CryptoError::AuthenticatorSelfTest { provider: provider.name(), integrity });
        }
    }
    Ok(())
}
