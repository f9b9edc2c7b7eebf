//! `ravelin qos top`: what the graph that is in force did in each interval: who arrives, who waits and for how long, who
//! loses packets, where and why.

mod interval;
mod text;

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use api::{QosState, path};
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::client::Ask;
use crate::output;

/// Show what the graph of classes does, again and again: arrivals, losses with their place and reason, what waits and
/// how long packets waited, the load of units. It ends with Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ravelin qos top                       a table every second
  ravelin qos top --interval 10         a table every ten seconds
  ravelin qos top --once --json         one interval, for programs

Without a terminal each interval is a table behind the one before; with --json it is an object on a line.")]
pub struct Top {
    /// The length of an interval in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    interval: u64,
    /// Show one interval and end.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    ask: Ask,
}

/// Move to the corner of the terminal and clear what is behind it.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

impl Top {
    pub fn execute(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut ends = {
            let _entered = runtime.enter();
            [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]
        };
        let every = Duration::from_secs(self.interval);
        let (mut before, mut began) = self.look()?;
        loop {
            if runtime.block_on(is_ended(&mut ends, every)) {
                return Ok(());
            }
            let (now, ended) = self.look()?;
            let top = interval::between(&before, &now, (ended - began).as_secs_f64());
            match (self.ask.json, self.once) {
                (true, true) => output::json(&top)?,
                (true, false) => {
                    output::take();
                    output::line(&top)?;
                }
                (false, once) => {
                    let mut out = std::io::stdout().lock();
                    if !once && out.is_terminal() {
                        out.write_all(CLEAR)?;
                    }
                    drop(out);
                    output::text(&text::text(&top))?;
                    if !once && !std::io::stdout().is_terminal() {
                        output::text("\n")?;
                    }
                }
            }
            if self.once {
                return Ok(());
            }
            (before, began) = (now, ended);
        }
    }

    /// The state of the graph, and the time when it came.
    fn look(&self) -> anyhow::Result<(QosState, Instant)> {
        let state = self.ask.connect.get(path::QOS)?;
        Ok((state, Instant::now()))
    }
}

/// Wait for an interval. Returns whether the user ended it.
async fn is_ended([interrupt, terminate]: &mut [Signal; 2], interval: Duration) -> bool {
    tokio::select! {
        () = tokio::time::sleep(interval) => false,
        _ = interrupt.recv() => true,
        _ = terminate.recv() => true,
    }
}
