//! Checks of protections: those at the top of the file, a block's own, and which of them its networks name.

use std::collections::{HashMap, HashSet};

use super::items::items;
use crate::ast::{Block, Name, Network, NetworkKind, Protection};
use crate::diagnostic::{Code, Diagnostic, Sink, show};
use crate::parser::{Body, Candidate, Shared};
use crate::suggest;

/// The most names that an unknown one is compared with.
const COMPARED: usize = 4096;

/// Checks the protections for every block, each once, and marks those with errors.
pub(super) fn top(mut shared: Vec<Shared>, candidates: &[Candidate], sink: &mut Sink) -> Vec<Shared> {
    if shared.is_empty() {
        return shared;
    }
    let read = candidates.iter().filter_map(|candidate| match &candidate.body {
        Body::Read(block, _) => Some(block),
        Body::Known(_) => None,
    });
    let named = read.flat_map(|block| &block.networks).filter_map(protection_of);
    let mut used: HashSet<&str> = named.map(|name| name.text.as_str()).collect();
    // Such a block has those that it uses beside its own.
    for candidate in candidates {
        if let Body::Known(placed) = &candidate.body {
            let borrowed = placed.unit.block.protections.iter().filter(|protection| protection.shared);
            used.extend(borrowed.map(|protection| protection.name.text.as_str()));
        }
    }
    let mut first: HashMap<String, Name> = HashMap::new();
    shared.retain_mut(|own| {
        let name = &own.protection.name;
        if let Some(first) = first.get(&name.text) {
            twice(name, first, "at the top of the file", sink);
            return false;
        }
        first.insert(name.text.clone(), name.clone());
        own.broken |= !items(&own.protection, sink, !own.broken, used.contains(name.text.as_str()));
        true
    });
    shared
}

/// The protection that a network names.
pub(super) fn protection_of(network: &Network) -> Option<&Name> {
    match &network.kind {
        NetworkKind::Protected(name) => Some(name),
        _ => None,
    }
}

fn twice(second: &Name, first: &Name, place: &str, sink: &mut Sink) {
    let message = format!("protection `{}` is named twice {place}", show(&second.text));
    sink.push(
        Diagnostic::new(Code::DuplicateProtection, second.span, message)
            .label("the second")
            .related(first.span, "the first")
            .help("give one of them another name, or merge their items"),
    );
}

/// The protections at the top of the file, which can be found by name.
pub(super) struct SharedByName<'s> {
    all: &'s [Shared],
    by_name: HashMap<&'s str, &'s Shared>,
}

impl<'s> SharedByName<'s> {
    pub fn new(all: &'s [Shared]) -> SharedByName<'s> {
        // Of those with one name the first counts.
        let by_name = all.iter().rev().map(|shared| (shared.protection.name.text.as_str(), shared)).collect();
        SharedByName { all, by_name }
    }

    fn find(&self, name: &Name) -> Option<&'s Shared> {
        self.by_name.get(name.text.as_str()).copied()
    }
}

/// Checks the block's own protections, and appends those of the top of the file that its networks name.
pub(super) fn protections(
    block: &mut Block,
    shared: &SharedByName<'_>,
    sink: &mut Sink,
    sound: bool,
) -> bool {
    let mut good = true;
    let mut defined: HashMap<&str, &Protection> = HashMap::new();
    for protection in &block.protections {
        let name = &protection.name;
        if let Some(first) = defined.get(name.text.as_str()) {
            twice(name, &first.name, "in this block", sink);
            good = false;
            continue;
        }
        defined.insert(&name.text, protection);
    }
    let mut used = HashSet::new();
    let mut borrowed: Vec<&Protection> = Vec::new();
    for name in block.networks.iter().filter_map(protection_of) {
        let is_new = used.insert(name.text.as_str());
        if defined.contains_key(name.text.as_str()) {
            continue;
        }
        match shared.find(name) {
            Some(found) if !found.broken => borrowed.extend(Some(&found.protection).filter(|_| is_new)),
            Some(found) => {
                if sound && is_new {
                    sink.push(
                        Diagnostic::new(
                            Code::BrokenProtection,
                            name.span,
                            format!("protection `{}` at the top of the file has errors", show(&name.text)),
                        )
                        .label("this block is left out")
                        .related(found.protection.name.span, "the protection")
                        .help("correct the protection; blocks that do not use it stay"),
                    );
                }
                good = false;
            }
            None => {
                if sound {
                    undefined(name, block, shared, sink);
                }
                good &= !sound;
            }
        }
    }
    for protection in &block.protections {
        let name = &protection.name;
        let hidden = shared.find(name);
        if let Some(hidden) = hidden.filter(|_| sound) {
            let message = format!("protection `{}` is this block's own", show(&name.text));
            sink.push(
                Diagnostic::new(Code::HidesProtection, name.span, message)
                    .label("decides here")
                    .related(hidden.protection.name.span, "decides in blocks without their own")
                    .help("nothing to do if that is meant; else give it another name"),
            );
        }
        good &= items(protection, sink, sound && good, used.contains(name.text.as_str()));
    }
    let borrowed: Vec<Protection> = borrowed.into_iter().cloned().collect();
    block.protections.extend(borrowed);
    good
}

fn undefined(name: &Name, block: &Block, shared: &SharedByName<'_>, sink: &mut Sink) {
    let own = block.protections.iter().map(|p| p.name.text.as_str());
    let known = own.chain(shared.all.iter().map(|s| s.protection.name.text.as_str()));
    // Not where nobody is shown it.
    let most = if sink.shows_errors() { COMPARED } else { 0 };
    let help = match suggest::nearest(&name.text, known.take(most)) {
        Some(near) => format!("did you mean `{}`?", show(near)),
        None => format!("write `protection {} {{ ... }}` in this block", show(&name.text)),
    };
    sink.push(
        Diagnostic::new(
            Code::UndefinedProtection,
            name.span,
            format!("protection `{}` is not defined in this block", show(&name.text)),
        )
        .label("no such protection")
        .help(help),
    );
}
