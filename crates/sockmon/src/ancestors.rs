//! The images of `from`: each has a bit in the record of a process, and keeps it as long as policies name it.

use crate::abi;
use crate::adopt;
use crate::error::SockmonError;
use crate::lists::{Bits, hash, mask};
use crate::programs::{Loaded, Maps};
use policy::Image;
use std::collections::{BTreeMap, BTreeSet};

fn name(image: &Image) -> u64 {
    match image {
        Image::Path(text) | Image::Name(text) => hash(text.as_bytes()),
    }
}

/// The bit that every image is to have. One that an image of before has is not given to another at once: processes have
/// it still. Nothing is written.
pub fn choose(maps: &Maps, images: &BTreeSet<Image>) -> Result<Bits, SockmonError> {
    let in_force = maps.config()?.ancestors;
    let mut known: BTreeMap<u64, u32> = BTreeMap::new();
    // A bit outside of the mask was given by a load that failed.
    for bit in (0..abi::ANCESTORS).filter(|bit| in_force >> bit & 1 == 1) {
        known.extend(maps.read::<u64>("ancestors", &bit)?.map(|name| (name, bit)));
    }
    let mut free = (0..abi::ANCESTORS).filter(|bit| in_force >> bit & 1 == 0);
    let mut out = Bits::new();
    for image in images {
        let max = abi::ANCESTORS as usize;
        let full = || SockmonError::TooManyAncestors { count: images.len(), max };
        let bit = known.get(&name(image)).copied().or_else(|| free.next()).ok_or_else(full)?;
        out.insert(image.clone(), bit as u8);
    }
    Ok(out)
}

/// Give every image the bit that [`choose`] says.
pub fn prepare(maps: &Maps, images: &BTreeSet<Image>) -> Result<Bits, SockmonError> {
    let out = choose(maps, images)?;
    for (image, bit) in &out {
        maps.write("ancestors", &u32::from(*bit), &name(image))?;
    }
    Ok(out)
}

/// Take the bits that stand for nothing any more from every process, give those that are new to whom they are due by the
/// ancestors that run now. When nobody looks at the policy before.
pub fn settle(loaded: &Loaded, bits: &Bits, before: u64) -> Result<(), SockmonError> {
    let maps = &loaded.maps;
    let wanted = mask(bits);
    let set = |ancestors, fresh| maps.set_config(&abi::Config { ancestors, fresh, ..maps.config()? });
    set(wanted, wanted & !before)?;
    // Twice: a process that executes something at the same moment may write over it once.
    let seen = adopt::tasks(loaded).and_then(|()| adopt::tasks(loaded));
    set(wanted, 0)?;
    seen
}
