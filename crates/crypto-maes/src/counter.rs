//! Counter mode of a batch of packets (RFC 3686 section 4): the packets share runs of blocks, so that short ones fill
//! the pipe of the processor together.

use crypto::custom::CtrOp;

use crate::core::{Around, RUN};
use crate::words::{self, BLOCK, Block};

/// The packets that are left, as the steps around a block cipher: counters before it, the packets' own octets after it.
pub(crate) struct Packets<'a, 'b> {
    ops: &'a mut [CtrOp<'b>],
    /// Octets of the first packet that are done: whole blocks.
    done: usize,
    /// The whitening of the cipher's input and of its output.
    ends: [&'a Block; 2],
}

/// XOR the key stream into every packet. The cipher runs the steps around itself, with its whitening at both ends.
pub(crate) fn xor_batch(
    ops: &mut [CtrOp<'_>],
    ends: [&Block; 2],
    mut cipher: impl FnMut(&mut [Block], &mut Packets<'_, '_>),
) {
    let mut run = [[0; BLOCK]; RUN];
    let mut packets = Packets { ops, done: 0, ends };
    loop {
        let blocks = run.get_mut(..packets.blocks()).unwrap_or_default();
        if blocks.is_empty() {
            return;
        }
        cipher(blocks, &mut packets);
    }
}

impl Around for Packets<'_, '_> {
    /// Write the counter blocks of the next run.
    #[inline(always)]
    fn before(&mut self, mut places: &mut [Block]) {
        let [w, _] = self.ends;
        let mut done = self.done;
        for op in &*self.ops {
            let blocks = op.data.len().saturating_sub(done).div_ceil(BLOCK);
            let (here, later) = places.split_at_mut(blocks.min(places.len()));
            count(&op.counter, (done / BLOCK) as u32, here, w);
            if later.is_empty() {
                return;
            }
            (places, done) = (later, 0);
        }
    }

    /// XOR a run of key stream into the packets, and leave those behind that are complete.
    #[inline(always)]
    fn after(&mut self, mut stream: &mut [Block]) {
        let [_, w] = self.ends;
        let mut complete = 0;
        for op in &mut *self.ops {
            let data = op.data.get_mut(self.done..).unwrap_or_default();
            let blocks = data.len().div_ceil(BLOCK);
            let (here, later) = stream.split_at_mut(blocks.min(stream.len()));
            xor(data, here, w);
            if blocks > here.len() {
                self.done += here.len() * BLOCK;
                break;
            }
            (stream, self.done) = (later, 0);
            complete += 1;
        }
        let ops = std::mem::take(&mut self.ops);
        self.ops = ops.get_mut(complete..).unwrap_or_default();
    }
}

impl Packets<'_, '_> {
    /// Blocks of the next run.
    fn blocks(&self) -> usize {
        let (mut blocks, mut done) = (0, self.done);
        for op in &*self.ops {
            blocks += op.data.len().saturating_sub(done).div_ceil(BLOCK);
            done = 0;
            if blocks >= RUN {
                return RUN;
            }
        }
        blocks
    }
}

/// Write w ^ (counter + first + i) for each place i. The number is in the last four octets, big-endian, without carry
/// into the others.
#[inline(always)]
fn count(counter: &Block, first: u32, places: &mut [Block], w: &Block) {
    let ([low, high], [w_low, w_high]) = (words::words(counter), words::words(w));
    let (low, nonce) = (low ^ w_low, (high & u64::from(u32::MAX)) ^ w_high);
    let mut number = ((high >> 32) as u32).swap_bytes().wrapping_add(first);
    for place in places {
        *place = words::block([low, nonce ^ u64::from(number.swap_bytes()) << 32]);
        number = number.wrapping_add(1);
    }
}

/// Add the whitening to the stream, and XOR it into as many octets as there are. What stays in the run is key stream
/// then, which tells of packets alone.
#[inline(always)]
fn xor(data: &mut [u8], stream: &mut [Block], w: &Block) {
    let [w_low, w_high] = words::words(w);
    let (blocks, rest) = data.as_chunks_mut::<BLOCK>();
    let (whole, last) = stream.split_at_mut(blocks.len().min(stream.len()));
    for (to, from) in blocks.iter_mut().zip(whole) {
        let ([a, b], [x, y]) = (words::words(to), words::words(from));
        let [x, y] = [x ^ w_low, y ^ w_high];
        *from = words::block([x, y]);
        *to = words::block([a ^ x, b ^ y]);
    }
    words::add(last, w);
    rest.iter_mut().zip(last.as_flattened()).for_each(|(to, from)| *to ^= from);
}
