//! The transport cases live: behind the scrubber Linux, smoltcp, libnids, tcpflow, tshark and scapy read the same.

use tests::attacks::{Accord, READERS, Reader, document, play};

/// Cases in which readers contradict each other without the scrubber: 78 when this was written. Versions of readers differ.
const FLOOR: usize = 60;

#[test]
fn every_case_before_every_reader() {
    let table = play("ravelin-attacks").expect("the cases are played");
    let mut wrong = Vec::new();
    for (number, line) in table.0.iter().enumerate() {
        let readings = &line.readings[1];
        let linux = &readings[&Reader::Linux];
        for reader in READERS {
            let Some(reading) = readings.get(&reader) else {
                assert!(reader.cannot(line.name, true).or(reader.cannot(line.name, false)).is_some());
                continue;
            };
            let name = reader.name();
            if !line.want.fits(number, reading) {
                wrong.push(format!(
                    "{} ({}): {name} read {reading}, not {:?}",
                    line.name, line.text, line.want
                ));
            }
            if line.comparable(reader) && reading.accord(linux) != Accord::Same {
                wrong.push(format!("{}: {name} read {reading}, Linux {linux}", line.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    let before = [Accord::Contradiction, Accord::Prefix, Accord::Same].map(|accord| table.count(0, accord));
    assert!(before[0] >= FLOOR, "only {} of 115 cases are ambiguous without a scrubber", before[0]);
    assert_eq!(table.count(1, Accord::Same), 115);
    document::check("cases", &table.markdown(), |row| {
        // What readers do to raw attacks is their versions' business; case and agreement are ours.
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        [1, 2, 5].map(|at| cells.get(at).unwrap_or(&"").to_string()).join("|")
    });
}
