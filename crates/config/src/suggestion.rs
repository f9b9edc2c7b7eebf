//! The word that was meant, for errors about one that nobody knows.

/// The known word nearest to `word`, if one is near.
pub fn suggestion<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let near = known.iter().map(|k| (strsim::damerau_levenshtein(word, k), *k)).min()?;
    (near.0 <= 1 + word.chars().count() / 4).then_some(near.1)
}
