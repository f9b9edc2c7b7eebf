//! The errors that tell senders on this side about packets that do not fit: their source address, and their rate (RFC
//! 4443 sections 2.2 and 2.4 f).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};

use wire::ip::Headers;
use wire::{AppId, Buf, Meta, Time, icmp, record};

use crate::outbound::interface;

/// The rate of errors to all senders together. It is the one that Linux sets for its own (`icmp_msgs_per_sec`,
/// `icmp_msgs_burst`).
const ALL: Rate = Rate { per_second: 1000, burst: 50 };
/// The rate of errors to one sender about one destination. Path MTU discovery takes one error for each narrower link.
const EACH: Rate = Rate { per_second: 10, burst: 10 };
/// The number of pairs of sender and destination that are told apart. Pairs that meet in one bucket share its rate.
const PAIRS: u64 = 256;

/// The rate of a token bucket, and the largest number of tokens in it.
struct Rate {
    per_second: u64,
    burst: u64,
}

/// A token bucket, as the time at which it will be full again.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket(u64);

impl Bucket {
    /// Whether the bucket holds a token, which stays in it.
    fn has_one(self, now: Time, rate: &Rate) -> bool {
        self.0.saturating_sub(now.0) <= (rate.burst - 1) * rate.period()
    }

    fn take(&mut self, now: Time, rate: &Rate) {
        self.0 = self.0.max(now.0) + rate.period();
    }
}

impl Rate {
    const fn period(&self) -> u64 {
        1_000_000_000 / self.per_second
    }
}

/// The state of this module: the token buckets and this host's addresses.
#[derive(Debug)]
pub(crate) struct Answers {
    all: Bucket,
    each: Box<[Bucket; PAIRS as usize]>,
    /// A random number, so that nobody can aim at another sender's bucket.
    seed: u64,
    /// This host's own addresses, by interface index.
    own: BTreeMap<u32, Ipv6Addr>,
}

impl Answers {
    pub(crate) fn new(seed: u64) -> Answers {
        let each = Box::new([Bucket::default(); PAIRS as usize]);
        Answers { all: Bucket::default(), each, seed, own: BTreeMap::new() }
    }

    pub(crate) fn set_own(&mut self, own: BTreeMap<u32, Ipv6Addr>) {
        self.own = own;
    }

    /// The source address of an error about this packet. IPv6 wants one of this host's own (RFC 4443 section 2.2): that
    /// of the interface that the packet came by or, if this host sent the packet, the packet's source. `None` stands
    /// for the packet's destination. IPv4 always takes that: Linux accepts no packet from a device, neither for its own
    /// programs nor to forward, whose source is an address of this host.
    pub(crate) fn source(&self, meta: &Meta, headers: &Headers) -> Option<IpAddr> {
        if headers.version == 4 {
            return None;
        }
        match interface(meta) {
            Some(index) => self.own.get(&index).copied().map(IpAddr::V6),
            None => Some(headers.src),
        }
    }

    /// The error that tells the sender of a packet that only `mtu` octets go through; `None` if it may not be told, or
    /// not now.
    pub(crate) fn too_big(
        &mut self,
        meta: &Meta,
        original: &[u8],
        headers: &Headers,
        mtu: usize,
    ) -> Option<Buf> {
        let error = icmp::too_big(original, headers, mtu, self.source(meta, headers))?;
        // Answers of the kernel's and forwarded packets have no application.
        let app = if meta.mark & record::STAMPED != 0 { meta.app } else { AppId::NONE };
        self.may_tell(meta.received, headers, app).then_some(error)
    }

    fn may_tell(&mut self, now: Time, headers: &Headers, app: AppId) -> bool {
        let mut hasher = DefaultHasher::new();
        (self.seed, headers.src, headers.dst, app.0).hash(&mut hasher);
        let Some(each) = self.each.get_mut((hasher.finish() % PAIRS) as usize) else { return false };
        let may = each.has_one(now, &EACH) && self.all.has_one(now, &ALL);
        if may {
            each.take(now, &EACH);
            self.all.take(now, &ALL);
        }
        may
    }
}
