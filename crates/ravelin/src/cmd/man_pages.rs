//! `ravelin man-pages`, which packaging uses: a manual page for each command, as the arguments describe it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

/// Write a manual page of section 1 for each command into a folder. `cargo xtask man` adds the others.
#[derive(Debug, Args)]
pub struct ManPages {
    /// The folder, which must be there.
    folder: PathBuf,
    /// The date that the pages bear, such as 2026-01-31.
    #[arg(long, value_name = "DATE", default_value = "2000-01-01")]
    date: String,
}

/// What every page ends with.
const END: &str = "\
.SH \"EXIT STATUS\"
0 done, 1 failed or refused, 2 bad input or usage, 3 no daemon answers, 4 changes (policy plan), 5 not allowed.
With \\fB\\-\\-json\\fR a failure is a document on standard output too.
.SH \"SEE ALSO\"
.BR ravelin (1),
.BR ravelin\\-policy (5)
";

impl ManPages {
    pub fn execute(self) -> anyhow::Result<()> {
        let mut root = crate::cli::arguments();
        root.build();
        for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
            write(&self.folder, &self.date, command, &format!("ravelin-{}", command.get_name()))?;
        }
        Ok(())
    }
}

/// The page without breaks beside vertical space, which breaks the line itself.
fn without_idle_breaks(roff: &str) -> String {
    let lines: Vec<&str> = roff.lines().map(|line| if line.is_empty() { ".sp" } else { line }).collect();
    let is = |at: Option<usize>, request: &str| at.and_then(|at| lines.get(at)) == Some(&request);
    let idle = |at: usize| is(Some(at), ".br") && (is(at.checked_sub(1), ".sp") || is(Some(at + 1), ".sp"));
    let kept = lines.iter().enumerate().filter(|(at, _)| !idle(*at));
    kept.map(|(_, line)| format!("{line}\n")).collect()
}

/// Write the pages of a command and of those below it.
fn write(folder: &Path, date: &str, command: &clap::Command, name: &str) -> anyhow::Result<()> {
    let page = clap_mangen::Man::new(command.clone()).title(name.to_owned()).manual("Ravelin").date(date);
    let mut roff = Vec::new();
    page.source(concat!("Ravelin ", env!("CARGO_PKG_VERSION"))).render(&mut roff)?;
    let roff = without_idle_breaks(&String::from_utf8(roff)?) + END;
    let path = folder.join(format!("{name}.1"));
    fs::write(&path, roff).with_context(|| format!("writing {}", path.display()))?;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(folder, date, below, &format!("{name}-{}", below.get_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_break_stays_where_there_is_no_space() {
        let page = "a\n.br\n\n.br\nb\n.br\nc\n";
        assert_eq!(super::without_idle_breaks(page), "a\n.sp\nb\n.br\nc\n");
    }
}
