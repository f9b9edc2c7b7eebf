//! A file of costs: what cryptographic work takes on a machine that is not this one, or was measured elsewhere.
//!
//! What enters: a TOML text with one table `[[cost]]` for each suite. What leaves: the costs for the check and the
//! bounds of a graph, or a [`Report`] with the place of each fault.

use std::path::Path;

use crypto::Suites;
use qos::Direction;
use qos::graph::house::{Line, SuiteCost};
use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::read::{Reader, Value, walk};
use super::report::Report;

const TOP: [&str; 1] = ["cost"];
const COST: [&str; 4] = ["suite", "direction", "base_ns", "ps_per_octet"];
/// The most nanoseconds of a packet, and picoseconds of an octet: a second, and a second for a million octets.
const MOST: i64 = 1_000_000_000;

/// Read a file of costs. Suites are those of the catalogue.
///
/// # Errors
/// If the file cannot be read, or with every fault that it has.
pub fn load_costs(path: &Path, suites: &Suites) -> Result<Vec<SuiteCost>, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Costs { path: path.to_owned(), source })?;
    read_costs(path, &text, suites).map_err(ConfigError::Bad)
}

/// Read a text of costs, which came from `path`.
///
/// # Errors
/// Every fault that the text has.
pub fn read_costs(path: &Path, text: &str, suites: &Suites) -> Result<Vec<SuiteCost>, Report> {
    walk(path, text, |reader, root| reader.costs(root, suites))
}

impl Reader<'_> {
    fn costs(&mut self, root: &DeTable<'_>, suites: &Suites) -> Option<Vec<SuiteCost>> {
        self.keys(root, &TOP, "");
        let example =
            "write [[cost]], and below it: suite = \"aes128gcm\", base_ns = 400, ps_per_octet = 350";
        let Some(value) = root.get("cost") else {
            self.fault(0..0, "the file has no [[cost]]", example);
            return None;
        };
        let DeValue::Array(tables) = value.get_ref() else {
            self.fault(value.span(), "`cost` must be a list of tables", example);
            return None;
        };
        let mut costs: Vec<SuiteCost> = Vec::new();
        for value in tables.iter() {
            let Some(table) = self.table(Some(value), "cost", &COST) else { continue };
            let (Some((suite, directions)), Some(line)) =
                (self.work(value, table, suites), self.line(value, table))
            else {
                continue;
            };
            for direction in directions {
                if costs.iter().any(|cost| cost.suite == suite && cost.direction == *direction) {
                    let message = format!("the cost of {suite} is given twice for one direction");
                    self.fault(value.span(), message, "remove one of them");
                    break;
                }
                costs.push(SuiteCost { suite: suite.clone(), direction: *direction, line });
            }
        }
        Some(costs)
    }

    /// The suite and the directions of a table.
    fn work(
        &mut self,
        at: &Value<'_>,
        table: &DeTable<'_>,
        suites: &Suites,
    ) -> Option<(String, &'static [Direction])> {
        let directions: &'static [Direction] = match table.get("direction") {
            None => &[Direction::Outbound, Direction::Inbound],
            Some(value) => match self.string(value, "direction")? {
                "out" => &[Direction::Outbound],
                "in" => &[Direction::Inbound],
                other => {
                    let remedy = "write \"out\" or \"in\", or leave it out: the cost of both";
                    self.fault(value.span(), format!("no direction is called {other:?}"), remedy);
                    return None;
                }
            },
        };
        let Some(value) = table.get("suite") else {
            self.fault(at.span(), "[[cost]] names no suite", "add: suite = \"aes128gcm\"");
            return None;
        };
        match suites.find(self.string(value, "suite")?) {
            Ok(suite) => Some((suite.to_string(), directions)),
            Err(error) => {
                self.fault(value.span(), error.to_string(), "`ravelin status --json` lists the suites");
                None
            }
        }
    }

    fn line(&mut self, at: &Value<'_>, table: &DeTable<'_>) -> Option<Line> {
        let mut numbers = [0_u64; 2];
        for (number, (key, why)) in numbers.iter_mut().zip([
            ("base_ns", "nanoseconds for each packet"),
            ("ps_per_octet", "picoseconds for each octet; 1000 are a nanosecond"),
        ]) {
            let Some(value) = table.get(key) else {
                self.fault(at.span(), format!("[[cost]] has no `{key}`"), format!("add {key}: {why}"));
                return None;
            };
            *number = self.integer(value, key, 0..=MOST, why).and_then(|n| u64::try_from(n).ok())?;
        }
        let [base_ns, ps_per_octet] = numbers;
        Some(Line { base_ns, ps_per_octet })
    }
}
