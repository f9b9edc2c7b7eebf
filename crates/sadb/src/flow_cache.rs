//! A cache of answers by flow, of fixed size, owned by one thread.
//!
//! Four-way set-associative: a lookup reads one set of four cache lines at most, and usually one line. An answer counts
//! only in the epoch it was given in, so one increment empties the cache. The set is chosen with a keyed function of
//! multiplications; were it broken, the price is misses, since a set never grows.

use std::net::Ipv4Addr;
use wire::plain::Plain;
use wire::{AppId, Flow, addr};

use crate::keyed::{fold, scatter};
use crate::selector::PacketKey;

const WAYS: usize = 4;
/// This bit of the caller's octet says that the ports of the flow cannot be read.
const OPAQUE: u8 = 0x40;

/// The key of an answer: a flow, its application and one octet that the caller chooses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FlowKey {
    // Halves rather than u128, whose alignment would push a way out of its cache line.
    local: [u64; 2],
    remote: [u64; 2],
    /// Ports, application, protocol, the caller's octet and whether the ports are opaque.
    rest: u64,
}

impl FlowKey {
    /// The key of this flow of this application; `tag` (without the bit `OPAQUE`) keeps apart answers to different
    /// questions about it.
    #[inline]
    pub fn new(app: AppId, flow: &Flow, tag: u8) -> FlowKey {
        let halves = |bits: u128| [(bits >> 64) as u64, bits as u64];
        FlowKey {
            local: halves(addr::to_bits(flow.local)),
            remote: halves(addr::to_bits(flow.remote)),
            rest: u64::from(flow.local_port)
                | u64::from(flow.remote_port) << 16
                | u64::from(app.0) << 32
                | u64::from(flow.protocol) << 48
                | u64::from(tag | if flow.opaque { OPAQUE } else { 0 }) << 56,
        }
    }

    /// The key of the flow of a plain packet that leaves. It is made straight from the packet's values, since the CPU
    /// would have to wait for a [`Flow`] that was just written to memory field by field.
    #[inline]
    pub fn leaving(app: AppId, plain: &Plain, tag: u8) -> FlowKey {
        let halves = |v4: Ipv4Addr| [0, 0xffff << 32 | u64::from(u32::from(v4))];
        FlowKey {
            local: halves(plain.src),
            remote: halves(plain.dst),
            rest: u64::from(plain.ports.rotate_left(16))
                | u64::from(app.0) << 32
                | u64::from(plain.protocol) << 48
                | u64::from(tag) << 56,
        }
    }
}

/// A key by which a cache finds answers.
pub trait CacheKey: Copy + Eq {
    /// A key of all zeroes; it need not be one that is ever asked for.
    const ZERO: Self;

    /// A hash that depends on every bit of the key and on the seeds. Whoever does not know the seeds cannot choose keys
    /// that collide.
    fn hash(&self, seeds: &[u64; 4]) -> u64;
}

impl CacheKey for FlowKey {
    const ZERO: FlowKey = FlowKey { local: [0; 2], remote: [0; 2], rest: 0 };

    #[inline]
    fn hash(&self, [a, b, c, d]: &[u64; 4]) -> u64 {
        let local = fold(self.local[0] ^ a, self.local[1] ^ b);
        let remote = fold(self.remote[0] ^ c, self.remote[1] ^ d);
        fold(local ^ remote.rotate_left(32) ^ b, self.rest ^ c)
    }
}

impl CacheKey for PacketKey {
    const ZERO: PacketKey = PacketKey::EMPTY;

    #[inline]
    fn hash(&self, [a, b, c, d]: &[u64; 4]) -> u64 {
        let words = self.words();
        let remote = fold(words[0] ^ a, words[1] ^ b);
        let local = fold(words[2] ^ c, words[3] ^ d);
        let upper = fold(words[4] ^ b, words[5] ^ c);
        let rest = fold(words[6] ^ d, words[7] ^ a);
        fold(remote ^ local.rotate_left(32) ^ b, upper ^ rest.rotate_left(32) ^ c)
    }
}

/// One cached flow with its answer. It fills one cache line as long as the answer has at most 12 octets.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct CachedFlow<K, V> {
    key: K,
    epoch: u64,
    /// The cached answer; `None` if the way was never filled.
    answer: Option<V>,
}

impl<K, V> CachedFlow<K, V> {
    fn is_current(&self, epoch: u64) -> bool {
        self.epoch == epoch && self.answer.is_some()
    }
}

/// A cache of answers of type `V` by [`FlowKey`], or by another key.
pub struct FlowCache<V, K = FlowKey> {
    ways: Box<[CachedFlow<K, V>]>,
    /// The way of each set that is replaced next.
    victims: Box<[u8]>,
    seeds: [u64; 4],
    set_mask: u64,
}

impl<V: Copy, K: CacheKey> FlowCache<V, K> {
    /// A cache of `sets` (rounded up to a power of two) times four flows; `seed` must be one that others cannot know.
    pub fn new(sets: usize, seed: u64) -> FlowCache<V, K> {
        let sets = sets.clamp(1, 1 << 20).next_power_of_two();
        let empty = CachedFlow { key: K::ZERO, epoch: 0, answer: None };
        FlowCache {
            ways: vec![empty; sets * WAYS].into_boxed_slice(),
            victims: vec![0; sets].into_boxed_slice(),
            seeds: [1, 2, 3, 4].map(|stream| scatter(seed, stream)),
            set_mask: sets as u64 - 1,
        }
    }

    /// The answer given for this key in this epoch.
    // The first thing that every packet asks for. Left to the compiler, it becomes a call as soon as a third caller is
    // there, which costs a packet 3 ns.
    #[inline(always)]
    pub fn get(&self, epoch: u64, key: &K) -> Option<V> {
        let first = self.set(key) * WAYS;
        self.ways[first..first + WAYS].iter().find(|way| way.key == *key && way.epoch == epoch)?.answer
    }

    /// Remember the answer for a key. It replaces an answer for the same key, else one of an older epoch, else the next
    /// way in turn.
    pub fn put(&mut self, epoch: u64, key: &K, answer: V) {
        let set = self.set(key);
        let ways = &mut self.ways[set * WAYS..(set + 1) * WAYS];
        let same = ways.iter().position(|way| way.key == *key);
        let place = same.or_else(|| ways.iter().position(|way| !way.is_current(epoch)));
        let place = place.unwrap_or_else(|| {
            self.victims[set] = self.victims[set].wrapping_add(1);
            usize::from(self.victims[set]) % WAYS
        });
        ways[place] = CachedFlow { key: *key, epoch, answer: Some(answer) };
    }

    #[inline]
    fn set(&self, key: &K) -> usize {
        (key.hash(&self.seeds) & self.set_mask) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SaIndex;

    #[test]
    fn a_plain_packet_has_the_key_of_its_flow() {
        let (src, dst) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(203, 0, 113, 255));
        let plain = Plain {
            src,
            dst,
            ports: 0x1234_89ab,
            protocol: 17,
            tos: 0,
            ttl: 64,
            dont_fragment: true,
            syn: false,
            total_len: 28,
            checksum_ok: true,
        };
        let flow = plain.flow(true);
        assert_eq!((flow.local_port, flow.remote_port), (0x1234, 0x89ab));
        assert!(FlowKey::leaving(AppId(7), &plain, 3) == FlowKey::new(AppId(7), &flow, 3));
        assert!(FlowKey::leaving(AppId(7), &plain, 3) != FlowKey::new(AppId(7), &plain.flow(false), 3));
    }

    #[test]
    fn a_way_of_the_outbound_database_is_one_cache_line() {
        assert_eq!(size_of::<CachedFlow<FlowKey, Result<SaIndex, wire::DropReason>>>(), 64);
    }
}
