use crate::Wide;

/// Asked of Linux, which is not where the product looks.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test asks Linux")]
fn every_width_of_the_processor_is_found() {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let has =
        |flags: &[&str]| flags.iter().all(|flag| processor.split_whitespace().any(|word| word == *flag));
    let two = has(&["avx2", "aes", "pclmulqdq", "vaes", "vpclmulqdq"]);
    let four = two && has(&["avx512f", "avx512bw", "avx512vl"]);
    let found = Wide::detect_all();
    let widths: Vec<_> = found.iter().map(|wide| wide.four).collect();
    assert_eq!(widths.contains(&false), two);
    assert_eq!(widths.contains(&true), four);
    assert_eq!(found.iter().any(|wide| wide.ifma), four && has(&["avx512ifma"]));
    assert_eq!(Wide::detect().map(|wide| wide.four), widths.last().copied());
}
