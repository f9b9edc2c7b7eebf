//! `ravelin qos apply|confirm|rollback`: another graph for the daemon while packets wait, perhaps on trial.

use std::fmt::Write;

use api::{QosApplied, QosApply, Waiting, path};
use clap::Args;

use super::graph::GraphChoice;
use crate::client::Ask;
use crate::cmd::debug::seconds;
use crate::output;

/// Put a graph of classes in force while the daemon runs. Packets that wait stay in their queues, by the names of these;
/// those whose queue is gone are classified again. The file that `[qos]` names gets its text, and what was there is kept
/// as `.previous`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ravelin qos plan qos.toml                          what it would promise
  ravelin qos apply qos.toml --confirm-within 60s    taken back in a minute, unless `ravelin qos confirm`
  ravelin qos apply --preset voice
  ravelin qos apply                                  the file that [qos] names, as it is now")]
pub struct Apply {
    #[command(flatten)]
    of: GraphChoice,
    /// Take it back unless it is confirmed within this time: 60s, 10m. The file has it only then.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    confirm_within: Option<u64>,
    /// End reservations that the graph has no class, unit, uplink or room for. Without this such a graph is refused.
    #[arg(long)]
    end_reservations: bool,
    #[command(flatten)]
    ask: Ask,
}

/// Keep the graph that is on trial.
#[derive(Debug, Args)]
pub struct Confirm {
    #[command(flatten)]
    ask: Ask,
}

/// Put the graph before in force again, and in its file.
#[derive(Debug, Args)]
pub struct Rollback {
    #[command(flatten)]
    ask: Ask,
}

impl Apply {
    pub(super) fn execute(self) -> anyhow::Result<()> {
        let mut request = QosApply {
            confirm_within_seconds: self.confirm_within,
            end_reservations: self.end_reservations,
            ..QosApply::default()
        };
        if let Some(of) = self.of.graph() {
            // What is wrong is told here, with its places; the daemon looks at what it alone knows.
            let graph = of.sound(&of.house()?)?;
            let absolute = std::path::absolute(&graph.source).ok().filter(|path| path.exists());
            request.file = Some(absolute.map_or(graph.source, |path| path.display().to_string()));
            request.text = Some(graph.text);
        }
        let answer: QosApplied = self.ask.connect.post(path::QOS_APPLY, &request)?;
        tell(&self.ask, &answer, "is in force")
    }
}

impl Confirm {
    pub(super) fn execute(self) -> anyhow::Result<()> {
        let answer = self.ask.connect.post(path::QOS_CONFIRM, &serde_json::json!({}))?;
        tell(&self.ask, &answer, "stays in force")
    }
}

impl Rollback {
    pub(super) fn execute(self) -> anyhow::Result<()> {
        let answer = self.ask.connect.post(path::QOS_ROLLBACK, &serde_json::json!({}))?;
        tell(&self.ask, &answer, "is in force: the graph before")
    }
}

/// A line that says when a graph is taken back.
pub(super) fn taken_back(waiting: &Waiting) -> String {
    format!("taken back in {}, unless `ravelin qos confirm`\n", output::duration(waiting.seconds_left))
}

fn tell(ask: &Ask, answer: &QosApplied, what: &str) -> anyhow::Result<()> {
    ask.show(answer, |answer| {
        let mut out = format!("{} {what}: {}\n", answer.file, answer.classes.join(", "));
        if let Some(file) = &answer.installed {
            let _ = writeln!(out, "{file} has its text");
        }
        if let Some(file) = &answer.kept_as {
            let _ = writeln!(out, "{file} has the text that was there");
        }
        if let Some(waiting) = &answer.waiting {
            out += &taken_back(waiting);
        }
        answer.notes.iter().for_each(|note| out += &format!("note: {note}\n"));
        answer.ended_reservations.iter().for_each(|ended| out += &format!("ended: {ended}\n"));
        out
    })
}
