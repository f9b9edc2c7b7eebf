//! Licence expressions of SPDX, as crates name them: identifiers, `WITH` an exception, `AND`, `OR`, parentheses, and the older `/`.

use anyhow::{Result, bail};

/// Whether these licences are enough for the expression.
pub fn allows(expression: &str, allowed: &[String]) -> Result<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let verdict = any(&mut words, allowed)?;
    match words.next() {
        None => Ok(verdict),
        Some(word) => bail!("{word:?} is out of place"),
    }
}

type Words<'t> = std::iter::Peekable<std::str::SplitWhitespace<'t>>;

fn any(words: &mut Words<'_>, allowed: &[String]) -> Result<bool> {
    let mut verdict = all(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        verdict |= all(words, allowed)?;
    }
    Ok(verdict)
}

fn all(words: &mut Words<'_>, allowed: &[String]) -> Result<bool> {
    let mut verdict = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        verdict &= one(words, allowed)?;
    }
    Ok(verdict)
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> Result<bool> {
    let Some(word) = words.next() else { bail!("it ends too early") };
    if word == "(" {
        let verdict = any(words, allowed)?;
        if words.next() != Some(")") {
            bail!("a parenthesis is open");
        }
        return Ok(verdict);
    }
    if ["OR", "AND", "WITH", ")"].contains(&word) {
        bail!("{word:?} is out of place");
    }
    let name = match words.next_if_eq(&"WITH").and_then(|_| words.next()) {
        Some(exception) => format!("{word} WITH {exception}"),
        None => word.to_owned(),
    };
    // An exception only allows more.
    Ok(allowed.iter().any(|known| *known == name || known == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0", "X WITH e"].map(ToOwned::to_owned);
        for (text, want) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("MIT/GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("GPL-3.0 OR MIT AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("X WITH e", true),
            ("X", false),
        ] {
            assert_eq!(allows(text, &allowed).unwrap(), want, "{text}");
        }
        for text in ["", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT GPL-3.0"] {
            assert!(allows(text, &allowed).is_err(), "{text}");
        }
    }
}
