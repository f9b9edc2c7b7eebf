//! The checks behind `ravelin doctor`, on the machine that runs the tests.

#[test]
fn this_kernel_offers_everything() {
    let mut checks = sockmon::probe();
    checks.extend(sockmon::probe_programs());
    for check in &checks {
        println!("{:15} {} {}", check.name, check.ok, check.detail);
    }
    let failed: Vec<_> = checks.iter().filter(|c| !c.ok).collect();
    assert!(failed.is_empty(), "run as root; {failed:#?}");
    assert!(checks.len() >= 9);
}
