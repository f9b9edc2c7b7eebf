//! The nearest of a few words, for "did you mean".

/// The word of `candidates` nearest to `word`, if it is near enough to be a typing error.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let lower = word.to_lowercase();
    let length = lower.chars().count();
    // Words whose lengths differ by more than the slip that is allowed are not worth comparing.
    let comparable = |candidate: &&str| {
        let count = candidate.chars().count();
        length.abs_diff(count) <= (count / 3).min(3)
    };
    candidates
        .into_iter()
        .filter(comparable)
        .map(|candidate| (distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).min(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The nearest of a few keywords, as [`nearest`] finds it, but fast for a word that is written right.
pub fn keyword<'c>(word: &str, keywords: &[&'c str]) -> Option<&'c str> {
    let exact = keywords.iter().find(|keyword| **keyword == word);
    exact.copied().or_else(|| nearest(word, keywords.iter().copied()))
}

/// The distance of two words: insertions, deletions, replacements and swaps of neighbours that lead from one to the
/// other (optimal string alignment). Words far longer than any candidate are cut, because they are not near to
/// anything.
pub fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let width = b.len() + 1;
    let mut table = vec![0usize; (a.len() + 1) * width];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let same = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (table[(i - 1) * width + j] + 1)
                    .min(table[i * width + j - 1] + 1)
                    .min(table[(i - 1) * width + j - 1] + same);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(table[(i - 2) * width + j - 2] + 1);
                }
                best
            };
        }
    }
    table[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let words = ["network", "protection"];
        for (word, want) in [
            ("netwrok", Some("network")),
            ("Network", Some("network")),
            ("networks", Some("network")),
            ("protecton", Some("protection")),
            ("net", None),
            ("zebra", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), want, "{word}");
        }
    }

    #[test]
    fn distances() {
        for (a, b, want) in [("", "abc", 3), ("abc", "abc", 0), ("acb", "abc", 1), ("kitten", "sitting", 3)] {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }
}
