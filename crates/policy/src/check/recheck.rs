//! Checks of blocks that are unchanged from the earlier text: only what can have changed is checked again.

use super::names;
use super::subjects::{CheckState, MAX_ENTRIES};
use crate::ast::{Block, Subject};
use crate::diagnostic::Sink;
use crate::unit::PlacedBlock;

/// Whether the block begins with `application`. The parser takes a known block only where such a block may stand.
pub(super) fn is_known_by_keyword(block: &Block) -> bool {
    !block.is_guard && !block.subjects.iter().any(Subject::is_default)
}

/// Checks a block that is unchanged from the earlier text. What depends on other blocks and on the host is checked
/// again, and earlier findings are reported again. False if the block must be read anew.
pub(super) fn recheck(placed: &PlacedBlock, sink: &mut Sink, state: &mut CheckState<'_>) -> bool {
    let (block, Some(findings)) = (&placed.unit.block, &placed.unit.findings) else { return false };
    let mut subjects: Vec<Subject> = block.subjects.iter().map(|own| own.moved(placed.shift())).collect();
    let mut selectors = Vec::new();
    if !state.subjects(&mut subjects, &mut selectors, sink) || selectors != block.selectors {
        return false;
    }
    if findings.prefixes.saturating_mul(subjects.len()).saturating_add(state.entries) > MAX_ENTRIES {
        return false;
    }
    state.entries += findings.entries;
    if placed.unit.has_hosts && !names::check(block, sink, state) {
        return false;
    }
    if placed.unit.has_classes && !state.knows_classes(block) {
        return false;
    }
    placed.replay(&findings.checked, sink);
    true
}
