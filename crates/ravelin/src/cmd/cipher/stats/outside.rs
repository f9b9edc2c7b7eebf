//! dieharder and ent over the key stream of a cipher, where they are installed.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use api::StatsOutside;
use cipher_stats::{KeyStream, LIMIT, probability};
use crypto::custom::CustomCipher;

use super::failed;
use crate::cmd::cipher::program::{self, ProgramOutput};

/// Octets that ent reads.
const ENT: u64 = 16 << 20;
/// The tests of dieharder 3.31.1 that are run. Of the others, its own list calls 5, 6 and 7 suspect and says of 14 not to use
/// it; the rest takes long.
const DIEHARDER: [u32; 20] =
    [0, 1, 2, 3, 4, 8, 15, 100, 101, 102, 200, 201, 202, 203, 204, 205, 206, 207, 208, 209];
/// Octets that are made at once.
const PIECE: usize = 64 * 1024;

/// Run both.
pub fn run(cipher: &Arc<dyn CustomCipher>, seed: u64, time: Duration) -> anyhow::Result<Vec<StatsOutside>> {
    let stream = || KeyStream::new(Arc::clone(cipher), seed).map_err(|error| failed(&error));
    let mut suites = Vec::new();
    suites.push(match program::find("ent") {
        None => missing("ent"),
        Some(path) => ent(&path, stream()?, time),
    });
    suites.push(match program::find("dieharder") {
        None => missing("dieharder"),
        Some(path) => {
            let mut verdicts = Vec::new();
            for test in DIEHARDER {
                verdicts.push((test, dieharder(&path, test, stream()?, time)));
            }
            dieharder_verdict(&verdicts)
        }
    });
    Ok(suites)
}

fn missing(suite: &str) -> StatsOutside {
    let detail = format!("it is not installed: install Debian's package {suite} to have it run");
    StatsOutside { suite: suite.to_owned(), ran: false, ok: None, detail }
}

/// Write a key stream until the reader has enough.
fn feed(mut stream: KeyStream, octets: u64, to: &mut dyn Write) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut left = octets;
    while left > 0 {
        let now = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let piece = piece.get_mut(..now).unwrap_or_default();
        stream.fill(piece).map_err(std::io::Error::other)?;
        to.write_all(piece)?;
        left -= now as u64;
    }
    Ok(())
}

fn ent(path: &Path, stream: KeyStream, time: Duration) -> StatsOutside {
    let said = program::run(Command::new(path).arg("-t"), time, |to| feed(stream, ENT, to));
    let suite = "ent".to_owned();
    match said.ok().flatten().and_then(|said| ent_figures(&said)) {
        None => StatsOutside {
            suite,
            ran: false,
            ok: None,
            detail: format!(
                "it gave no figures within {} s; try it by hand with `cipher stream`",
                time.as_secs()
            ),
        },
        Some(figures) => {
            let p = probability::chi_square(figures.chi_square, 255.0);
            let detail = format!(
                "entropy {} bits an octet, chi-square {} (p {p:.6}), serial correlation {}, over {ENT} octets",
                figures.entropy, figures.chi_square, figures.correlation
            );
            StatsOutside { suite, ran: true, ok: Some(p >= LIMIT), detail }
        }
    }
}

/// What ent says of a stream.
struct EntFigures {
    entropy: f64,
    chi_square: f64,
    correlation: f64,
}

/// The second line of `ent -t`: a 1, octets, entropy, chi-square, mean, pi, serial correlation.
fn ent_figures(said: &ProgramOutput) -> Option<EntFigures> {
    let line = said.output.lines().find(|line| line.starts_with("1,"))?;
    let values: Vec<f64> = line.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [_, octets, entropy, chi_square, _, _, correlation] = *values.as_slice() else { return None };
    (octets == ENT as f64).then_some(EntFigures { entropy, chi_square, correlation })
}

/// The p values of one test of dieharder; `None` if it did not end in time.
fn dieharder(path: &Path, test: u32, stream: KeyStream, time: Duration) -> Option<Vec<f64>> {
    let mut command = Command::new(path);
    command.args(["-g", "200", "-c", ",", "-d", &test.to_string()]);
    let said = program::run(&mut command, time, |to| feed(stream, u64::MAX, to)).ok().flatten()?;
    dieharder_values(&said)
}

/// The lines that end with an assessment: name, ntup, tsamples, psamples, p value, assessment.
fn dieharder_values(said: &ProgramOutput) -> Option<Vec<f64>> {
    let values: Vec<f64> = said
        .output
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let [_, _, _, _, p, "PASSED" | "WEAK" | "FAILED"] = *fields.as_slice() else { return None };
            p.parse().ok()
        })
        .collect();
    (said.ok && !values.is_empty()).then_some(values)
}

fn dieharder_verdict(verdicts: &[(u32, Option<Vec<f64>>)]) -> StatsOutside {
    let values: Vec<(u32, f64)> =
        verdicts.iter().flat_map(|(test, values)| values.iter().flatten().map(|p| (*test, *p))).collect();
    let low: Vec<String> = values
        .iter()
        .filter(|(_, p)| p.is_nan() || *p < LIMIT)
        .map(|(test, p)| format!("test {test} gave p {p:.8}"))
        .collect();
    let late: Vec<String> =
        verdicts.iter().filter(|(_, values)| values.is_none()).map(|(test, _)| test.to_string()).collect();
    let mut detail = format!("{} p values of {} tests", values.len(), verdicts.len() - late.len());
    if !late.is_empty() {
        detail += &format!("; tests {} gave no result in time and do not count", late.join(", "));
    }
    for low in &low {
        detail += &format!("; {low}");
    }
    let ran = !values.is_empty();
    StatsOutside { suite: "dieharder".to_owned(), ran, ok: ran.then_some(low.is_empty()), detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(output: &str) -> ProgramOutput {
        ProgramOutput { ok: true, output: output.to_owned(), errors: String::new() }
    }

    #[test]
    fn figures_of_ent_are_read() {
        let head = "0,File-bytes,Entropy,Chi-square,Mean,Monte-Carlo-Pi,Serial-Correlation\n";
        let line = "1,16777216,7.999988,271.501129,127.493561,3.142754,-0.000629\n";
        let figures = ent_figures(&said(&format!("{head}{line}"))).unwrap();
        assert_eq!(
            (figures.entropy, figures.chi_square, figures.correlation),
            (7.999988, 271.501129, -0.000629)
        );
        assert!(ent_figures(&said(head)).is_none());
        assert!(ent_figures(&said("1,5,7.9,271.5,127.4,3.14,-0.0006\n")).is_none(), "too few octets");
    }

    #[test]
    fn values_of_dieharder_are_read_and_judged() {
        let output = "   rng_name    ,rands/second,   Seed   ,\nstdin_input_raw,  3.17e+07  ,4073323359,
        diehard_runs,   0,    100000,     100,0.09833960,  PASSED  
        diehard_runs,   0,    100000,     100,0.00000000,  FAILED  \n";
        let values = dieharder_values(&said(output)).unwrap();
        assert_eq!(values, [0.0983396, 0.0]);
        assert!(dieharder_values(&said("nothing of it\n")).is_none());
        assert!(dieharder_values(&ProgramOutput { ok: false, ..said(output) }).is_none());
        let failed = dieharder_verdict(&[(15, Some(values)), (0, None)]);
        assert_eq!((failed.ran, failed.ok), (true, Some(false)));
        assert!(
            failed.detail.contains("test 15 gave p 0.0000")
                && failed.detail.contains("tests 0 gave no result")
        );
        assert_eq!(dieharder_verdict(&[(15, Some(vec![0.5]))]).ok, Some(true));
        assert_eq!(dieharder_verdict(&[(15, None)]).ok, None);
    }
}
