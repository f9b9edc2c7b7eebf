//! Recognition of blocks that stood in the earlier text, octet for octet.
//!
//! Octets are compared, not their hashes. Where blocks are is guessed, from where they were and from their headers. A
//! guess that the lexer and the parser do not come to (a block inside of a comment) is dropped there.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sources::{Rules, Source};
use crate::unit::PlacedBlock;

/// The word that every such block starts with.
const KEYWORD: &str = "application";
/// The most octets of a block, up to its brace, that are its key.
const KEY: usize = 256;
/// The most blocks of one key that are compared.
const ALIKE: usize = 4;
/// The octets that are compared in vain before the search is given up, as a multiple of the text's. The rest is read
/// anew.
const PATIENCE: usize = 8;

/// The known blocks in order, each where it may be in `text`.
pub(crate) fn recognise(text: &str, before: &Rules) -> Vec<PlacedBlock> {
    let known = KnownText::of(before);
    let mut out = Vec::new();
    let (mut at, mut next) = (0, 0);
    let mut patience = text.len().saturating_mul(PATIENCE);
    // Where the text has not changed, a block is as far behind the one before as it was.
    let mut guess = known.in_order.first().map(|first| first.start as usize);
    loop {
        let found = guess.filter(|guess| *guess >= at).and_then(|guess| {
            let source = known.in_order.get(next)?;
            source.stands_at(text, guess, &mut patience).then_some((guess, *source, next))
        });
        let Some((start, source, index)) = found.or_else(|| known.search(text, at, &mut patience)) else {
            return out;
        };
        out.push(PlacedBlock { unit: Arc::clone(&source.unit), start: start as u32 });
        at = start + source.unit.len();
        next = index + 1;
        let gap = |(one, two): (&&Source, &&Source)| two.start.checked_sub(one.start + one.unit.len() as u32);
        let gap = known.in_order.get(index).zip(known.in_order.get(next)).and_then(gap);
        guess = gap.map(|gap| at + gap as usize);
    }
}

struct KnownText<'r> {
    /// The blocks in the order of the earlier text, without those that were carried over from texts before it. What
    /// stood at the top of those is not what stands at the top of the earlier text.
    in_order: Vec<&'r Source>,
    /// The indices of blocks by key.
    by_key: HashMap<&'r [u8], Vec<usize>>,
}

impl<'r> KnownText<'r> {
    fn of(before: &'r Rules) -> KnownText<'r> {
        let mut in_order: Vec<&Source> =
            before.sources().filter(|source| source.unit.findings.is_some() && !source.carried).collect();
        in_order.sort_by_key(|source| source.start);
        // One for each application of a list.
        in_order.dedup_by(|a, b| Arc::ptr_eq(&a.unit, &b.unit));
        let mut by_key: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for (index, source) in in_order.iter().enumerate() {
            let alike = by_key.entry(key(source.text().as_bytes())).or_default();
            if alike.len() < ALIKE {
                alike.push(index);
            }
        }
        KnownText { in_order, by_key }
    }

    /// The next known block from `at` on.
    fn search(&self, text: &str, mut at: usize, patience: &mut usize) -> Option<(usize, &'r Source, usize)> {
        if self.in_order.is_empty() {
            return None;
        }
        while *patience > 0 {
            let start = at + text.get(at..)?.find(KEYWORD)?;
            let alike = self.by_key.get(key(text.as_bytes().get(start..)?)).into_iter().flatten();
            for &index in alike {
                let source = self.in_order[index];
                if source.stands_at(text, start, patience) {
                    return Some((start, source, index));
                }
            }
            at = start + KEYWORD.len();
        }
        None
    }
}

/// The octets of a block up to its brace.
fn key(text: &[u8]) -> &[u8] {
    let head = text.get(..KEY).unwrap_or(text);
    head.split_inclusive(|octet| *octet == b'{').next().unwrap_or(head)
}
