//! The worker's half: batches first, then key stream for numbers to come, then sleep.
//!
//! It runs in the process of the library and believes the host, which it cannot harm; what it reads is checked all the
//! same, so that a mistake on one side does not become one on both.

mod ahead;
mod chain;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, fence};
use std::time::{Duration, Instant};

use crypto::UnitFailed;
use crypto::custom::{AeadOp, CbcOp, CtrOp, CustomCipher, CustomKey, Primitive, SetKeyError, StreamOp};

use self::chain::PACKETS;
use crate::futex;
use crate::layout::{self, ENTRIES, ENTRY, LANE_DATA, LANES, Op, Status, entry, host, lane, worker};
use crate::memory::{Memory, Outside};

/// The time that an idle worker spins before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// The longest sleep; a missed wake-up costs no more.
const SLEEP: Duration = Duration::from_millis(100);

/// A worker that is running.
pub(crate) struct Server<'a> {
    cipher: &'a dyn CustomCipher,
    host: &'a Memory,
    worker: &'a Memory,
    keys: Vec<Option<WorkerKey>>,
    /// The last request of each lane.
    served: [u32; LANES],
    tag_len: usize,
    block_len: usize,
    scratch: Box<ahead::Scratch>,
}

/// A key of this worker.
struct WorkerKey {
    key: CustomKey,
    ahead: ahead::Progress,
}

/// Serve a host until `stop` is true: what a worker process does with the library's cipher. A test can run it in a thread
/// with any cipher.
///
/// # Errors
/// [`Outside`]: the memories are not those of this version.
pub fn serve(
    cipher: &dyn CustomCipher,
    host: &Memory,
    worker: &Memory,
    stop: &AtomicBool,
) -> Result<(), Outside> {
    let mut server = Server::new(cipher, host, worker)?;
    server.ready()?;
    let mut idle: Option<Instant> = None;
    while !stop.load(Relaxed) {
        if server.turn()? {
            idle = None;
            continue;
        }
        if idle.get_or_insert_with(Instant::now).elapsed() < SPIN {
            std::hint::spin_loop();
            continue;
        }
        idle = None;
        server.sleep()?;
    }
    Ok(())
}

impl<'a> Server<'a> {
    fn new(
        cipher: &'a dyn CustomCipher,
        host: &'a Memory,
        worker: &'a Memory,
    ) -> Result<Server<'a>, Outside> {
        let right = host.long(host::MAGIC)?.load(Relaxed) == layout::MAGIC
            && host.word(host::VERSION)?.load(Relaxed) == layout::VERSION;
        let keys = host.word(host::KEYS)?.load(Relaxed) as usize;
        if !right || keys > layout::MOST_KEYS || worker.len() != layout::worker_len(keys) {
            return Err(Outside);
        }
        let mut served = [0; LANES];
        for (index, served) in served.iter_mut().enumerate() {
            // What was asked of the worker before is not answered.
            *served = host.word(layout::lane(index) + lane::REQUEST)?.load(Acquire);
        }
        let (tag_len, block_len) = match cipher.description().primitive {
            Primitive::Block { block_len } => (0, block_len.clamp(1, 16)),
            Primitive::Stream => (0, 1),
            Primitive::Aead { tag_len } => (tag_len.min(16), 1),
        };
        Ok(Server {
            cipher,
            host,
            worker,
            keys: (0..keys).map(|_| None).collect(),
            served,
            tag_len,
            block_len,
            scratch: Box::default(),
        })
    }

    fn ready(&self) -> Result<(), Outside> {
        let epoch = self.host.word(host::EPOCH)?.load(Acquire);
        self.worker.word(worker::VERSION)?.store(layout::VERSION, Relaxed);
        self.worker.word(worker::EPOCH)?.store(epoch, Relaxed);
        self.worker.word(worker::STATE)?.store(worker::READY, Release);
        Ok(())
    }

    /// Whether there was anything to do.
    fn turn(&mut self) -> Result<bool, Outside> {
        let mut busy = self.batches()?;
        for key in 0..self.keys.len() {
            let Some(Some(held)) = self.keys.get_mut(key) else { continue };
            let WorkerKey { key: prepared, ahead } = held;
            if ahead.go_on(self.host, self.worker, key, prepared, &mut self.scratch)? {
                busy = true;
                self.batches()?;
            }
        }
        Ok(busy)
    }

    /// Sleep until the doorbell changes, unless there is something to do already.
    fn sleep(&mut self) -> Result<(), Outside> {
        let bell = self.host.word(host::DOORBELL)?;
        let seen = bell.load(SeqCst);
        self.worker.word(worker::SLEEPING)?.store(1, SeqCst);
        fence(SeqCst);
        let busy = self.turn()?;
        if !busy {
            futex::wait(bell, seen, Some(SLEEP));
        }
        self.worker.word(worker::SLEEPING)?.store(0, SeqCst);
        Ok(())
    }

    fn batches(&mut self) -> Result<bool, Outside> {
        let mut busy = false;
        for index in 0..LANES {
            let base = layout::lane(index);
            let request = self.host.word(base + lane::REQUEST)?.load(Acquire);
            let Some(served) = self.served.get_mut(index).filter(|served| **served != request) else {
                continue;
            };
            *served = request;
            let status = self.batch(index).unwrap_or(Status::Refused);
            self.worker.word(base + lane::STATUS)?.store(status as u32, Relaxed);
            let reply = self.worker.word(base + lane::REPLY)?;
            reply.store(request, SeqCst);
            if self.host.word(base + lane::WAITING)?.load(SeqCst) != 0 {
                futex::wake(reply);
            }
            busy = true;
        }
        Ok(busy)
    }

    fn batch(&mut self, index: usize) -> Result<Status, Outside> {
        let base = layout::lane(index);
        let number = |at| Ok(self.host.word(base + at)?.load(Relaxed));
        let (op, key, count) =
            (number(lane::OP)?, number(lane::KEY)? as usize, number(lane::COUNT)? as usize);
        let op = Op::of(op).ok_or(Outside)?;
        if count > ENTRIES || key >= self.keys.len() {
            return Err(Outside);
        }
        match op {
            Op::SetKey => return self.set_key(index, key),
            Op::DropKey => {
                if let Some(held) = self.keys.get_mut(key) {
                    *held = None;
                }
                return Ok(Status::Ok);
            }
            _ => {}
        }
        let mut all = Ok(());
        for first in (0..count).step_by(PACKETS) {
            let mut entries = [Entry::default(); PACKETS];
            let now = (count - first).min(PACKETS);
            for (at, entry) in entries.iter_mut().take(now).enumerate() {
                *entry = self.entry(index, first + at)?;
            }
            let entries = entries.get(..now).ok_or(Outside)?;
            let done = self.packets(index, first, op, key, entries)?;
            all = all.and(done);
        }
        Ok(if all.is_ok() { Status::Ok } else { Status::Failed })
    }

    fn set_key(&mut self, index: usize, key: usize) -> Result<Status, Outside> {
        let entry = self.entry(index, 0)?;
        let octets = self.host.view(layout::lane_data(index) + entry.data, entry.len)?;
        let made = self.cipher.set_key(octets);
        let held = self.keys.get_mut(key).ok_or(Outside)?;
        *held = None;
        Ok(match made {
            Ok(key) => {
                *held = Some(WorkerKey { key, ahead: ahead::Progress::default() });
                Status::Ok
            }
            Err(SetKeyError::Length) => Status::Length,
            Err(SetKeyError::Weak) => Status::Weak,
            Err(SetKeyError::Unit(_) | SetKeyError::NoRoom(_)) => Status::Failed,
        })
    }

    /// One entry of a lane, if everything that it names lies in the lane.
    fn entry(&self, index: usize, number: usize) -> Result<Entry, Outside> {
        let at = layout::lane(index) + lane::ENTRIES + number * ENTRY;
        let word = |field| Ok(self.host.word(at + field)?.load(Relaxed) as usize);
        let mut entry = Entry {
            data: word(entry::DATA)?,
            len: word(entry::LEN)?,
            aad: word(entry::AAD)?,
            aad_len: word(entry::AAD_LEN)?,
            tag: word(entry::TAG)?,
            offset: self.host.long(at + entry::OFFSET)?.load(Relaxed),
            nonce: [0; 16],
        };
        self.host.take(at + entry::NONCE, &mut entry.nonce)?;
        let within = |at: usize, len: usize| at.checked_add(len).is_some_and(|end| end <= LANE_DATA);
        let all = within(entry.data, entry.len) && within(entry.aad, entry.aad_len) && within(entry.tag, 16);
        if all { Ok(entry) } else { Err(Outside) }
    }

    /// At most sixteen packets of a batch, in place in the worker's memory.
    fn packets(
        &self,
        index: usize,
        first: usize,
        op: Op,
        key: usize,
        entries: &[Entry],
    ) -> Result<Result<(), UnitFailed>, Outside> {
        let base = layout::lane_data(index);
        let held = self.keys.get(key).and_then(Option::as_ref).ok_or(Outside)?;
        let mut data: [&mut [u8]; PACKETS] = std::array::from_fn(|_| Default::default());
        let mut end = 0;
        for (entry, data) in entries.iter().zip(&mut data) {
            if entry.data < end {
                // Packets that overlap would be two references to one place.
                return Err(Outside);
            }
            end = entry.data + entry.len.max(1);
            if self.tag_len > 0 {
                if entry.tag < end {
                    return Err(Outside);
                }
                end = entry.tag + self.tag_len;
            }
            *data = self.worker.view_mut(base + entry.data, entry.len)?;
            if op == Op::KeyStream {
                data.fill(0);
            } else {
                data.copy_from_slice(self.host.view(base + entry.data, entry.len)?);
            }
        }
        let data = data.iter_mut().zip(entries);
        Ok(match (&held.key, op) {
            (CustomKey::Block(key), Op::Encrypt) => {
                let mut data = data;
                data.try_for_each(|(data, _)| key.encrypt_blocks(data))
            }
            (CustomKey::Block(key), Op::Decrypt) => {
                let mut data = data;
                data.try_for_each(|(data, _)| key.decrypt_blocks(data))
            }
            (CustomKey::Block(key), Op::KeyStream) => {
                let mut rest = data.map(|(data, entry)| CtrOp { counter: entry.nonce, data });
                let mut ops: [CtrOp<'_>; PACKETS] =
                    std::array::from_fn(|_| rest.next().unwrap_or(CtrOp { counter: [0; 16], data: &mut [] }));
                key.ctr_xor_batch(ops.get_mut(..entries.len()).ok_or(Outside)?)
            }
            (CustomKey::Block(key), Op::Cbc) => {
                let mut rest = data.map(|(data, entry)| CbcOp { iv: entry.nonce, data });
                let mut ops: [CbcOp<'_>; PACKETS] =
                    std::array::from_fn(|_| rest.next().unwrap_or(CbcOp { iv: [0; 16], data: &mut [] }));
                chain::encrypt(&**key, self.block_len, ops.get_mut(..entries.len()).ok_or(Outside)?)
            }
            (CustomKey::Stream(key), Op::KeyStream) => {
                let mut rest = data.map(|(data, entry)| StreamOp {
                    nonce: entry.nonce.get(..12).unwrap_or_default(),
                    offset: entry.offset,
                    data,
                });
                let mut ops: [StreamOp<'_>; PACKETS] = std::array::from_fn(|_| {
                    rest.next().unwrap_or(StreamOp { nonce: &[0; 12], offset: 0, data: &mut [] })
                });
                key.xor_batch(ops.get_mut(..entries.len()).ok_or(Outside)?)
            }
            (CustomKey::Aead(key), Op::Seal | Op::Open) => {
                let mut tags: [&mut [u8]; PACKETS] = std::array::from_fn(|_| Default::default());
                let mut aads: [&[u8]; PACKETS] = [&[]; PACKETS];
                for ((entry, tag), aad) in entries.iter().zip(&mut tags).zip(&mut aads) {
                    *tag = self.worker.view_mut(base + entry.tag, self.tag_len)?;
                    tag.copy_from_slice(self.host.view(base + entry.tag, self.tag_len)?);
                    *aad = self.host.view(base + entry.aad, entry.aad_len)?;
                }
                let mut rest = data.zip(tags.iter_mut().zip(aads)).map(|((data, entry), (tag, aad))| {
                    AeadOp { nonce: entry.nonce.get(..12).unwrap_or_default(), aad, data, tag, ok: false }
                });
                let mut ops: [AeadOp<'_>; PACKETS] = std::array::from_fn(|_| {
                    let none = AeadOp { nonce: &[0; 12], aad: &[], data: &mut [], tag: &mut [], ok: false };
                    rest.next().unwrap_or(none)
                });
                let ops = ops.get_mut(..entries.len()).ok_or(Outside)?;
                let done = if op == Op::Seal { key.seal_batch(ops) } else { key.open_batch(ops) };
                for (at, op) in ops.iter().enumerate() {
                    let result = layout::lane(index) + lane::RESULTS + (first + at) * 4;
                    self.worker.word(result)?.store(u32::from(op.ok), Relaxed);
                }
                done
            }
            _ => return Err(Outside),
        })
    }
}

/// One packet of a batch, as the host wrote it.
#[derive(Clone, Copy, Default)]
struct Entry {
    data: usize,
    len: usize,
    aad: usize,
    aad_len: usize,
    tag: usize,
    offset: u64,
    nonce: [u8; 16],
}
