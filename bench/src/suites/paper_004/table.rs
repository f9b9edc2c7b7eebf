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
    let path = folder.join("table-1.md");
    std::fs::write(&path, computers())?;
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

/// Table 1: the computers of the paper, and this one, which is both hosts.
fn computers() -> String {
    let line = |file: &str, name: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("unknown", |(_, value)| value.trim()).to_owned()
    };
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZeroUsize::get);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "| computer | processor | memory | network | system |\n|---|---|---|---|---|\n\
         | the paper's AMD | AMD Sempron 2200+, 1.8 GHz, 256 KB cache | 256 MB | Realtek RTL-8169, gigabit | Slackware 12, \
         Linux 2.6.21.5 |\n\
         | the paper's Intel | Intel Pentium D, 2.8 GHz, 1 MB cache | 4 GB | NetLink BCM5789, gigabit | the same |\n\
         | the paper's IBM, which records | 2 x Intel Xeon, 2 x 3 GHz, 2 x 2 MB cache | 4 GB | 2 x NetXtreme BCM5721, \
         gigabit | the same |\n\
         | here, all three | {processors} x {}, {} cache | {} | veth | Linux {} |\n",
        line("/proc/cpuinfo", "model name"),
        line("/proc/cpuinfo", "cache size"),
        line("/proc/meminfo", "MemTotal"),
        kernel.trim(),
    )
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
