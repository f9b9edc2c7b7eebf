//! Tables that tests measure, in docs/papers/003.md between markers.

use std::path::Path;

/// Set, the table is written; otherwise it is compared.
const WRITE: &str = "RAVELIN_WRITE_TABLES";

/// Compare the rows of the table `name` in the document with those measured, by what `part` keeps of a row; or write it.
///
/// # Panics
/// If they differ, or the document has no place for the table.
pub fn check(name: &str, measured: &str, part: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/papers/003.md");
    let text = std::fs::read_to_string(&path).expect("docs/papers/003.md");
    let [begin, end] = ["begin", "end"].map(|word| format!("<!-- {word} {name} -->\n"));
    let (before, rest) = text.split_once(&begin).expect("the table's first marker");
    let (table, after) = rest.split_once(&end).expect("the table's second marker");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, [before, &begin, measured, &end, after].concat())
            .expect("the document written");
        return;
    }
    let rows = |text: &str| text.lines().map(&part).collect::<Vec<_>>();
    assert_eq!(
        rows(table),
        rows(measured),
        "docs/papers/003.md is not what was measured; write it with {WRITE}=1"
    );
}
