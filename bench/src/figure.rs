//! One measured figure, and the report that collects them: a table for people, a line of JSON each for machines.

use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Which side of the target is good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The value must be this or more.
    AtLeast(f64),
    /// The value must be this or less.
    AtMost(f64),
    /// The value must be between these.
    Between(f64, f64),
    /// The value is recorded, not judged.
    Recorded,
}

impl Target {
    fn bound(self) -> Option<f64> {
        match self {
            Target::AtLeast(bound) | Target::AtMost(bound) | Target::Between(bound, _) => Some(bound),
            Target::Recorded => None,
        }
    }

    fn met_by(self, value: f64) -> bool {
        match self {
            Target::AtLeast(bound) => value >= bound,
            Target::AtMost(bound) => value <= bound,
            Target::Between(least, most) => (least..=most).contains(&value),
            Target::Recorded => true,
        }
    }

    fn text(self) -> String {
        match self {
            Target::AtLeast(bound) => format!(">= {bound}"),
            Target::AtMost(bound) => format!("<= {bound}"),
            Target::Between(least, most) => format!("{least} to {most}"),
            Target::Recorded => String::new(),
        }
    }
}

/// A figure that was measured. `value` is the median of the rounds, `min` and `max` their range.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Dotted name, stable from release to release.
    pub name: String,
    /// The median of the rounds.
    pub value: f64,
    /// Unit: `ratio`, `ns`, `ms`, `ns/byte`, `Gbit/s`, `us`, `%`, `octets`, `MiB`, `Mpps`, `Mbit/s`, `1/s`.
    pub unit: &'static str,
    /// The value of the lowest round.
    pub min: f64,
    /// The value of the highest round.
    pub max: f64,
    /// What it was measured against, in the same run.
    pub anchor: String,
    /// The bound it is judged by, if any.
    pub target: Option<f64>,
    /// Whether the bound was met; true without one.
    pub ok: bool,
    #[serde(skip)]
    sense: Target,
}

impl Figure {
    /// A figure from one value a round.
    ///
    /// # Panics
    /// Without rounds.
    pub fn new(
        name: impl Into<String>,
        unit: &'static str,
        rounds: &[f64],
        anchor: impl Into<String>,
        sense: Target,
    ) -> Figure {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
        let value = crate::interleave::median(&mut sorted);
        let ok = sense.met_by(value);
        Figure {
            name: name.into(),
            value,
            unit,
            min,
            max,
            anchor: anchor.into(),
            target: sense.bound(),
            ok,
            sense,
        }
    }
}

/// Something that could not be measured here, and why. It is no failure: a peer may be missing.
#[derive(Clone, Debug, Serialize)]
pub struct Absent {
    /// What its figures' names begin with.
    pub name: String,
    /// The reason why it could not be measured.
    pub absent: String,
}

/// The figures of one suite.
#[derive(Debug, Default)]
pub struct Report {
    figures: Vec<Figure>,
    absent: Vec<Absent>,
}

impl Report {
    /// Add a figure to the report.
    pub fn push(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// Say that something cannot be measured here.
    pub fn absent(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        self.absent.push(Absent { name: name.into(), absent: reason.into() });
    }

    /// The figures so far.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// Whether every figure met its target.
    pub fn ok(&self) -> bool {
        self.figures.iter().all(|f| f.ok)
    }

    /// A table for people.
    pub fn table(&self) -> String {
        let width = self.figures.iter().map(|f| f.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        let mut line = |cells: [&str; 6]| {
            let [name, value, unit, range, target, anchor] = cells;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:width$} {value:>9} {unit:8} {range:22} {target:11} {anchor}");
        };
        line(["figure", "median", "unit", "min .. max", "target", "anchor"]);
        for f in &self.figures {
            let range = format!("{:.3} .. {:.3}", f.min, f.max);
            let mark = if f.ok { "" } else { " MISSED" };
            let target = format!("{}{mark}", f.sense.text());
            line([&f.name, &format!("{:.3}", f.value), f.unit, &range, &target, &f.anchor]);
        }
        for Absent { name, absent } in &self.absent {
            let _ = writeln!(text, "{name:width$}    absent: {absent}");
        }
        text
    }

    /// Write one JSON object a line, replacing the file.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write_jsonl(&self, path: &Path) -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        for figure in &self.figures {
            serde_json::to_writer(&mut file, figure)?;
            file.write_all(b"\n")?;
        }
        for absent in &self.absent {
            serde_json::to_writer(&mut file, absent)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_judged_by_its_median() {
        let rounds = [0.2, 0.9, 0.7, 0.8, 0.3];
        let figure = Figure::new("x", "ratio", &rounds, "bare", Target::AtLeast(0.6));
        assert_eq!((figure.value, figure.min, figure.max, figure.ok), (0.7, 0.2, 0.9, true));
        assert!(!Figure::new("x", "ns", &rounds, "", Target::AtMost(0.6)).ok);
        assert!(!Figure::new("x", "ns", &rounds, "", Target::Between(1e9, 2e9)).ok);
        assert!(Figure::new("x", "ns", &rounds, "", Target::Recorded).ok);
        let json = serde_json::to_value(&figure).unwrap();
        let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        let mut want =
            ["name", "value", "unit", "min", "max", "anchor", "target", "ok"].map(String::from).to_vec();
        want.sort();
        let mut got = keys;
        got.sort();
        assert_eq!(got, want);
    }
}
