//! `ravelin help`: the first screen, the list of all commands, and the arguments of one.

use std::ffi::OsString;
use std::fmt::Write;

use clap::Args;
use clap::builder::StyledStr;

use crate::color::{HEAD, paint};
use crate::exit::{Failure, Kind};
use crate::output;

/// What the exit statuses mean, below help.
pub const STATUSES: &str = "Exit status: 0 done, 1 failed or refused, 2 bad input or usage, 3 no daemon answers,\n\
     4 `policy plan` found changes, 5 not allowed.";

/// What somebody new needs first.
const FIRST: [(&str, &str); 8] = [
    ("demo", "see it work, on this machine alone"),
    ("doctor", "what this host lacks, if anything"),
    ("init", "write the first configuration and policy"),
    ("run", "run the daemon"),
    ("policy", "check a policy, plan what it changes, put it in force"),
    ("sa", "give the daemon keys, and see its associations"),
    ("status", "which programs are protected, and what is wrong"),
    ("explain", "why a program's traffic is treated as it is"),
];

const EXAMPLES: [(&str, &str); 3] = [
    ("ravelin demo", "two hosts, an unmodified curl and an eavesdropper"),
    ("ravelin policy check /etc/ravelin/main.policy", "every fault with its line and a remedy"),
    (
        "ravelin explain --app curl --to 192.0.2.1:443/tcp",
        "what curl gets to that peer, and which line says so",
    ),
];

/// Show the first commands, all commands (`--all`), or the arguments of one.
#[derive(Debug, Args)]
pub struct Help {
    /// List every command with a sentence about it.
    #[arg(long, conflicts_with = "command")]
    all: bool,
    /// The command, as in `ravelin help policy check`.
    command: Vec<String>,
}

impl Help {
    pub fn execute(self) -> anyhow::Result<()> {
        let mut root = crate::cli::arguments();
        if self.all {
            return output::styled(&all(&mut root));
        }
        if self.command.is_empty() {
            return output::styled(&first_screen().ansi().to_string());
        }
        let mut command = &root;
        for (at, word) in self.command.iter().enumerate() {
            command = command.find_subcommand(word).ok_or_else(|| {
                let name = self.command[..=at].join(" ");
                Failure::with_remedy(
                    Kind::BadInput,
                    format!("there is no command `ravelin {name}`"),
                    "`ravelin help --all` lists the commands",
                )
            })?;
        }
        let words =
            std::iter::once("ravelin").chain(self.command.iter().map(String::as_str)).chain(["--help"]);
        match crate::cli::parse(&words.map(OsString::from).collect::<Vec<_>>()) {
            Err(help) => output::styled(&help.render().ansi().to_string()),
            Ok(_) => Ok(()),
        }
    }
}

/// A screen for somebody who has not decided anything yet.
pub fn first_screen() -> StyledStr {
    let mut out = format!(
        "Application-aware IPsec: says per program which of its traffic is protected, and protects it.\n\n\
         {} ravelin COMMAND [ARGUMENTS]\n\n{}\n",
        paint(HEAD, "Usage:"),
        paint(HEAD, "Commands:")
    );
    for (name, text) in FIRST {
        let _ = writeln!(out, "  {} {text}", paint(HEAD, format_args!("{name:<9}")));
    }
    let _ = writeln!(out, "\n{}", paint(HEAD, "Examples:"));
    for (line, text) in EXAMPLES {
        let _ = writeln!(out, "  {line:<51}{text}");
    }
    let _ = writeln!(
        out,
        "\n`ravelin help --all` lists every command, `ravelin help COMMAND` says what one takes; ravelin(1) is the manual.\n\
         {STATUSES}"
    );
    StyledStr::from(out)
}

/// Every command with the first sentence about it, those below a command under its name.
fn all(root: &mut clap::Command) -> String {
    root.build();
    let mut lines = Vec::new();
    for command in root.get_subcommands() {
        list(command, "", &mut lines);
    }
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut out =
        format!("{} ravelin COMMAND [ARGUMENTS]\n\n{}\n", paint(HEAD, "Usage:"), paint(HEAD, "Commands:"));
    for (name, about) in lines {
        let _ = writeln!(out, "  {}  {about}", paint(HEAD, format_args!("{name:<width$}")));
    }
    let _ = writeln!(out, "\n`ravelin help COMMAND` says what one takes.\n{STATUSES}");
    out
}

fn list(command: &clap::Command, above: &str, lines: &mut Vec<(String, String)>) {
    if command.is_hide_set() {
        return;
    }
    let name = format!("{above}{}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.split(". ").next().unwrap_or_default().to_owned();
    if command.has_subcommands() {
        command.get_subcommands().for_each(|below| list(below, &format!("{name} "), lines));
    } else {
        lines.push((name, about));
    }
}
