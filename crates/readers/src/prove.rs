//! The proof: cases of the small world, or a part of them, go through the middle and before all readers.

use crate::judge::Judge;
use crate::middlebox::{Middlebox, NoMiddlebox, Packets};
use crate::packet::Segment;
use crate::stack;
use crate::world::{Ack, Case, Content, Player, World};
use scrub::Side;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// The figures of what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of cases that were played.
    pub cases: u64,
    /// The number of cases that cannot be, since the inside cannot have acknowledged what it did not get.
    pub impossible: u64,
    /// The number of packets that were given to the middle.
    pub packets: u64,
    /// The number of sequences of packets that readers can tell apart.
    pub distinct: u64,
    /// The number of cases in which two readings contradict each other.
    pub forked: u64,
    /// The number of cases in which readers that lose nothing do not end alike.
    pub unequal: u64,
    /// The number of honest cases in which a reader does not get what it would have got without anybody in the middle.
    pub opaque: u64,
    /// The number of cases in which a reader that loses nothing, and ends at any RST or FIN whatever its number, ends
    /// before the others. No scrubber can help it where hosts must be let end a connection of which something was lost.
    pub hasty: u64,
    /// The number of the first case of each kind.
    pub first: [Option<u64>; 3],
}

impl Tally {
    /// Whether nothing speaks against the middle.
    pub fn is_clean(&self) -> bool {
        self.forked == 0 && self.unequal == 0 && self.opaque == 0
    }

    /// The number of cases with anything wrong.
    pub fn wrong(&self) -> u64 {
        self.forked + self.unequal + self.opaque
    }

    fn note(&mut self, kind: usize, number: u64) {
        let count = [&mut self.forked, &mut self.unequal, &mut self.opaque];
        *count.into_iter().nth(kind).expect("three kinds") += 1;
        self.first[kind] = Some(self.first[kind].map_or(number, |first| first.min(number)));
    }

    /// Add the figures of another part.
    pub fn add(&mut self, other: &Tally) {
        self.cases += other.cases;
        self.impossible += other.impossible;
        self.packets += other.packets;
        self.distinct += other.distinct;
        self.forked += other.forked;
        self.unequal += other.unequal;
        self.opaque += other.opaque;
        self.hasty += other.hasty;
        for (mine, theirs) in self.first.iter_mut().zip(other.first) {
            *mine = [*mine, theirs].into_iter().flatten().min();
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { cases, packets, distinct, forked, unequal, opaque, hasty, .. } = self;
        write!(
            f,
            "{cases} cases, {packets} packets, {distinct} distinct: \
             {forked} with contradicting streams, {unequal} with different ends ({hasty} of hasty readers), {opaque} honest ones changed"
        )
    }
}

/// A prover, which plays cases through one middle and judges them.
#[derive(Debug)]
pub struct Prover<M> {
    middle: M,
    player: Player,
    judge: Judge,
    view: Packets,
    bare: Packets,
    /// The figures of what was found so far.
    pub tally: Tally,
}

impl<M: Middlebox> Prover<M> {
    /// A prover for this middle, before all readers.
    pub fn new(middle: M, v6: bool) -> Prover<M> {
        let mut player = Player::default();
        player.v6 = v6;
        let judge = Judge::new(stack::all());
        let (view, bare) = (Packets::default(), Packets::default());
        Prover { middle, player, judge, view, bare, tally: Tally::default() }
    }

    /// Play and judge one case.
    pub fn case(&mut self, world: &World, number: u64) {
        let Some(case) = world.case(number) else { return };
        if !self.player.play(&case, &mut self.middle, &mut self.view) {
            self.tally.impossible += 1;
            return;
        }
        self.tally.cases += 1;
        let verdict = self.judge.judge(self.player.isn(), &self.view);
        self.tally.hasty += u64::from(verdict.hasty && !verdict.unequal);
        for kind in self.wrong(&case) {
            self.tally.note(kind, number);
        }
        self.tally.packets = self.player.packets;
        self.tally.distinct = self.judge.distinct() as u64;
    }

    /// The kinds of wrong, of three, that the case in the view has.
    fn wrong(&mut self, case: &Case) -> impl Iterator<Item = usize> + use<M> {
        let verdict = self.judge.judge(self.player.isn(), &self.view);
        let opaque = case.content == Content::Honest && self.is_opaque(case);
        [verdict.forked, verdict.unequal, opaque]
            .into_iter()
            .enumerate()
            .filter(|(_, wrong)| *wrong)
            .map(|(kind, _)| kind)
    }

    /// Whether a host gets anything else than without the middle. (The honest segments agree, so that all readers read
    /// what one reads.) Where the inside has acknowledged, its data may be kept from those who lost them, so only those
    /// who lost nothing are compared.
    fn is_opaque(&mut self, case: &Case) -> bool {
        let packets = self.player.packets;
        let there = self.player.play(case, &mut NoMiddlebox, &mut self.bare);
        self.player.packets = packets;
        if !there || unchanged(&self.view, &self.bare) {
            return false;
        }
        if matches!(case.ack, Ack::Inside(..)) {
            return self.judge.whole(&self.view) != self.judge.whole(&self.bare);
        }
        self.judge.streams(&self.view) != self.judge.streams(&self.bare)
    }

    /// The smallest case within this one that is wrong in the same way.
    fn smallest(&mut self, case: Case, kind: usize) -> Case {
        let smaller = case.smaller().into_iter().find(|smaller| {
            self.player.play(smaller, &mut self.middle, &mut self.view)
                && self.wrong(smaller).any(|other| other == kind)
        });
        match smaller {
            Some(smaller) => self.smallest(smaller, kind),
            None => case,
        }
    }

    /// The first case of the tally with anything wrong in words: the smallest such case, what passed, two readings.
    pub fn explain(&mut self, world: &World, tally: &Tally) -> Option<String> {
        let (kind, number) =
            tally.first.iter().enumerate().find_map(|(kind, number)| Some((kind, (*number)?)))?;
        let case = self.smallest(world.case(number)?, kind);
        let what =
            ["contradicting streams", "different ends without loss", "an honest sender is changed"][kind];
        Some(format!(
            "world {}, case {number}: {what}\nsmallest: {case}\n{}",
            world.name,
            self.describe(&case)
        ))
    }

    /// One case of the world in words.
    pub fn show(&mut self, world: &World, number: u64) -> Option<String> {
        let case = world.case(number)?;
        Some(format!("world {}, case {number}: {case}\n{}", world.name, self.describe(&case)))
    }

    /// The packets that pass of a case, and what the readers read, in words.
    fn describe(&mut self, case: &Case) -> String {
        self.player.play(case, &mut self.middle, &mut self.view);
        let mut text = String::from("what passed:\n");
        for (side, packet) in self.view.iter() {
            let Some(segment) = Segment::parse(packet) else { continue };
            let place = match side {
                Side::Outside => segment.seq.wrapping_sub(self.player.isn()).wrapping_sub(1) as i32,
                Side::Inside => segment.ack.wrapping_sub(self.player.isn()).wrapping_sub(1) as i32,
            };
            let octets = String::from_utf8_lossy(segment.payload);
            let Segment { flags, urgent, window, sound, .. } = segment;
            let side = side.name();
            writeln!(text, "  {side:<8} at {place:>3} flags {:#05x} \"{octets}\" urgent {urgent} window {window} sound {sound}", flags.0)
                .expect("a String takes every write");
        }
        if let Some(readings) = self.judge.fork(&self.view) {
            for reading in readings {
                let name = self.judge.stacks()[reading.stack].name;
                let octets = String::from_utf8_lossy(reading.text.octets()).into_owned();
                writeln!(text, "  \"{octets}\" is what `{name}` reads, without packets {:#b}", reading.lost)
                    .expect("a String takes every write");
            }
        } else {
            let mut said: BTreeMap<_, Vec<&str>> = BTreeMap::new();
            for (stack, end) in self.judge.stacks().iter().zip(self.judge.wholes(&self.view)) {
                said.entry(end).or_default().push(stack.name);
            }
            for ((octets, over), names) in said {
                let octets = String::from_utf8_lossy(octets.octets()).into_owned();
                let end = if over { "and then the end" } else { "and no end" };
                writeln!(text, "  \"{octets}\" {end} is what these read: {}", names.join("; "))
                    .expect("a String takes every write");
            }
        }
        text
    }
}

/// Whether the packets from outside passed as they were, as far as data and flags go.
fn unchanged(view: &Packets, bare: &Packets) -> bool {
    let mut here = view.iter().filter_map(|(side, packet)| Some((side, Segment::parse(packet)?)));
    let mut there = bare.iter().filter_map(|(side, packet)| Some((side, Segment::parse(packet)?)));
    loop {
        match (here.next(), there.next()) {
            (None, None) => return true,
            (Some(here), Some(there)) if here == there => {}
            _ => return false,
        }
    }
}

/// Play every `stride`th case from `start` on, before `end`.
pub fn part<M: Middlebox>(prover: &mut Prover<M>, world: &World, start: u64, end: u64, stride: u64) {
    let mut number = start;
    while number < end {
        prover.case(world, number);
        number += stride;
    }
}

/// The number of cases that one thread takes at a time, in strides. Neighbours often come to the same packets.
const RUN: u64 = 1 << 16;

/// Play every `stride`th case of a world in so many threads. `seen` counts cases as they are done.
pub fn run<M: Middlebox>(
    make: impl Fn() -> M + Sync,
    world: &World,
    [start, stride]: [u64; 2],
    v6: bool,
    threads: usize,
    seen: &AtomicU64,
) -> Tally {
    let next = AtomicU64::new(0);
    let work = || {
        let mut prover = Prover::new(make(), v6);
        loop {
            let from = start + next.fetch_add(1, Ordering::Relaxed) * RUN * stride;
            if from >= world.cases() {
                return prover.tally;
            }
            let before = prover.tally.cases + prover.tally.impossible;
            part(&mut prover, world, from, world.cases().min(from + RUN * stride), stride);
            seen.fetch_add(prover.tally.cases + prover.tally.impossible - before, Ordering::Relaxed);
        }
    };
    let mut sum = Tally::default();
    std::thread::scope(|scope| {
        let hands: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for hand in hands {
            sum.add(&hand.join().expect("a thread of the proof"));
        }
    });
    sum
}
