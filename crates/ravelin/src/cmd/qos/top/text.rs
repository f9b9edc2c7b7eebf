//! The tables of an interval, for people, within 80 columns.

use api::{QosTop, QosTopClass, QosTopDirection, QosTopLoss, QosTopUnit};

use crate::cmd::qos::graph::NONE;
use crate::output;

/// The most letters of a class in the first column.
const NAME: usize = 14;

/// An interval, for people.
pub(super) fn text(top: &QosTop) -> String {
    let Some(file) = &top.file else { return format!("{NONE}\n") };
    let mut out = format!("graph: {file}, {:.1} s\n", top.seconds);
    for direction in &top.directions {
        out += &of_direction(direction);
    }
    out
}

fn of_direction(direction: &QosTopDirection) -> String {
    let mut out = format!("\n{}\n", direction.direction);
    let rows: Vec<_> = direction.classes.iter().map(class).collect();
    let head = ["CLASS", "IN/s", "KLOST/s", "DROP/s", "WAIT", "WORK", "P50", "P99", "SHARE", "RUN"];
    out += &output::table(&head, &rows);
    let rows: Vec<_> = direction.losses.iter().map(loss).collect();
    if !rows.is_empty() {
        out += "\n";
        out += &output::table(&["LOST OF", "AT", "REASON", "PER s", "ALL"], &rows);
    }
    let rows: Vec<_> = direction.units.iter().map(unit).collect();
    out += "\n";
    out += &output::table(&["UNIT", "LOAD", "COMMITTED", "WORK THAT WAITS", "MARKS"], &rows);
    out
}

fn class(class: &QosTopClass) -> Vec<String> {
    let wait = |ns: Option<u64>| ns.map_or("-".to_owned(), time);
    vec![
        short(&class.class, NAME),
        number(class.arrived_per_second),
        class.kernel_lost_per_second.map_or("-".to_owned(), number),
        number(class.dropped_per_second),
        number(class.waiting as f64),
        time(class.waiting_ns),
        wait(class.p50_ns),
        wait(class.p99_ns),
        percent(class.share_ppm),
        number(class.longest_loss as f64),
    ]
}

fn loss(loss: &QosTopLoss) -> Vec<String> {
    let place = match loss.queue {
        Some(queue) => format!("{} queue {queue}", loss.place),
        None => loss.place.clone(),
    };
    let classes = match (loss.classes.is_empty(), loss.queue) {
        (true, Some(_)) => "no association".to_owned(),
        (true, None) => "any class".to_owned(),
        (false, _) => loss.classes.join(", "),
    };
    vec![
        short(&classes, 2 * NAME),
        place,
        loss.reason.clone(),
        number(loss.per_second),
        number(loss.count as f64),
    ]
}

fn unit(unit: &QosTopUnit) -> Vec<String> {
    vec![
        short(&unit.unit, NAME),
        percent(unit.load_ppm),
        time(unit.committed_ns),
        time(unit.waiting_ns),
        format!("{} to {}", time(unit.low_ns), time(unit.high_ns)),
    ]
}

/// A name that is no longer than so many letters.
fn short(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 1).chain(['~']).collect()
}

/// A number in at most five letters below a thousand million million.
fn number(value: f64) -> String {
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    if value < 10.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let (mut value, mut unit) = (value, 0);
    while value >= 9_999.5 && unit + 1 < UNITS.len() {
        value /= 1_000.0;
        unit += 1;
    }
    format!("{value:.0}{}", UNITS[unit])
}

/// A time with a unit, in at most six letters below an hour.
fn time(ns: u64) -> String {
    let of = |unit: u64, name: &str| {
        let tenths = ns / (unit / 10);
        if tenths < 100 {
            format!("{}.{}{name}", tenths / 10, tenths % 10)
        } else {
            format!("{}{name}", ns / unit)
        }
    };
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => of(1_000, "us"),
        1_000_000..1_000_000_000 => of(1_000_000, "ms"),
        _ => of(1_000_000_000, "s"),
    }
}

fn percent(ppm: u64) -> String {
    match ppm {
        0 => "0%".to_owned(),
        1..1_000 => "<0.1%".to_owned(),
        1_000..100_000 => format!("{}.{}%", ppm / 10_000, ppm / 1_000 % 10),
        _ => format!("{}%", ppm / 10_000),
    }
}

#[cfg(test)]
mod tests {
    use api::QosDirection;

    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        let numbers = [0.0, 0.25, 9.0, 12.6, 9_999.0, 10_000.0, 123_456.0, 5e6, 12_345e6].map(number);
        assert_eq!(numbers, ["0", "0.2", "9", "13", "9999", "10k", "123k", "5000k", "12G"]);
        let times = [0, 256, 1_024, 16_384, 524_288, 1_048_576, 33_554_432, 17_179_869_184].map(time);
        assert_eq!(times, ["0ns", "256ns", "1.0us", "16us", "524us", "1.0ms", "33ms", "17s"]);
        assert_eq!(
            [0, 500, 1_000, 15_000, 250_000, 1_000_000].map(percent),
            ["0%", "<0.1%", "0.1%", "1.5%", "25%", "100%"]
        );
    }

    #[test]
    fn every_line_has_80_columns_at_most() {
        let class = QosTopClass {
            class: "a-class-with-a-long-name".into(),
            arrived: u64::MAX,
            arrived_per_second: 123_456_789.0,
            kernel_lost_per_second: Some(9_999.0),
            dropped_per_second: 99_999_999.0,
            waiting: 4_096,
            waiting_octets: 1,
            waiting_ns: 999_999_999,
            p50_ns: Some(536_870_912),
            p99_ns: Some(17_179_869_184),
            share_ppm: 1_000_000,
            longest_loss: 123_456,
        };
        let loss = QosTopLoss {
            classes: vec!["a-class-with-a-long-name".into(), "another".into(), "and-a-third".into()],
            place: "kernel".into(),
            queue: Some(15),
            reason: "kernel_queue_full".into(),
            count: 123_456_789,
            per_second: 12_345.0,
        };
        let unit = QosTopUnit {
            unit: "a-unit-with-a-long-name".into(),
            load_ppm: 990_000,
            committed_ns: 250_000,
            waiting_ns: 999_999_999,
            low_ns: 125_000,
            high_ns: 250_000,
        };
        let direction = QosTopDirection {
            direction: QosDirection::Out,
            classes: vec![class],
            losses: vec![loss],
            kernel_queues: Vec::new(),
            units: vec![unit],
        };
        let top = QosTop { file: Some("preset voice".into()), seconds: 1.0, directions: vec![direction] };
        let text = text(&top);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let wanted =
            ["graph: preset voice, 1.0 s", "a-class-with-~", "kernel queue 15", "99%", "125us to 250us"];
        assert!(wanted.iter().all(|wanted| text.contains(wanted)), "{text}");
    }

    #[test]
    fn an_interval_without_a_graph_says_so() {
        assert!(text(&QosTop::default()).contains("no graph of classes is in force"));
    }
}
