//! What libtest prints, understood.

/// What one test program said.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
    pub skipped: Vec<String>,
    pub failures: Vec<String>,
    /// The passing test whose output is being read, if it is; empty before the first.
    showing: Option<String>,
}

impl Count {
    /// The count of one test that passed.
    pub fn one_passed() -> Count {
        Count { passed: 1, ..Count::default() }
    }

    /// The count of one test that failed, with its name.
    pub fn one_failed(name: String) -> Count {
        Count { failed: 1, failures: vec![name], ..Count::default() }
    }

    /// Add what another program said.
    pub fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.skipped.extend(other.skipped);
        self.failures.extend(other.failures);
    }

    /// Read one line of libtest's output; whether it is worth showing.
    pub fn read(&mut self, line: &str) -> bool {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += number_before(result, " passed");
            self.failed += number_before(result, " failed");
            self.ignored += number_before(result, " ignored");
            self.showing = None;
        } else if line == "successes:" {
            self.showing = Some(String::new());
        } else if line == "failures:" {
            self.showing = None;
        } else if let Some(test) = &mut self.showing {
            if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
            {
                *test = name.to_string();
            } else if line.get(..8).is_some_and(|word| word.eq_ignore_ascii_case("skipped:")) {
                self.skipped.push(format!("{test}:{}", &line[8..]));
            }
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"))
        {
            self.failures.push(name.to_string());
        }
        self.showing.is_none()
    }
}

/// 12 in `ok. 12 passed; ...` before ` passed`.
fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_is_understood() {
        let mut count = Count::default();
        let output = [
            ("running 4 tests", true),
            ("test a::b ... ok", true),
            ("test a::c ... FAILED", true),
            ("", true),
            ("successes:", false),
            ("", false),
            ("---- a::b stdout ----", false),
            ("it says something, not skipped: at the start", false),
            ("skipped: no captures", false),
            ("", false),
            ("successes:", false),
            ("    a::b", false),
            ("failures:", true),
            ("---- a::c stdout ----", true),
            ("skipped: only what passes can be", true),
            (
                "test result: FAILED. 11 passed; 2 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.31s",
                true,
            ),
            (
                "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s",
                true,
            ),
        ];
        for (line, shown) in output {
            assert_eq!(count.read(line), shown, "{line}");
        }
        let (skipped, failures) = (vec!["a::b: no captures".into()], vec!["a::c".into()]);
        assert_eq!(count, Count { passed: 12, failed: 2, ignored: 3, skipped, failures, showing: None });
    }
}
