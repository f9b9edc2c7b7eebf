//! The checks of what the grammar cannot see: names, references, overlaps. Errors take their block out of the policy;
//! warnings and notes do not.

mod items;
mod names;
mod networks;
mod protections;
mod recheck;
mod subjects;

use crate::MAX_NETWORKS;
use crate::ast::{AddressRange, Block, GUARD, Limit, Name, Protection, Quantity, Span, Subject};
use crate::diagnostic::{Code, Diagnostic, Sink, show};
use crate::host::Host;
use crate::parsed::BrokenBlock;
use crate::parser::{Body, Candidate, Shared};
use crate::prefixes::{self, Piece, nesting};
use crate::unit::{BlockFindings, PlacedBlock, Unit};
use networks::{alone, coverage, equal, overlaps};
use protections::{SharedByName, protection_of, protections, top};
use recheck::{is_known_by_keyword, recheck};
use subjects::{CheckState, MAX_ENTRIES};

/// The most networks and items of one block. A rule's number has 16 bits for its place.
const MAX_RULES: usize = 65_535;

/// The result of checking a file.
pub(crate) struct CheckResult {
    /// The blocks without errors.
    pub blocks: Vec<PlacedBlock>,
    /// The blocks with errors.
    pub broken: Vec<BrokenBlock>,
    /// The protections at the top of the file that are sound.
    pub protections: Vec<Protection>,
    /// Whether what was known of blocks of the earlier text fits this text. If not, nothing of this result counts.
    pub fits: bool,
}

/// Checks every block alone and all together, and divides them into sound and broken.
pub(crate) fn policy(
    candidates: Vec<Candidate>,
    shared: Vec<Shared>,
    sink: &mut Sink,
    host: &dyn Host,
    text: &str,
) -> CheckResult {
    if candidates.is_empty() {
        sink.push(
            Diagnostic::new(Code::EmptyPolicy, Default::default(), "the policy names no application")
                .label("every program is left to the host's default: clear")
                .help("write `application NAME { ... }` for each program to protect"),
        );
    }
    let shared = top(shared, &candidates, sink);
    let by_name = SharedByName::new(&shared);
    let mut state = CheckState::new(host);
    let (mut blocks, mut broken) = (Vec::new(), Vec::new());
    let mut first_guard = None;
    let mut fits = true;
    for candidate in candidates {
        let (mut block, read) = match candidate.body {
            Body::Read(block, read) => (*block, read),
            Body::Known(placed) => {
                fits = fits && recheck(&placed, sink, &mut state);
                blocks.push(placed);
                continue;
            }
        };
        if block.is_guard {
            let sound = guard(&mut block, first_guard, sink, !candidate.broken, &mut state);
            first_guard.get_or_insert(block.header);
            if sound {
                blocks.push(PlacedBlock::new(Unit::new(block, text, None)));
            } else {
                let names = vec![Name { text: GUARD.into(), span: block.header }];
                broken.push(BrokenBlock { names, is_plain: false });
            }
            continue;
        }
        let mut subjects = block.subjects.clone();
        subjects.retain(|subject| !subject.name().is_empty());
        let mut sound = !candidate.broken;
        sound &= state.subjects(&mut block.subjects, &mut block.selectors, sink);
        let (entries, once) = (state.entries, block.subjects.len() == subjects.len());
        sink.mark();
        sound &= self::block(&mut block, &by_name, sink, sound, &mut state);
        if sound {
            let entries = state.entries - entries;
            // A subject given twice is said again only where the list is read again.
            let findings = read.zip(sink.since_mark()).filter(|_| once && is_known_by_keyword(&block));
            let findings = findings.map(|(read, checked)| BlockFindings {
                read,
                checked,
                prefixes: state.prefixes,
                entries,
            });
            blocks.push(PlacedBlock::new(Unit::new(block, text, findings)));
        } else {
            let is_plain = subjects.iter().all(Subject::is_plain);
            let names = subjects.iter().map(|s| Name { text: s.name(), span: s.span }).collect();
            broken.push(BrokenBlock { names, is_plain });
        }
    }
    state.paths(sink);
    let protections = shared.into_iter().filter(|s| !s.broken).map(|s| s.protection).collect();
    CheckResult { blocks, broken, protections, fits }
}

/// Checks the block `guard { ... }`, whose networks are open or closed to traffic that no block decides about.
fn guard(
    block: &mut Block,
    first: Option<Span>,
    sink: &mut Sink,
    sound: bool,
    state: &mut CheckState<'_>,
) -> bool {
    let mut good = sound;
    if let Some(first) = first {
        sink.push(
            Diagnostic::new(Code::DuplicateApplication, block.header, "`guard` has a block already")
                .label("this block is left out")
                .related(first, "the first block, which stays")
                .help("merge the two blocks, or remove one"),
        );
        return false;
    }
    let protected = block.networks.iter().find(|network| protection_of(network).is_some());
    let place = protected.map(|network| network.span).or(block.protections.first().map(|p| p.span));
    if let Some(place) = place {
        sink.push(
            Diagnostic::new(Code::GuardProtects, place, "`guard` has no protections")
                .label("trusted or untrusted")
                .help(
                    "packets of no application can only pass (`trusted`) or not (`untrusted`); rules of the SPD \
                     protect forwarded packets (`ravelin spd`)",
                ),
        );
        good = false;
    }
    if let Some(limit) = block.limits.first() {
        sink.push(
            Diagnostic::new(Code::GuardLimits, limit.span, "`guard` has no limits")
                .label("limits are an application's")
                .help("write it in the block of an application, or in `default { ... }`"),
        );
        good = false;
    }
    if let Some(network) = block.networks.iter().find(|network| network.observed) {
        sink.push(
            Diagnostic::new(Code::GuardProtects, network.span, "`guard` is not observed")
                .label("trusted or untrusted")
                .help("`observe` stands in blocks of applications; `ravelin flows` shows what programs without policy do"),
        );
        good = false;
    }
    if block.networks.is_empty() && good {
        sink.push(
            Diagnostic::new(Code::EmptyApplication, block.header, "`guard` has no network")
                .label("it closes nothing")
                .help("write `network RANGE untrusted;`, or remove the block"),
        );
    }
    networks(block, sink, good, state) && good
}

/// Checks a block by itself. If it is not `sound` so far, consequences of an earlier error are not reported.
fn block(
    block: &mut Block,
    shared: &SharedByName<'_>,
    sink: &mut Sink,
    sound: bool,
    state: &mut CheckState<'_>,
) -> bool {
    let mut good = protections(block, shared, sink, sound);
    let block = &*block;
    good &= limits(block, sink);
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
        let names = block.names_text();
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
    observed(block, sink);
    good &= networks(block, sink, sound && good, state);
    good
}

/// Checks that there is one limit of a kind for each unit.
fn limits(block: &Block, sink: &mut Sink) -> bool {
    for (at, limit) in block.limits.iter().enumerate() {
        let same = |first: &&Limit| (first.limited, first.quantity) == (limit.limited, limit.quantity);
        let Some(first) = block.limits[..at].iter().find(same) else {
            continue;
        };
        let what = match limit.quantity {
            Quantity::Bits => "bits",
            Quantity::Packets => "packets",
        };
        sink.push(
            Diagnostic::new(Code::RepeatedLimit, limit.span, format!("a second limit in {what} a second"))
                .label("the second")
                .related(first.span, "the first")
                .help("keep one of them; a block can have one in bits and one in packets, of `clear` and of `accept`"),
        );
        return false;
    }
    true
}

/// Warns of what is only watched, so that a reader does not take it for what is in force.
fn observed(block: &Block, sink: &mut Sink) {
    let mut warn = |span: Span, message: String| {
        sink.push(Diagnostic::new(Code::Observed, span, message).label("watched, and in clear").help(
            "`ravelin flows` shows what would be refused or protected; remove `observe` to put it in force",
        ));
    };
    if let Some(span) = block.observed {
        let names = block.names_text();
        return warn(span, format!("nothing of `{}` is protected: its block is only watched", show(&names)));
    }
    for network in block.networks.iter().filter(|network| network.observed) {
        warn(network.span, format!("`{}` is only watched: nothing in it is protected", network.range));
    }
}

fn networks(block: &Block, sink: &mut Sink, sound: bool, state: &mut CheckState<'_>) -> bool {
    let mut pieces: Vec<Piece> = Vec::new();
    for (owner, network) in block.networks.iter().enumerate() {
        prefixes::each(&network.range, |prefix| pieces.push(Piece { prefix, owner }));
        let all = pieces.len().saturating_mul(block.subjects.len().max(1)).saturating_add(state.entries);
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
    let items: usize = block.protections.iter().filter(|p| p.shared).map(|p| p.items.len()).sum();
    state.entries += (pieces.len() + items) * block.subjects.len();
    state.prefixes = pieces.len();
    alone(block, sink);
    let wide: Vec<bool> = block.networks.iter().map(|n| matches!(n.range, AddressRange::Range(..))).collect();
    let nesting = nesting(&mut pieces, &wide);
    let mut good = equal(block, &nesting, sink);
    good &= names::check(block, sink, state);
    if good && sound {
        names::weak(block, &nesting, sink);
        overlaps(block, &nesting, sink);
        coverage(block, &nesting, sink);
    }
    good
}
