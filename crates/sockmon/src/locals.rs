//! The addresses of this host, as the kernel half has them: what may be the source of a packet on `lo`.

use crate::abi::PeerKey;
use crate::error::SockmonError;
use crate::programs::Maps;
use crate::spans;
use std::collections::HashSet;
use wire::Prefix;

pub(crate) fn table_of(locals: &[Prefix]) -> HashSet<PeerKey> {
    locals.iter().map(|prefix| spans::key_of((prefix.first(), prefix.len()))).collect()
}

/// Make the table hold these. New ones first: what an address that stays sends to another is not refused meanwhile.
pub(crate) fn write(maps: &Maps, wanted: &HashSet<PeerKey>) -> Result<(), SockmonError> {
    let there: HashSet<PeerKey> = maps.keys::<PeerKey>("locals")?.into_iter().collect();
    wanted.difference(&there).try_for_each(|key| maps.write("locals", key, &1u32))?;
    there.difference(wanted).try_for_each(|key| maps.delete("locals", key))
}
