//! The transport cases live: behind the scrubber Linux, smoltcp, libnids, tcpflow, tshark and scapy read the same.

use tests::attacks::{Accord, READERS, Reader, play};

#[test]
fn every_case_before_every_reader() {
    let table = play("ravelin-attacks").expect("the cases are played");
    let mut wrong = Vec::new();
    for (number, line) in table.0.iter().enumerate() {
        let readings = &line.readings[1];
        let linux = &readings[&Reader::Linux];
        if !line.want.fits(number, linux) {
            wrong.push(format!("{} ({}): Linux read {linux:?}, not {:?}", line.name, line.text, line.want));
        }
        for reader in READERS {
            match readings.get(&reader) {
                Some(reading) if reading.accord(linux) != Accord::Same => {
                    wrong.push(format!("{}: {} read {reading:?}, Linux {linux:?}", line.name, reader.name()));
                }
                _ => {}
            }
        }
    }
    if std::env::var_os("RAVELIN_SHOW").is_some() {
        println!("{}", table.markdown());
        println!("before: {} contradict", table.count(0, Accord::Contradiction));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
