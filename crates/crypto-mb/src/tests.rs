use crate::Wide;
use crate::gcm::Gcm;

const TWO: [&str; 5] = ["avx2", "aes", "pclmulqdq", "vaes", "vpclmulqdq"];
const FOUR: [&str; 3] = ["avx512f", "avx512bw", "avx512vl"];
const IFMA: &str = "avx512ifma";

/// Every width that this processor has. Without any, that is said.
#[expect(clippy::disallowed_macros, reason = "a test says what it skipped")]
pub(crate) fn widths() -> Vec<Wide> {
    let widths = Wide::detect_all();
    if widths.is_empty() {
        println!("skipped: the wide unit: this processor has no VAES and VPCLMULQDQ");
    }
    widths
}

fn widths_of(has: impl Fn(&str) -> bool) -> Vec<(bool, bool)> {
    Wide::of_processor(has).iter().map(|wide| (wide.takes_four(), wide.has_ifma())).collect()
}

#[test]
fn no_width_without_each_of_its_instructions() {
    assert_eq!(widths_of(|_| true), [(false, false), (true, true)]);
    assert_eq!(widths_of(|_| false), []);
    for missing in TWO {
        assert_eq!(widths_of(|name| name != missing), [], "{missing}");
    }
    for missing in FOUR {
        assert_eq!(widths_of(|name| name != missing), [(false, false)], "{missing}");
    }
    assert_eq!(widths_of(|name| name != IFMA), [(false, false), (true, false)]);
    assert_eq!(widths_of(|name| TWO.contains(&name)), [(false, false)]);
}

/// Asked of Linux, which is not where the product looks.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test asks Linux")]
fn every_width_of_the_processor_is_found() {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let has = |name: &str| processor.split_whitespace().any(|word| word == name);
    assert_eq!(
        widths_of(has),
        Wide::detect_all().iter().map(|wide| (wide.takes_four(), wide.has_ifma())).collect::<Vec<_>>()
    );
    assert_eq!(Wide::detect().map(|wide| wide.takes_four()), widths_of(has).last().map(|(four, _)| *four));
}

#[test]
fn a_key_is_made_for_its_own_width_alone() {
    for wide in widths() {
        assert_eq!(Gcm::<true>::new(wide, &[1; 16]).is_some(), wide.takes_four());
        assert_eq!(Gcm::<false>::new(wide, &[1; 16]).is_some(), !wide.takes_four());
    }
}
