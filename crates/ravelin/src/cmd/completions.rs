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

/// What the script for bash makes of the words typed so far, and what it does at its end.
const WORDS: [&str; 2] = [
    "    local words=(\"${COMP_WORDS[@]}\")
    if [[ \"${BASH_VERSINFO[0]}\" -ge 4 ]]; then
        words[COMP_CWORD]=\"$2\"
    fi
",
    "        compopt -o nospace
    fi
}
",
];
/// The same for words that bash has parted: `--option=value` arrives as three of them, and only what is behind the
/// equals sign is replaced by what is offered.
const JOINED: [&str; 2] = [
    "    local words=() word at last joins= prefix=
    for at in \"${!COMP_WORDS[@]}\"; do
        word=${COMP_WORDS[at]}
        if [[ $at -eq $COMP_CWORD && $word != '=' ]]; then
            word=$2
        fi
        last=$((${#words[@]} - 1))
        if [[ $last -ge 0 && \"${words[last]}\" == --* && ( -n $joins || $word == '=' ) ]]; then
            words[last]+=$word
        else
            words+=(\"$word\")
            last=$((last + 1))
        fi
        joins=
        if [[ $word == '=' ]]; then
            joins=yes
        fi
        if [[ $at -eq $COMP_CWORD ]]; then
            _CLAP_COMPLETE_INDEX=$last
            if [[ \"${words[last]}\" == --*=* ]]; then
                prefix=${words[last]%%=*}=
            fi
        fi
    done
",
    "        compopt -o nospace
    fi
    if [[ -n $prefix ]]; then
        COMPREPLY=(\"${COMPREPLY[@]#\"$prefix\"}\")
    fi
}
",
];

/// The end of the script for zsh. As a file of `fpath` it is run for the first completion of a session, and would only
/// register itself then.
const FIRST: &str = "
if [[ $funcstack[1] == _ravelin ]]; then
    _clap_dynamic_completer_ravelin \"$@\"
fi
";

impl Completions {
    pub fn execute(self) -> anyhow::Result<()> {
        let writer: &dyn EnvCompleter = match self.shell {
            Shell::Bash => &Bash,
            Shell::Zsh => &Zsh,
            Shell::Fish => &Fish,
        };
        let mut script = Vec::new();
        writer.write_registration(VARIABLE, "ravelin", "ravelin", "ravelin", &mut script)?;
        if matches!(self.shell, Shell::Bash) {
            let mut text = String::from_utf8(script)?;
            for (parted, joined) in WORDS.iter().zip(JOINED) {
                anyhow::ensure!(text.contains(parted), "the script for bash is another one: {text}");
                text = text.replacen(parted, joined, 1);
            }
            script = text.into_bytes();
        }
        if matches!(self.shell, Shell::Zsh) {
            script.extend_from_slice(FIRST.as_bytes());
        }
        std::io::stdout().lock().write_all(&script)?;
        Ok(())
    }
}
