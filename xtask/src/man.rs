//! Manual pages: those of section 1 from the program's own arguments, the others from the Markdown of docs/.
//!
//! What enters: docs/man and the pages of docs/ that a running host needs, and a program that was built. What leaves: a
//! folder of pages in roff (man(7) with tbl(1)), the same octets for the same commit. `mandoc -Tlint` has the last word.

mod pages;
mod roff;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use pages::PAGES;

/// Where to write the pages, and which program to ask for those of its commands.
#[derive(clap::Args)]
pub struct Options {
    /// The folder; it is made where it is missing
    folder: PathBuf,
    /// The program whose commands have a page each; without one those pages are left out
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Write the manual pages into a folder.
pub fn run(options: &Options) -> Result<bool> {
    let date = date()?;
    by_hand(&options.folder, &date)?;
    if let Some(program) = &options.program {
        let mut command = Command::new(program);
        command.arg("man-pages").arg(&options.folder).args(["--date", &date]);
        ensure!(crate::process::passes(&mut command)?, "{} man-pages failed", program.display());
    }
    Ok(true)
}

/// Whether mandoc has nothing to say of the pages that are written by hand.
pub fn lint() -> Result<bool> {
    let folder = std::env::temp_dir().join(format!("rvl-xtask-man-{}", std::process::id()));
    let linted = by_hand(&folder, "2000-01-01").and_then(|pages| {
        let mut mandoc = Command::new("mandoc");
        mandoc.args(["-Tlint", "-W", "warning"]).args(pages);
        crate::process::passes(&mut mandoc)
    });
    let removed = fs::remove_dir_all(&folder);
    let passed = linted?;
    removed?;
    Ok(passed)
}

/// Write the pages that are written by hand; their paths.
fn by_hand(folder: &Path, date: &str) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let mut paths = Vec::new();
    for page in &PAGES {
        let source = docs.join(page.file);
        let text = fs::read_to_string(&source).with_context(|| format!("reading {}", source.display()))?;
        let path = folder.join(format!("{}.{}", page.name, page.section));
        fs::write(&path, roff::page(page, &text, date))
            .with_context(|| format!("writing {}", path.display()))?;
        paths.push(path);
    }
    Ok(paths)
}

/// The date that pages bear: of SOURCE_DATE_EPOCH, else of the last commit, else none that changes.
fn date() -> Result<String> {
    let told = std::env::var("SOURCE_DATE_EPOCH").ok();
    let mut command = match &told {
        Some(seconds) => {
            let mut date = Command::new("date");
            date.args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%d"]);
            date
        }
        None => {
            let mut git = Command::new("git");
            git.args(["log", "-1", "--format=%cs"]).current_dir(env!("CARGO_MANIFEST_DIR"));
            git
        }
    };
    let output = command.output().ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    ensure!(told.is_none() || text.is_some(), "SOURCE_DATE_EPOCH is no number of seconds: {told:?}");
    Ok(text.filter(|text| !text.is_empty()).unwrap_or_else(|| "2000-01-01".to_owned()))
}
