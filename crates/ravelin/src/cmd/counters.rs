//! `ravelin counters`: what ended, by reason.

use api::path;
use clap::Args;

use crate::client::Connect;
use crate::output;

/// Show why packets ended, in the data path and in the kernel half.
#[derive(Debug, Args)]
pub struct Counters {
    #[command(flatten)]
    connect: Connect,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Counters {
    pub fn execute(self) -> anyhow::Result<()> {
        let counters: api::Counters = self.connect.get(path::COUNTERS)?;
        if self.json {
            return output::json(&counters);
        }
        let places =
            [("outbound", &counters.outbound), ("inbound", &counters.inbound), ("kernel", &counters.kernel)];
        let rows: Vec<Vec<String>> = places
            .iter()
            .flat_map(|(place, counts)| counts.iter().map(move |count| (place, count)))
            .map(|(place, count)| {
                let text = count.text.clone().unwrap_or_default();
                vec![(*place).to_owned(), count.reason.clone(), count.count.to_string(), text]
            })
            .collect();
        if rows.is_empty() {
            return output::text("nothing was dropped or refused\n");
        }
        output::text(&output::table(&["WHERE", "REASON", "COUNT", "MEANING"], &rows))
    }
}
