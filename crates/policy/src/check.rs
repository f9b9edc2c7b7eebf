//! What the grammar cannot see: names, references, overlaps. Errors take their block out of the policy, warnings and
//! notes do not.

use std::collections::{HashMap, HashSet};

use sadb::spd::PortRange;

use crate::ast::{AddressRange, Block, Name, Network, NetworkKind, Protection};
use crate::diagnostic::{Code, Diagnostic, Sink, show};
use crate::parser::{Broken, Candidate};
use crate::ports::{Rectangle, examine};
use crate::prefixes::{self, Nesting, Piece, nesting};
use crate::{MAX_APPLICATIONS, MAX_ITEMS, MAX_NETWORKS, suggest};

/// The most network entries all applications together may come to: names times prefixes.
const MAX_ENTRIES: usize = 1 << 20;

/// The most networks and items of one block: a rule's number has 16 bits for its place.
const MAX_RULES: usize = 65_535;

/// Check every block alone and all together; divide them into sound and broken.
pub(crate) fn policy(candidates: Vec<Candidate>, sink: &mut Sink) -> (Vec<Block>, Vec<Broken>) {
    if candidates.is_empty() {
        sink.push(
            Diagnostic::new(Code::EmptyPolicy, Default::default(), "the policy names no application")
                .label("every program is left to the host's default: clear")
                .help("write `application NAME { ... }` for each program to protect"),
        );
    }
    let mut across = Across::default();
    let (mut blocks, mut broken) = (Vec::new(), Vec::new());
    for candidate in candidates {
        let mut block = candidate.block;
        let mut names = block.names.clone();
        names.retain(|name| !name.text.is_empty());
        let mut sound = !candidate.broken;
        sound &= across.names(&mut block.names, sink);
        sound &= self::block(&block, sink, sound, &mut across);
        if sound {
            blocks.push(block);
        } else {
            broken.push(Broken { names });
        }
    }
    across.paths(sink);
    (blocks, broken)
}

/// What is known of the blocks before.
#[derive(Default)]
struct Across {
    seen: HashMap<String, Name>,
    order: Vec<(usize, Name)>,
    block: usize,
    entries: usize,
}

impl Across {
    /// Names may not repeat: within a list once is enough, in a second block it is an error.
    fn names(&mut self, names: &mut Vec<Name>, sink: &mut Sink) -> bool {
        let mut sound = true;
        let mut own = HashSet::new();
        self.block += 1;
        names.retain(|name| {
            let fresh = own.insert(name.text.clone());
            if !fresh {
                sink.push(
                    Diagnostic::new(
                        Code::RepeatedName,
                        name.span,
                        format!("application `{}` is already in this list", show(&name.text)),
                    )
                    .label("again")
                    .help("remove the second one"),
                );
            }
            fresh
        });
        for name in names.iter() {
            if let Some(first) = self.seen.get(&name.text) {
                sink.push(
                    Diagnostic::new(
                        Code::DuplicateApplication,
                        name.span,
                        format!("application `{}` has a block already", show(&name.text)),
                    )
                    .label("this block is left out")
                    .related(first.span, "the first block, which stays")
                    .help("merge the two blocks, or remove one"),
                );
                sound = false;
                continue;
            }
            if self.seen.len() == MAX_APPLICATIONS {
                sink.push(
                    Diagnostic::new(
                        Code::TooManyApplications,
                        name.span,
                        format!("more than {MAX_APPLICATIONS} applications"),
                    )
                    .label("this block is left out")
                    .help("let one bare name stand for the executables of that name"),
                );
                return false;
            }
            self.seen.insert(name.text.clone(), name.clone());
            self.order.push((self.block, name.clone()));
        }
        sound
    }

    /// `/usr/bin/ssh` in one block and `ssh` in another: both name one program.
    fn paths(&self, sink: &mut Sink) {
        let block_of: HashMap<&str, usize> = self.order.iter().map(|(b, n)| (n.text.as_str(), *b)).collect();
        for (block, path) in &self.order {
            let Some((_, file)) = path.text.rsplit_once('/') else { continue };
            let (Some(other), Some(bare)) = (block_of.get(file), self.seen.get(file)) else { continue };
            if other != block {
                sink.push(
                    Diagnostic::new(
                        Code::NameAndPath,
                        path.span,
                        format!("`{}` is also meant by the bare name `{}`", show(&path.text), show(file)),
                    )
                    .label("this block decides for that executable")
                    .related(bare.span, "this block decides for the others of that name")
                    .help("nothing to do if that is meant; else put both names in one list"),
                );
            }
        }
    }
}

/// One block. `sound` so far: else what follows from an earlier error is not reported.
fn block(block: &Block, sink: &mut Sink, sound: bool, across: &mut Across) -> bool {
    let mut good = protections(block, sink, sound);
    let rules = block.networks.len() + block.protections.iter().map(|p| p.items.len()).sum::<usize>();
    if rules > MAX_RULES {
        let message = format!("the block has {rules} networks and items; at most {MAX_RULES} are possible");
        sink.push(
            Diagnostic::new(Code::TooManyNetworks, block.header, message)
                .label("this block")
                .help("use fewer, larger prefixes"),
        );
        return false;
    }
    if block.networks.is_empty() && sound {
        let names = block.names.iter().map(|n| n.text.as_str()).collect::<Vec<_>>().join(", ");
        sink.push(
            Diagnostic::new(
                Code::EmptyApplication,
                block.header,
                format!("the block of `{}` has no network", show(&names)),
            )
            .label("all its traffic passes in clear")
            .help("write `network 0.0.0.0/0 TYPE;` and `network ::/0 TYPE;`, or remove the block"),
        );
    }
    good &= networks(block, sink, sound && good, across);
    good
}

fn protections(block: &Block, sink: &mut Sink, sound: bool) -> bool {
    let mut good = true;
    let mut defined: HashMap<&str, &Protection> = HashMap::new();
    for protection in &block.protections {
        let name = &protection.name;
        if let Some(first) = defined.get(name.text.as_str()) {
            sink.push(
                Diagnostic::new(
                    Code::DuplicateProtection,
                    name.span,
                    format!("protection `{}` is named twice in this block", show(&name.text)),
                )
                .label("the second")
                .related(first.name.span, "the first")
                .help("give one of them another name, or merge their items"),
            );
            good = false;
            continue;
        }
        defined.insert(&name.text, protection);
    }
    let mut used = HashSet::new();
    for network in &block.networks {
        let NetworkKind::Protected(name) = &network.kind else { continue };
        used.insert(name.text.as_str());
        if sound && !defined.contains_key(name.text.as_str()) {
            undefined(name, block, sink);
            good = false;
        }
    }
    for protection in &block.protections {
        let used = used.contains(protection.name.text.as_str());
        good &= items(protection, sink, sound && good, used);
    }
    good
}

fn undefined(name: &Name, block: &Block, sink: &mut Sink) {
    let known = block.protections.iter().map(|p| p.name.text.as_str());
    let help = match suggest::nearest(&name.text, known) {
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

fn items(protection: &Protection, sink: &mut Sink, sound: bool, used: bool) -> bool {
    let name = show(&protection.name.text);
    let at = protection.name.span;
    if protection.items.is_empty() {
        if sound {
            sink.push(
                Diagnostic::new(Code::EmptyProtection, at, format!("protection `{name}` has no items"))
                    .label("nothing would pass")
                    .help("write `localport=any remoteport=any encryption mandatory;`, or use `untrusted`"),
            );
        }
        return false;
    }
    if let Some(item) = protection.items.get(MAX_ITEMS) {
        let count = protection.items.len();
        let message = format!("protection `{name}` has {count} items; at most {MAX_ITEMS} are possible");
        sink.push(
            Diagnostic::new(Code::TooManyItems, item.span, message)
                .label("the first one too many")
                .help("merge items with port ranges (`localport=6000-6063`), or divide the networks"),
        );
        return false;
    }
    if !sound {
        return true;
    }
    if !used {
        sink.push(
            Diagnostic::new(Code::UnusedProtection, at, format!("no network uses protection `{name}`"))
                .label("never used")
                .help(format!("write `network RANGE protected {name};`, or remove it")),
        );
    }
    let rectangles: Vec<Rectangle> =
        protection.items.iter().map(|i| Rectangle { local: i.local, remote: i.remote }).collect();
    let (hidden, open) = examine(&rectangles);
    for (item, _) in protection.items.iter().zip(hidden).filter(|(_, hidden)| *hidden) {
        sink.push(
            Diagnostic::new(Code::ShadowedItem, item.span, "items above it match all that this item matches")
                .label("never decides: the first match does")
                .help("move it up, or remove it"),
        );
    }
    if let Some((local, remote)) = open.filter(|_| used) {
        let message = format!(
            "the items of protection `{name}` leave ports open, such as local {} to remote {}: such traffic is \
             refused",
            port(local),
            port(remote)
        );
        sink.push(
            Diagnostic::new(Code::PortsNotCovered, at, message)
                .label("not every port is covered")
                .help("end it with `localport=any remoteport=any TYPE LEVEL;`, unless refusing is meant"),
        );
    }
    true
}

fn port(first: u16) -> String {
    crate::ast::port_text(PortRange::one(first))
}

fn networks(block: &Block, sink: &mut Sink, sound: bool, across: &mut Across) -> bool {
    let mut pieces: Vec<Piece> = Vec::new();
    for (owner, network) in block.networks.iter().enumerate() {
        pieces.extend(prefixes::of(&network.range).into_iter().map(|prefix| Piece { prefix, owner }));
        let all = pieces.len().saturating_mul(block.names.len().max(1)).saturating_add(across.entries);
        // One entry is kept back for the hole that an IPv6 prefix around IPv4 needs.
        if pieces.len() >= MAX_NETWORKS || all > MAX_ENTRIES {
            let message = match pieces.len() >= MAX_NETWORKS {
                true => format!("the networks of this block come to more than {} prefixes", MAX_NETWORKS - 1),
                false => format!("the networks of all applications come to more than {MAX_ENTRIES} prefixes"),
            };
            sink.push(
                Diagnostic::new(Code::TooManyNetworks, network.range_span, message)
                    .label("the first one too many")
                    .help("a range counts as the prefixes that cover it: use fewer, larger prefixes"),
            );
            return false;
        }
    }
    across.entries += pieces.len() * block.names.len();
    alone(block, sink);
    let wide: Vec<bool> = block.networks.iter().map(|n| matches!(n.range, AddressRange::Range(..))).collect();
    let nesting = nesting(&mut pieces, &wide);
    let mut good = equal(block, &nesting, sink);
    good &= equal_hosts(block, sink);
    if good && sound {
        overlaps(block, &nesting, sink);
        coverage(block, &nesting, sink);
    }
    good
}

/// What one network setting says by itself.
fn alone(block: &Block, sink: &mut Sink) {
    for network in &block.networks {
        match &network.range {
            AddressRange::Host(name) => sink.push(
                Diagnostic::new(
                    Code::UnresolvedHost,
                    network.range_span,
                    format!("host name `{}` is not resolved yet", show(name)),
                )
                .label("matches no peer today")
                .help("write the host's addresses until names are resolved"),
            ),
            AddressRange::Prefix(addr, len) => {
                let Some(prefix) = prefixes::network_of(*addr, *len) else { continue };
                if wire::addr::to_bits(*addr) == prefix.first() {
                    continue;
                }
                sink.push(
                    Diagnostic::new(
                        Code::HostBits,
                        network.range_span,
                        format!("`{addr}/{len}` has host bits set; it is read as the network {prefix}"),
                    )
                    .label(format!("the network is {prefix}"))
                    .help(format!("write {prefix} for the network, or {addr} for the one host")),
                );
            }
            _ => {}
        }
    }
}

fn same_network(first: &Network, later: &Network, what: &str, sink: &mut Sink) {
    sink.push(
        Diagnostic::new(
            Code::EqualNetworks,
            later.range_span,
            format!("{what} has two settings in this block"),
        )
        .label("the second setting")
        .related(first.range_span, "the first setting")
        .help("keep one of them, or make one longer: the longest prefix decides"),
    );
}

fn equal(block: &Block, nesting: &Nesting, sink: &mut Sink) -> bool {
    let mut reported = HashSet::new();
    for &(first, later) in &nesting.equal {
        if let (Some(a), Some(b)) = (block.networks.get(first), block.networks.get(later))
            && reported.insert((first, later))
        {
            let what = match (&a.range, &b.range) {
                (AddressRange::Range(..), _) | (_, AddressRange::Range(..)) => {
                    format!("a part of the range `{}`", if later_is_range(b) { &b.range } else { &a.range })
                }
                _ => format!("network `{}`", b.range),
            };
            same_network(a, b, &what, sink);
        }
    }
    nesting.equal.is_empty()
}

fn later_is_range(network: &Network) -> bool {
    matches!(network.range, AddressRange::Range(..))
}

fn equal_hosts(block: &Block, sink: &mut Sink) -> bool {
    let mut seen: HashMap<&str, &Network> = HashMap::new();
    let mut good = true;
    for network in &block.networks {
        let AddressRange::Host(name) = &network.range else { continue };
        if let Some(first) = seen.get(name.as_str()) {
            same_network(first, network, &format!("host `{}`", show(name)), sink);
            good = false;
            continue;
        }
        seen.insert(name, network);
    }
    good
}

/// Settings that never decide, and ranges that cut one another.
fn overlaps(block: &Block, nesting: &Nesting, sink: &mut Sink) {
    for (index, network) in block.networks.iter().enumerate() {
        let resolved = !matches!(network.range, AddressRange::Host(_));
        if resolved && !nesting.decides.contains(&index) {
            sink.push(
                Diagnostic::new(
                    Code::ShadowedNetwork,
                    network.range_span,
                    format!("longer prefixes cover the whole of `{}`", network.range),
                )
                .label("never decides: the longest prefix does")
                .help("remove it, or the longer ones"),
            );
        }
    }
    for &(inner, outer) in nesting.inside.iter().filter(|(a, b)| a < b) {
        let (Some(a), Some(b)) = (block.networks.get(inner), block.networks.get(outer)) else { continue };
        if nesting.inside.contains(&(outer, inner)) && a.kind.text() != b.kind.text() {
            sink.push(
                Diagnostic::new(
                    Code::PartialOverlap,
                    b.range_span,
                    format!(
                        "`{}` and `{}` overlap in part, and each decides for some of it",
                        a.range, b.range
                    ),
                )
                .label("the second")
                .related(a.range_span, "the first")
                .help("a range counts as the prefixes that cover it: end one range where the other starts"),
            );
        }
    }
}

/// Peers that no network covers.
fn coverage(block: &Block, nesting: &Nesting, sink: &mut Sink) {
    let who = match (nesting.all_ipv4, nesting.all_ipv6) {
        _ if block.networks.is_empty() => return,
        (true, true) => return,
        (true, false) => "some IPv6 peers",
        (false, true) => "some IPv4 peers",
        (false, false) => "some peers of both families",
    };
    let names = block.names.iter().map(|n| n.text.as_str()).collect::<Vec<_>>().join(", ");
    sink.push(
        Diagnostic::new(
            Code::PeersNotCovered,
            block.header,
            format!("{who} are in no network of `{}`: they are reached in clear", show(&names)),
        )
        .label("the host's default decides for them")
        .help("add `network 0.0.0.0/0 TYPE;` and `network ::/0 TYPE;` to decide for every peer"),
    );
}
