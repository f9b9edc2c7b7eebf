//! Colour: on a terminal, unless somebody says otherwise.
//!
//! `--color` decides; without it `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and `TERM` do (no-color.org,
//! bixense.com/clicolors). A pipe and a file get none by themselves. One choice holds for the whole process: clap's
//! messages, diagnostics of a policy, tables and the daemon's log ask for it.

use std::ffi::OsString;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// When output has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal that shows them.
    Auto,
    /// In a pipe and a file too.
    Always,
    /// Not on a terminal either.
    Never,
}

/// The style of what is as it should be.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// The style of what somebody should look at.
pub const CAUTION: Style = AnsiColor::Yellow.on_default().bold();
/// The style of what is broken.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// The style of the head of a part.
pub const HEAD: Style = Style::new().bold();

/// Let one choice hold from now on, as the arguments (the program's name first) and the environment say.
pub fn choose(arguments: &[OsString]) {
    let variable = |name: &str| std::env::var(name).ok();
    let choice = match asked_for(arguments) {
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
        ColorChoice::Auto if is_dumb(variable("TERM"), variable("CLICOLOR_FORCE")) => {
            anstream::ColorChoice::Never
        }
        ColorChoice::Auto => anstream::ColorChoice::Auto,
    };
    choice.write_global();
}

/// Whether the terminal shows no colours and nobody forces them.
fn is_dumb(term: Option<String>, force: Option<String>) -> bool {
    term.as_deref() == Some("dumb") && force.is_none_or(|force| force == "0")
}

/// The last `--color` of arguments that clap has not read yet. One that is wrong is left for clap to refuse.
fn asked_for(arguments: &[OsString]) -> ColorChoice {
    let mut when = ColorChoice::Auto;
    let mut rest = arguments.iter().skip(1).map_while(|word| word.to_str().filter(|word| *word != "--"));
    while let Some(word) = rest.next() {
        let value = match word.strip_prefix("--color") {
            Some("") => rest.next(),
            Some(value) => value.strip_prefix('='),
            None => None,
        };
        when = value.and_then(|value| ColorChoice::from_str(value, false).ok()).unwrap_or(when);
    }
    when
}

/// Whether standard error has colours.
pub fn on_stderr() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// Text in a style, for [`crate::output::styled`], which takes the style away where there is no colour.
pub fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_choice_before_the_end_of_options_holds() {
        let of = |words: &[&str]| {
            let words: Vec<OsString> = std::iter::once(&"ravelin").chain(words).map(OsString::from).collect();
            asked_for(&words)
        };
        assert_eq!(of(&["status"]), ColorChoice::Auto);
        assert_eq!(of(&["--color", "always", "status"]), ColorChoice::Always);
        assert_eq!(of(&["status", "--color=always", "--color=never"]), ColorChoice::Never);
        assert_eq!(of(&["status", "--color"]), ColorChoice::Auto);
        assert_eq!(of(&["status", "--color=blue"]), ColorChoice::Auto);
        assert_eq!(of(&["--colors=never", "status", "--", "--color=always"]), ColorChoice::Auto);
    }

    #[test]
    fn a_dumb_terminal_has_colours_only_by_force() {
        let text = |text: &str| Some(text.to_owned());
        assert!(is_dumb(text("dumb"), None) && is_dumb(text("dumb"), text("0")));
        assert!(!is_dumb(text("dumb"), text("1")) && !is_dumb(text("xterm"), None) && !is_dumb(None, None));
    }
}
