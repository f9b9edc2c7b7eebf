//! Probes that tell stacks apart tell nothing of what the scrubber hides.

use tests::attacks::{document, probes};

/// Probes of those that the scrubber hides, which Linux and smoltcp answer differently without it: 6 when this was written.
const FLOOR: usize = 4;

#[test]
fn what_is_hidden_two_stacks_answer_alike() {
    let all = probes::send("ravelin-probes").expect("the probes are sent");
    let hidden = || all.iter().filter(|answers| answers.hidden);
    let told = hidden().filter(|answers| answers.before[0] != answers.before[1]).count();
    assert!(told >= FLOOR, "without the scrubber only {told} probes tell the stacks apart: {all:#?}");
    let wrong: Vec<_> = hidden().filter(|answers| answers.after[0] != answers.after[1]).collect();
    assert!(wrong.is_empty(), "told apart in spite of the scrubber: {wrong:#?}");
    document::check("probes", &probes::markdown(&all), |row| row.to_owned());
}
