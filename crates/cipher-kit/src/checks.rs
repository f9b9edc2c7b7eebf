//! The checks, as they run in a child. Each says what it found; a check that a kind of cipher cannot have says so.

mod agreement;
mod compute;
mod conduct;
mod esp;
mod forgery;
mod host;
mod memory;
mod montecarlo;

use cipher_loader::subject::Subject;
use crypto::custom::{CustomCipher as _, Primitive};

use crate::calls::{LENIENT, Verdict};
use crate::name::{CheckName, REFERENCE};

/// Do what a parent asks for by this name.
pub(crate) fn run(name: &str, subject: &Subject<'_>) -> Verdict {
    if name == REFERENCE {
        return agreement::with_reference(subject);
    }
    match name.parse().map_err(|error: crate::name::UnknownCheck| error.to_string())? {
        CheckName::Descriptor => Ok(described(subject)),
        CheckName::Vectors => vectors(subject),
        CheckName::Inverse => compute::inverse(subject),
        CheckName::Permutation => compute::permutation(subject),
        CheckName::Multiblock => compute::multiblock(subject),
        CheckName::Placement => compute::placement(subject),
        CheckName::Reentrancy => conduct::reentrancy(subject),
        CheckName::Immutability => conduct::immutability(subject),
        CheckName::Wipe => conduct::wipe(subject),
        CheckName::Keys => {
            subject.short("setkey", LENIENT)?;
            subject.short("keys", LENIENT)?;
            Ok("keys of six other lengths are refused; two keys at once, and one key set twice".to_owned())
        }
        CheckName::Forgery => forgery::forgery(subject),
        CheckName::Esp => esp::esp(subject),
        CheckName::MonteCarlo => montecarlo::montecarlo(subject),
        CheckName::Agreement => agreement::agreement(subject),
        CheckName::Memory => memory::memory(subject),
    }
}

/// The child has loaded the library already: what it said is as the manifest has it.
fn described(subject: &Subject<'_>) -> String {
    let description = subject.cipher().description();
    let kind = match description.primitive {
        Primitive::Block { block_len } => format!("blocks of {block_len} octets"),
        Primitive::Stream => "a stream cipher".to_owned(),
        Primitive::Aead { tag_len } => format!("an AEAD with tags of {tag_len} octets"),
    };
    let more = if subject.cipher().has_optional_functions() { ", with optional functions" } else { "" };
    format!(
        "{kind}, keys of {} octets{more}; loading it did nothing that is forbidden, and the manifest agrees",
        description.key_len
    )
}

fn vectors(subject: &Subject<'_>) -> Verdict {
    let counts = subject.run_vectors(LENIENT)?;
    let modes = [
        ("block", counts.block),
        ("ctr", counts.ctr),
        ("cbc", counts.cbc),
        ("gcm", counts.gcm),
        ("stream", counts.stream),
        ("aead", counts.aead),
        ("invalid", counts.invalid),
    ];
    let words = modes.iter().filter(|(_, count)| *count > 0).map(|(mode, count)| format!("{count} {mode}"));
    Ok(format!("{} tests: {}", counts.total(), words.collect::<Vec<_>>().join(", ")))
}
