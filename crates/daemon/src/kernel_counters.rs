//! What the counters of the kernel half mean, in words. The table is that of `bpf/include/abi.h`.

use sockmon::abi::{COUNTERS, MEANINGS, Meaning};

fn meaning(word: &str) -> Option<&'static Meaning> {
    let number = COUNTERS.iter().position(|name| *name == word)?;
    MEANINGS.get(number)
}

/// What a counter means; `None` for one that this version does not know.
pub fn text(word: &str) -> Option<&'static str> {
    meaning(word).map(|meaning| meaning.text)
}

/// Whether a counter counts what was refused or dropped. One that is not known does.
pub fn is_refusal(word: &str) -> bool {
    meaning(word).is_none_or(|meaning| meaning.refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_the_kernel_half_has_a_meaning() {
        for name in COUNTERS {
            let text = text(name).unwrap_or_else(|| panic!("{name} has no meaning"));
            assert!(
                text.ends_with('.') && text.starts_with(|c: char| c.is_uppercase() || text.contains("()")),
                "{name}: {text}"
            );
        }
        assert!(is_refusal("l2tp_refused") && !is_refusal("egress_redirected"));
        assert!(is_refusal("unknown to this version") && text("unknown to this version").is_none());
    }
}
