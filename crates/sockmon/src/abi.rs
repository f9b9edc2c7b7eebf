//! The contract with the BPF programs, mirrored from `bpf/include/abi.h`. `tests/suite/abi.rs` compares every size and
//! offset with the BTF of the object.

#![allow(missing_docs, reason = "abi.h and docs/design/0002 document the fields, once")]

/// Raised whenever a pinned map of an older daemon would be misread.
pub const ABI: u32 = 8;
/// What can be taken over in place. ABI 8 has a bit more in what items demand (RVL_SERVICE_NAMED in abi.h), and
/// everything else as ABI 7; ABI 6 has a smaller table of counters. Programs of both find that bit in no packet, so they
/// refuse until they are exchanged.
pub const ABIS_BEFORE: [u32; 2] = [7, 6];

/// Bits of the mark (docs/design/0002).
pub mod mark {
    /// The bits that hold the number of the application.
    pub const APP: u32 = 0x0000_ffff;
    /// The socket belongs to an application.
    pub const STAMPED: u32 = 0x0001_0000;
    /// Inbound: the packet was authenticated. Outbound: the socket asked for it.
    pub const AUTHENTICATED: u32 = 0x0100_0000;
    /// Inbound: the packet was encrypted. Outbound: the socket asked for it.
    pub const ENCRYPTED: u32 = 0x0200_0000;
    /// Inbound: the packet came out of an association.
    pub const PROOF: u32 = 0x8000_0000;
    /// The packet is on its way through a gateway.
    pub const FORWARDED: u32 = 0x0002_0000;
    /// The packet arrived in clear from outside; in a forwarded one this stands beside [`FORWARDED`].
    pub const ARRIVED: u32 = 0x0004_0000;
    /// In a record, this bit says that the lower half of the cookie is the user that owns the socket.
    pub const USER: u32 = 0x0008_0000;
    /// Every bit that is ours on sockets.
    pub const OURS: u32 = APP | STAMPED | AUTHENTICATED | ENCRYPTED | PROOF;
}

/// The application whose table holds the networks that nothing unpoliced may leave for.
pub const APP_GUARD: u16 = 0xfffe;
/// Items of one protection, at most.
pub const ITEMS: usize = 32;
/// Selectors of one entry of `live_sa`, at most.
pub const LIVE_EACH: usize = 7;
/// In place of the number of selectors of `live_sa`: every flow is served.
pub const LIVE_ALL: u32 = 255;
/// Octets of an application's name, with the zero octet behind it.
pub const NAME: usize = 128;
/// Octets of a DNS message that are looked at.
pub const ANSWER: usize = 1232;
/// Slots of `applications` for one generation; even and odd ones have a half each.
pub const APP_NUMBERS: u32 = 65_536;
/// The last number of a table.
pub const TABLE_LAST: u32 = 0x7fff_ffff;
/// The last generation; the next is 1 again. One octet, so that no reader sees half of an update.
pub const LAST_GENERATION: u32 = 254;

/// Slots of `lists` for one generation; even and odd ones have a half each.
pub const LISTS: u32 = 32768;
/// Slots of `choices` for one generation.
pub const CHOICES: u32 = 65536;
/// Choices of one list, at most.
pub const LIST_CHOICES: usize = 32;
/// Bits for the images of `from`.
pub const ANCESTORS: u32 = 64;
/// Control groups, slot 0 left free.
pub const GROUPS: u32 = 256;
/// Octets of a control group's path, with the zero octet behind it.
pub const GROUP_PATH: usize = 256;
/// Octets of a file name of `places`, with the zero octet behind it.
pub const PLACE_NAME: usize = 64;
pub const LIST_ANY: u32 = 0;
pub const LIST_ANONYMOUS: u32 = 1;
pub const LIST_REFUSED: u32 = 2;
pub const LIST_FIRST: u32 = 3;
/// The application of what must not send.
pub const APP_REFUSED: u16 = u16::MAX;
pub const HOOK_EXECUTE: u8 = 7;
/// A bit beside the hook: not refused, but it would have been.
pub const HOOK_OBSERVED: u8 = 0x80;

pub const TRUSTED: u8 = 1;
pub const UNTRUSTED: u8 = 2;
pub const PROTECTED: u8 = 3;
pub const MANDATORY: u8 = 1;
pub const OPTIONAL: u8 = 2;
pub const ACCEPT_ONLY: u8 = 3;
pub const NEVER: u8 = 4;
pub const BYPASS_OUT: u32 = 1;
pub const BYPASS_IN: u32 = 2;
pub const ORDER_HIGH: u8 = 1;
pub const ORDER_LOW: u8 = 2;
pub const ORDER_REFUSE: u8 = 0;
pub const ORDER_TO: u8 = 1;
pub const ORDER_FROM: u8 = 2;
/// A bit in the lower word of a key of `order`: the key is of applications, not of tables.
pub const ORDER_APPS: u32 = 0x8000_0000;
pub const ORDER_GENERATION: u32 = 16;
/// Kinds of traffic: one field of `AppTraffic` each.
pub const TRAFFIC_KINDS: usize = 13;
/// [`SocketReport::stamped`]: it has no stamp; with an application, there is no room for the one it should have.
pub const UNSTAMPED: u8 = 0;
/// [`SocketReport::stamped`]: the socket has become its application's just now.
pub const STAMPED_NOW: u8 = 2;
/// [`SocketReport::stamped`]: the socket has no stamp, and no hook runs for it.
pub const UNWATCHED: u8 = 3;
/// Kinds of traffic from this number on are refusals, by the number of their counter.
pub const TRAFFIC_REASON: u16 = 256;
/// Kinds of traffic from this number on are calls that would have been refused, by the number of their counter.
pub const TRAFFIC_WOULD_REASON: u16 = 512;
/// Classes of packets, at most.
pub const AGGREGATES: usize = 64;
/// Queues of the TUN, at most.
pub const TUN_QUEUES: usize = 16;
/// Queues of the sockets for outer packets, at most; the last one is for what names no association.
pub const SOCKET_QUEUES: usize = 17;
/// Sets of open fields of reserved flows.
pub const SHAPES: usize = 8;
/// Reserved flows, at most.
pub const RESERVED_FLOWS: usize = 16_384;
/// The value that stands for any DSCP in the name of a reserved flow.
pub const ANY_DSCP: u8 = 255;
/// Applications that rules of classes name, at most.
pub const SPLIT_APPS: usize = 1024;
/// Words of the key of the hash of users.
pub const SPLIT_WORDS: usize = 6;
/// Applications with a limit on what they accept, at most.
pub const ACCEPTS: usize = 1024;
/// Where the number of applications with a limit on what they accept begins in `Config.limits`.
pub const LIMITS_ACCEPT: u32 = 16;
/// Sets of sources of one application, without the one of all that have no place.
pub const SOURCE_SETS: u16 = 64;
/// Sources of one set.
pub const SOURCE_EACH: usize = 8;
/// Flows in the table, at most.
pub const FLOWS: usize = 65536;
pub const FLOWS_APPS: u32 = 1;
pub const FLOWS_ALL: u32 = 2;
pub const FLOW_OUT: u8 = 1;
pub const FLOW_IN: u8 = 2;
pub const FLOW_RESET: u8 = 4;
pub const CALL_LISTEN: u8 = 1;
pub const CALL_ACCEPT: u8 = 2;
pub const CALL_CONNECT: u8 = 3;
pub const CALL_RECVFROM: u8 = 4;
pub const CALL_SENDTO: u8 = 5;
pub const CALL_CLOSE: u8 = 6;
pub const CALL_TIME_WAIT: u8 = 7;

/// What a counter of the kernel half means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// Whether it counts packets or calls that were refused.
    pub refusal: bool,
    /// A sentence that says what was counted.
    pub text: &'static str,
}

// `COUNTERS` and `MEANINGS`: the names and what they mean, from the table in abi.h.
include!(concat!(env!("OUT_DIR"), "/counters.rs"));

/// A structure of the contract: no padding, every bit pattern valid.
///
/// # Safety
///
/// The type is `repr(C)`, has no padding octet, and every bit pattern is a value of it.
pub unsafe trait Wire: Copy + Sized {
    /// The bytes, to hand to the kernel.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the trait promises that there is no padding, so every octet is initialised.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast::<u8>(), size_of::<Self>()) }
    }

    /// The value behind bytes from the kernel; `None` if there are too few.
    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < size_of::<Self>() {
            return None;
        }
        // SAFETY: long enough, and the trait promises that every bit pattern is a value; alignment is not assumed.
        Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<Self>()) })
    }
}

macro_rules! contract {
    ($($(#[$doc:meta])* struct $name:ident { $($field:ident: $type:ty,)* })*) => {
        $($(#[$doc])* #[repr(C)] #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name { $(pub $field: $type,)* }
        // SAFETY: repr(C) integers and arrays of them (or of such structures); the assertion shows that the sizes of the fields add up.
        unsafe impl Wire for $name {}
        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*, "padding");
        impl Layout for $name {
            fn layout() -> (usize, Vec<(&'static str, usize)>) {
                (size_of::<$name>(), vec![$((stringify!($field), std::mem::offset_of!($name, $field))),*])
            }
        })*
    };
}

impl Split {
    /// The split by which nothing is split.
    pub const NONE: Split = Split {
        seed: [0; SPLIT_WORDS],
        queues: 0,
        of_dscp: [0; AGGREGATES],
        of: [Share { first: 0, count: 0 }; AGGREGATES],
        apps: 0,
    };
}

/// Sizes and offsets, for the test that compares them with the object.
pub trait Layout {
    /// The size, and each field's name and offset.
    fn layout() -> (usize, Vec<(&'static str, usize)>);
}

contract! {
    /// Where the fields of a mark lie.
    struct Layouts {
        ours: u32,
        standard: u8,
        app_shift: u8,
        app_bits: u8,
        flags: [u8; 6],
        zero: [u8; 3],
    }
    struct Config {
        abi: u32,
        generation: u32,
        netns: u64,
        exempt: u64,
        cgroup: u64,
        tun: u32,
        enc: u32,
        per_socket: u32,
        guards: u32,
        lists: u32,
        mark: u32,
        ancestors: u64,
        fresh: u64,
        observe: u32,
        limits: u32,
        flows: u32,
        no_requests: u32,
    }
    /// An executable as the kernel knows it.
    struct Identity {
        inode: u64,
        device: u32,
        generation: u32,
    }
    struct Executable {
        list: u32,
        zero: u32,
        version: u64,
        digest: [u8; 32],
    }
    struct Task {
        identity: Identity,
        ancestors: u64,
        version: u64,
        list: u32,
        verified: u32,
    }
    struct Place {
        directory: Identity,
        name: [u8; PLACE_NAME],
    }
    struct List {
        bits: u64,
        place: u64,
        first: u32,
        count: u16,
        app: u16,
        pinned: u32,
        zero: u32,
    }
    struct Choice {
        first_user: u32,
        last_user: u32,
        app: u16,
        group: u16,
        from: u8,
        zero: [u8; 3],
    }
    struct Group {
        id: u64,
        level: u32,
        zero: u32,
    }
    struct GroupPath {
        text: [u8; GROUP_PATH],
    }
    struct NetworkKey {
        prefixlen: u32,
        table: u32,
        addr: [u8; 16],
    }
    struct Network {
        class: u8,
        would: u8,
        zero: [u8; 2],
        protection: u32,
    }
    struct Item {
        local_first: u16,
        local_last: u16,
        remote_first: u16,
        remote_last: u16,
        services: u8,
        level: u8,
        protocol: u8,
        aggregate: u8,
    }
    struct Share {
        first: u8,
        count: u8,
    }
    struct Split {
        seed: [u64; SPLIT_WORDS],
        queues: u32,
        of_dscp: [u8; AGGREGATES],
        of: [Share; AGGREGATES],
        apps: u32,
    }
    struct ReservedKey {
        destination: [u8; 16],
        source_port: u16,
        destination_port: u16,
        protocol: u8,
        dscp: u8,
        zero: [u8; 2],
    }
    struct Reserved {
        until: u64,
        ns_per_1024: u64,
        burst_ns: u64,
        least: u32,
        aggregate: u8,
        zero: [u8; 3],
    }
    struct Shapes {
        all: u32,
        flows: [u32; SHAPES],
    }
    struct AppClasses {
        of_dscp: [u8; AGGREGATES],
    }
    struct KernelQueue {
        arrived: u64,
        lost: u64,
        taken: u64,
        limit: u64,
        gone: u64,
        zero: [u64; 3],
    }
    /// An inbound association, by what its outer packets show.
    struct SaName {
        spi: u32,
        source: [u8; 16],
    }
    struct Protection {
        count: u32,
        zero: u32,
        terms: u64,
        items: [Item; ITEMS],
    }
    struct OrderKey {
        low: u32,
        high: u32,
    }
    struct PeerKey {
        prefixlen: u32,
        addr: [u8; 16],
    }
    struct LiveSelector {
        local: [u8; 16],
        local_first: u16,
        local_last: u16,
        remote_first: u16,
        remote_last: u16,
        app: u16,
        protocol: u8,
        local_len: u8,
    }
    struct Live {
        count: u32,
        of: [LiveSelector; LIVE_EACH],
    }
    struct UserKey {
        prefixlen: u32,
        user: [u8; 4],
    }
    struct ListenerKey {
        addr: [u8; 16],
        port: u16,
        zero: u16,
    }
    struct EndpointKey {
        netns: u64,
        addr: [u8; 16],
        device: u32,
        port: u16,
        zero: u16,
    }
    struct Endpoint {
        app: u16,
        required: u8,
        zero: u8,
    }
    struct Name {
        text: [u8; NAME],
    }
    struct Socket {
        netns: u64,
        app: u16,
        required: u8,
        in_force: u8,
        was: u16,
        unclaimed: u16,
        proven: u64,
    }
    struct Event {
        pid: u32,
        uid: u32,
        app: u16,
        port: u16,
        family: u8,
        protocol: u8,
        hook: u8,
        counter: u8,
        addr: [u8; 16],
        comm: [u8; 16],
    }
    struct SocketEvent {
        cookie: u64,
        time: u64,
        app: u16,
        local_port: u16,
        remote_port: u16,
        protocol: u8,
        call: u8,
        local: [u8; 16],
        remote: [u8; 16],
    }
    struct AnnouncedKey {
        cookie: u64,
        local: [u8; 16],
        remote: [u8; 16],
        local_port: u16,
        remote_port: u16,
        protocol: u8,
        call: u8,
        zero: u16,
    }
    struct TrafficKey {
        app: u16,
        kind: u16,
    }
    struct Traffic {
        packets: u64,
        octets: u64,
    }
    struct LimitKey {
        generation: u16,
        app: u16,
    }
    struct Limit {
        octets: u64,
        octets_ahead: u64,
        packets: u64,
        packets_ahead: u64,
    }
    struct Spent {
        lock: u32,
        zero: u32,
        octets: u64,
        packets: u64,
        octets_rate: u64,
        packets_rate: u64,
    }
    struct SourceKey {
        app: u16,
        set: u16,
    }
    struct Source {
        high: u64,
        low: u64,
        last: u64,
        octets: u64,
        packets: u64,
        octets_rate: u64,
        packets_rate: u64,
    }
    struct Sources {
        lock: u32,
        zero: u32,
        seed: u64,
        of: [Source; SOURCE_EACH],
    }
    struct FlowKey {
        local: [u8; 16],
        remote: [u8; 16],
        local_port: u16,
        remote_port: u16,
        app: u16,
        protocol: u8,
        zero: u8,
    }
    struct FlowValue {
        kinds: [Traffic; TRAFFIC_KINDS],
        first: u64,
        last: u64,
        identity: Identity,
        pid: u32,
        begun: u8,
        ended: u8,
        zero: u16,
        comm: [u8; 16],
    }
    struct QuestionKey {
        cookie: u64,
        server: [u8; 16],
        number: u16,
        zero: [u16; 3],
    }
    struct Answer {
        cookie: u64,
        app: u16,
        length: u16,
        zero: u32,
        server: [u8; 16],
        message: [u8; ANSWER],
    }
    struct Record {
        version: u8,
        magic: [u8; 3],
        mark: u32,
        cookie: u64,
    }
    /// `struct ravelin_state` of include/ravelin.h: part of the public contract with programs.
    struct State {
        version: u32,
        application: u32,
        required: u32,
        demanded: u32,
        class_: u32,
        level: u32,
        in_force: u32,
        generation: u32,
        proven: u64,
    }
    /// The contract's copy of `struct ravelin_defaults` in include/ravelin.h.
    struct Defaults {
        version: u32,
        supported: u32,
        without_policy: u32,
        active: u32,
        generation: u32,
        tun: u32,
        enc: u32,
        zero: u32,
    }
    struct FileReport {
        pid: u32,
        fd: u32,
        identity: Identity,
        writers: i32,
        zero: u32,
    }
    struct TaskReport {
        pid: u32,
        uid: u32,
        identity: Identity,
        ancestors: u64,
        list: u32,
        app: u16,
        zero: u16,
    }
    struct SocketReport {
        pid: u32,
        fd: u32,
        identity: Identity,
        cookie: u64,
        netns: u64,
        inode: u64,
        mark: u32,
        app: u16,
        family: u16,
        local_port: u16,
        remote_port: u16,
        protocol: u8,
        state: u8,
        stamped: u8,
        required: u8,
        local: [u8; 16],
        remote: [u8; 16],
        comm: [u8; 16],
    }
}

// SAFETY: a plain integer.
unsafe impl Wire for u32 {}
// SAFETY: a plain integer.
unsafe impl Wire for u8 {}
// SAFETY: a plain integer.
unsafe impl Wire for u64 {}
// SAFETY: a plain integer.
unsafe impl Wire for i32 {}

/// A C string in a fixed field.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
