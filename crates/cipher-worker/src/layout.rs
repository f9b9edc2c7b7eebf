//! The places of everything in the two memories that host and worker share (docs/cipher-worker.md).
//!
//! The host alone writes the first memory, which the worker can only read; the worker alone writes the second. Numbers
//! have the octet order of the machine. All offsets are in octets.

/// `RVLCW`, three octets of zero: the first eight octets of the host's memory.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"RVLCW\0\0\0");
/// The version of layout and protocol.
pub const VERSION: u32 = 1;
/// Batches that can be under way at once, each of another thread of the host.
pub const LANES: usize = 4;
/// Packets that one batch can have.
pub const ENTRIES: usize = 64;
/// Octets of an entry.
pub const ENTRY: usize = 64;
/// Octets of data that one batch can have.
pub const LANE_DATA: usize = 256 << 10;
/// Octets of the head of a memory, and of the control area of a lane's words.
pub const PAGE: usize = 4096;
/// Octets of a lane in front of its data: words, then entries (host) or results (worker).
pub const LANE_CONTROL: usize = 2 * PAGE;
/// Octets of a lane.
pub const LANE: usize = LANE_CONTROL + LANE_DATA;
/// Octets of the ring of one key.
pub const RING: usize = 1 << 20;
/// Octets of a place in a ring: head and key stream.
pub const PLACE: usize = 1536;
/// Octets of the head of a place.
pub const PLACE_HEAD: usize = 64;
/// Octets of key stream that a place can have.
pub const PLACE_DATA: usize = PLACE - PLACE_HEAD;
/// Places of a ring. Number n is at place n mod this.
pub const PLACES: usize = RING / PLACE;
/// Numbers behind the next one that a ring still has, for packets that arrive out of order.
pub const BEHIND: u64 = 128;
/// Octets of what the host says about one key.
pub const RECORD: usize = 64;
/// Most keys that a worker can have.
pub const MOST_KEYS: usize = 4096;

/// The index of the key that known answers have, where there is room for so many keys: the last one, which no association
/// gets.
pub(crate) const fn spare(keys: usize) -> usize {
    keys.saturating_sub(1)
}

/// Words at the head of the host's memory.
pub mod host {
    /// The offset of [`super::MAGIC`], which has 8 octets.
    pub const MAGIC: usize = 0;
    /// The offset of [`super::VERSION`].
    pub const VERSION: usize = 8;
    /// The number of keys that there is room for.
    pub const KEYS: usize = 12;
    /// A number that grows with each start of a worker.
    pub const EPOCH: usize = 16;
    /// A word that changes when there is something to do. The worker sleeps on it.
    pub const DOORBELL: usize = 64;
}

/// Words at the head of the worker's memory.
pub mod worker {
    /// 0 before the worker is ready, then [`READY`].
    pub const STATE: usize = 0;
    /// The version that the worker speaks.
    pub const VERSION: usize = 4;
    /// The host's epoch, as the worker read it.
    pub const EPOCH: usize = 8;
    /// 1 while the worker sleeps on the doorbell, or is about to.
    pub const SLEEPING: usize = 64;
    /// The state of a worker that takes batches.
    pub const READY: u32 = 1;
}

/// Words of a lane in the host's memory.
pub mod lane {
    /// The number of the batch; a new one is a new batch. The host writes it last.
    pub const REQUEST: usize = 0;
    /// 1 while the host sleeps on the worker's reply.
    pub const WAITING: usize = 4;
    /// What is to be done: [`super::Op`].
    pub const OP: usize = 8;
    /// The index of the key.
    pub const KEY: usize = 12;
    /// The number of entries.
    pub const COUNT: usize = 16;
    /// The entries of the batch.
    pub const ENTRIES: usize = super::PAGE;
    /// In the worker's memory: the number of the last batch that is done. The worker writes it last.
    pub const REPLY: usize = 0;
    /// In the worker's memory: [`super::Status`] of that batch.
    pub const STATUS: usize = 4;
    /// In the worker's memory: a word for each entry; for [`super::Op::Open`] 1 if the tag was right.
    pub const RESULTS: usize = super::PAGE;
}

/// Fields of an entry.
pub mod entry {
    /// The offset of the data in both lanes' data.
    pub const DATA: usize = 0;
    /// The octets that the packet has.
    pub const LEN: usize = 4;
    /// The offset of the associated data in the host's.
    pub const AAD: usize = 8;
    /// Octets of associated data.
    pub const AAD_LEN: usize = 12;
    /// 8 octets: the octet of the key stream that a stream cipher begins with.
    pub const OFFSET: usize = 16;
    /// The offset of the tag: the host's data has it for opening, the worker's data has it after sealing.
    pub const TAG: usize = 24;
    /// 16 octets: counter block, IV or nonce.
    pub const NONCE: usize = 32;
}

/// Fields of the host's record about a key.
pub mod record {
    /// 0: nothing is computed ahead. Otherwise another number each time that the other fields but `FROM` changed.
    pub const GENERATION: usize = 0;
    /// Octets of key stream that are wanted for each number.
    pub const OCTETS: usize = 4;
    /// 8 octets: the first number that the ring is to have.
    pub const FROM: usize = 8;
    /// 16 octets: counter block or nonce, with zeros where the number goes (octets 4 to 11, big-endian).
    pub const TEMPLATE: usize = 16;
}

/// Fields of the head of a place in a ring.
pub mod place {
    /// The generation of the key's record that the key stream was made for; written last, and 0 before any change.
    pub const GENERATION: usize = 0;
    /// Octets of key stream that are there.
    pub const LEN: usize = 4;
    /// 8 octets: the number that the key stream is for.
    pub const NUMBER: usize = 8;
}

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Op {
    /// Prepare a key; entry 0 has it as data.
    SetKey = 1,
    /// Forget a key that was prepared.
    DropKey = 2,
    /// Encrypt blocks, each for itself.
    Encrypt = 3,
    /// Decrypt blocks, each for itself.
    Decrypt = 4,
    /// Write key stream, of counter mode or of a stream cipher. There is no input.
    KeyStream = 5,
    /// Encrypt packets in CBC mode.
    Cbc = 6,
    /// Seal packets by a combined mode.
    Seal = 7,
    /// Open packets by a combined mode.
    Open = 8,
}

impl Op {
    /// The operation of this number.
    pub fn of(number: u32) -> Option<Op> {
        use Op::{Cbc, Decrypt, DropKey, Encrypt, KeyStream, Open, Seal, SetKey};
        let all = [SetKey, DropKey, Encrypt, Decrypt, KeyStream, Cbc, Seal, Open];
        all.into_iter().find(|op| *op as u32 == number)
    }
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// All of it is done.
    Ok = 0,
    /// The key has the wrong length.
    Length = 1,
    /// The key is weak.
    Weak = 2,
    /// The library did not do it.
    Failed = 3,
    /// The request makes no sense, or there is no such key.
    Refused = 4,
}

/// Where a lane begins, in both memories.
pub const fn lane(index: usize) -> usize {
    PAGE + index * LANE
}

/// Where a lane's data begins, in both memories.
pub const fn lane_data(index: usize) -> usize {
    lane(index) + LANE_CONTROL
}

/// Where the record of a key begins, in the host's memory.
pub const fn record(key: usize) -> usize {
    lane(LANES) + key * RECORD
}

/// Where the place of a number begins in the ring of a key, in the worker's memory.
pub const fn place(key: usize, number: u64) -> usize {
    lane(LANES) + key * RING + (number % PLACES as u64) as usize * PLACE
}

/// Where the ring of a key begins, in the worker's memory.
pub const fn ring(key: usize) -> usize {
    lane(LANES) + key * RING
}

/// Octets of the host's memory for so many keys.
pub const fn host_len(keys: usize) -> usize {
    (lane(LANES) + keys * RECORD).next_multiple_of(PAGE)
}

/// Octets of the worker's memory for so many keys.
pub const fn worker_len(keys: usize) -> usize {
    lane(LANES) + keys * RING
}
