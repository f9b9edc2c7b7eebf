//! Table 2 and Figure 5 as files: every run of every row, and the plots.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{DIRECTIONS, Measured};
use crate::figure::Report;
use crate::paper::plot::{Mark, Plot};

/// Write the table and draw the plots.
pub(super) fn write(measured: &[Measured<'_>], report: &Report) -> anyhow::Result<()> {
    let folder = folder();
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("table-2.md");
    std::fs::write(&path, text(measured))?;
    println!("paper-004: table in {}", path.display());
    for (name, title, is_soft) in [
        ("figure-5", "Dataflow rate under different algorithms", false),
        ("figure-5-soft", "Dataflow rate without AES instructions", true),
    ] {
        let rows: Vec<_> =
            measured.iter().filter(|of| of.row.transform.name.starts_with("soft.") == is_soft).collect();
        if rows.is_empty() {
            continue;
        }
        let series = DIRECTIONS.into_iter().map(|(word, words, ..)| {
            let mark = |of: &&Measured<'_>| {
                let name = format!("paper-004.{}.{word}.mbit", of.row.transform.name);
                let figure = report.figures().iter().find(|figure| figure.name == name)?;
                Some(Mark { min: figure.min, value: figure.value, max: figure.max })
            };
            (words.to_owned(), rows.iter().map(mark).collect())
        });
        let plot = Plot {
            title,
            axis: "goodput, Mbit/s (logarithmic)",
            log: true,
            categories: rows.iter().map(|of| of.row.transform.title).collect(),
            series: series.collect(),
        };
        let path = folder.join(format!("{name}.svg"));
        plot.write(&path)?;
        println!("paper-004: plot in {}", path.display());
    }
    Ok(())
}

/// The table: a line for each run, as in the paper.
fn text(measured: &[Measured<'_>]) -> String {
    let mut out = String::from(
        "| algorithm | direction | Mbit/s, three runs | sender CPU, % | receiver CPU, % | the paper's median, Mbit/s |\n\
         |---|---|---|---|---|---|\n",
    );
    for of in measured {
        let soft = if of.row.transform.name.starts_with("soft.") { " (no AES instructions)" } else { "" };
        for (index, (_, words, ..)) in DIRECTIONS.into_iter().enumerate() {
            let list = |part: &dyn Fn(&super::Stream) -> f64, digits: usize| {
                let texts = of.streams[index].iter().map(|stream| format!("{:.digits$}", part(stream)));
                texts.collect::<Vec<_>>().join(", ")
            };
            let paper = of.row.paper.map_or("-".to_owned(), |paper| format!("{:.2}", paper[index]));
            let _ = writeln!(
                out,
                "| {}{soft} | {words} | {} | {} | {} | {paper} |",
                of.row.transform.title,
                list(&|stream| stream.mbit, 2),
                list(&|stream| stream.cpu[0], 1),
                list(&|stream| stream.cpu[1], 1),
            );
        }
    }
    out
}

/// The folder for table and plots.
fn folder() -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(own) => PathBuf::from(own).join("../docs/papers/004"),
        None => PathBuf::from("target/bench/paper-004"),
    }
}
