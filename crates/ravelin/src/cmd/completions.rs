//! `ravelin completions`: scripts for shells.

use std::io::Write;

use clap::{Args, ValueEnum};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::complete::VARIABLE;

/// Print the script that completes `ravelin` in a shell.
///
/// The script asks this program, so that commands, options, files, and the applications, associations, rules and instances of a
/// running daemon are completed. Packages install it; by hand: source <(ravelin completions bash)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  source <(ravelin completions bash)                                    in ~/.bashrc
  ravelin completions zsh > /usr/local/share/zsh/site-functions/_ravelin
  ravelin completions fish > ~/.config/fish/completions/ravelin.fish")]
pub struct Completions {
    /// The shell that the script is for.
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub fn execute(self) -> anyhow::Result<()> {
        let writer: &dyn EnvCompleter = match self.shell {
            Shell::Bash => &Bash,
            Shell::Zsh => &Zsh,
            Shell::Fish => &Fish,
        };
        let mut script = Vec::new();
        writer.write_registration(VARIABLE, "ravelin", "ravelin", "ravelin", &mut script)?;
        std::io::stdout().lock().write_all(&script)?;
        Ok(())
    }
}
