//! The images of `from`: each has a bit in the record of a process, and keeps it as long as policies name it.

use crate::abi;
use crate::adopt;
use crate::error::SockmonError;
use crate::lists::hash;
use crate::programs::Loaded;
use policy::Image;
use std::collections::{BTreeMap, BTreeSet};

/// Bit numbers by image.
pub type Bits = BTreeMap<Image, u8>;

fn name(image: &Image) -> u64 {
    match image {
        Image::Path(text) | Image::Name(text) => hash(text.as_bytes()),
    }
}

/// The mask of all bits.
pub fn mask(bits: &Bits) -> u64 {
    bits.values().fold(0, |mask, bit| mask | 1 << bit)
}

/// Give every image a bit. One that an image of before has is not given to another at once: processes have it still.
pub fn prepare(loaded: &Loaded, images: &BTreeSet<Image>) -> Result<Bits, SockmonError> {
    let maps = &loaded.maps;
    let mut known = Vec::new();
    for bit in 0..abi::ANCESTORS {
        known.push(maps.read::<u64>("ancestors", &bit)?.unwrap_or(0));
    }
    let mut free = (0..abi::ANCESTORS).filter(|bit| known.get(*bit as usize) == Some(&0));
    let mut out = Bits::new();
    for image in images {
        let name = name(image);
        let bit = match known.iter().position(|known| *known == name) {
            Some(bit) => bit as u32,
            None => {
                let max = abi::ANCESTORS as usize;
                let bit = free.next().ok_or(SockmonError::TooManyAncestors { count: images.len(), max })?;
                maps.write("ancestors", &bit, &name)?;
                bit
            }
        };
        out.insert(image.clone(), bit as u8);
    }
    Ok(out)
}

/// Take the bits that stand for nothing any more from every process, give those that are new to whom they are due by the
/// ancestors that run now, and let the former be used again. When nobody looks at the policy before.
pub fn settle(loaded: &Loaded, bits: &Bits, before: u64) -> Result<(), SockmonError> {
    let maps = &loaded.maps;
    let wanted = mask(bits);
    let set = |ancestors, fresh| maps.set_config(&abi::Config { ancestors, fresh, ..maps.config()? });
    set(wanted, wanted & !before)?;
    // Twice: a process that executes something at the same moment may write over it once.
    let seen = adopt::tasks(loaded).and_then(|()| adopt::tasks(loaded));
    set(wanted, 0)?;
    seen?;
    for bit in (0..abi::ANCESTORS).filter(|bit| wanted >> bit & 1 == 0) {
        maps.write("ancestors", &bit, &0u64)?;
    }
    Ok(())
}
