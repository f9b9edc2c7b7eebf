//! The questions that a policy asks about the host it is meant for. This crate reads no file: the caller answers.

use std::sync::LazyLock;

use crypto::Suites;
use qos::graph::Aggregates;

/// The suites of a host about which nothing is known.
static STANDARD: Suites = Suites::standard();
/// The classes of a host about which nothing is known: it has none.
static NO_GRAPH: LazyLock<Aggregates> = LazyLock::new(Aggregates::without_graph);

/// Answers to questions about one host.
pub trait Host {
    /// The catalogue of suites: the standard ones, and those of the ciphers that this host has configured.
    fn suites(&self) -> &Suites {
        &STANDARD
    }

    /// The catalogue of classes: those of the graph that this host has in force, or none.
    fn aggregates(&self) -> &Aggregates {
        &NO_GRAPH
    }

    /// The number of a user.
    fn user(&self, name: &str) -> Option<u32>;

    /// The text of a systemd unit file, with its drop-ins behind it; `None` if there is none of this name.
    fn unit_file(&self, unit: &str) -> Option<String>;

    /// The kind of file that the host has under the name of a program: a path, or a bare name in the standard
    /// directories.
    fn program(&self, _name: &str) -> ProgramFile {
        ProgramFile::NotKnown
    }

    /// The program of this host that a misspelt name may be meant for, or that a script of this name starts. It is
    /// asked for only where that is shown.
    fn near_program(&self, _name: &str) -> Option<String> {
        None
    }
}

/// The kind of file that a host has under the name of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramFile {
    /// The host's files are not known, or cannot be read.
    NotKnown,
    /// An executable, which processes have as theirs.
    Executable,
    /// A script at this path. Its processes execute the interpreter.
    Script {
        /// The path of the script that was found.
        path: String,
        /// The interpreter that its first line names.
        interpreter: String,
    },
    /// There is nothing that can be executed.
    Missing,
}

/// A host about which nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn user(&self, _: &str) -> Option<u32> {
        None
    }

    fn unit_file(&self, _: &str) -> Option<String> {
        None
    }
}

/// The suffixes of units that have a control group.
const SUFFIXES: [&str; 6] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"];

/// Whether `text` is the name of a unit that has a control group.
pub(crate) fn is_unit(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:\\@-".contains(c);
    let stem = SUFFIXES.iter().find_map(|suffix| text.strip_suffix(suffix));
    stem.is_some_and(|stem| !stem.is_empty()) && text.len() <= 255 && text.chars().all(plain)
}

/// Whether `text` is the path of a control group. It starts at the root of the hierarchy, is in plain form, and is not
/// the root itself.
pub(crate) fn is_group(text: &str) -> bool {
    text.len() <= 4095
        && !text.chars().any(char::is_control)
        && text.strip_prefix('/').is_some_and(|parts| parts.split('/').all(|p| !matches!(p, "" | "." | "..")))
}

/// The control group of a unit whose file is `file` (systemd.resource-control(5), systemd.slice(5)): its slice's group,
/// with its name below. Without a file, or without `Slice=` in it, the slice is `system.slice`, with one below it for
/// the instances of a template.
pub fn control_group(unit: &str, file: Option<&str>) -> String {
    if let Some(stem) = unit.strip_suffix(".slice") {
        return slice_path(stem);
    }
    let named = file.and_then(|text| {
        let values =
            text.lines().filter_map(|line| line.trim().strip_prefix("Slice")?.trim().strip_prefix('='));
        // The last one counts, as in systemd.
        values.map(str::trim).rfind(|value| value.ends_with(".slice") && is_unit(value))
    });
    let slice = match (named, unit.split_once('@')) {
        (Some(slice), _) => slice_path(slice.trim_end_matches(".slice")),
        (None, Some((template, _))) if !template.is_empty() => {
            let escaped = template.replace('-', "\\x2d");
            slice_path(&format!("system-{escaped}"))
        }
        (None, _) => "/system.slice".into(),
    };
    format!("{slice}/{unit}")
}

/// The path of slice `a-b`, which is `/a.slice/a-b.slice`. The root slice `-` is the root itself.
fn slice_path(stem: &str) -> String {
    let mut out = String::new();
    if stem == "-" {
        return out;
    }
    let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
    for end in ends {
        out.push('/');
        out.push_str(&stem[..end]);
        out.push_str(".slice");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_the_groups_that_systemd_gives_them() {
        let slice = |name: &str| Some(format!("[Service]\nExecStart=/bin/true\nSlice = {name}\n"));
        for (unit, file, want) in [
            ("nginx.service", None, "/system.slice/nginx.service"),
            ("nginx.service", slice("web.slice"), "/web.slice/nginx.service"),
            ("nginx.service", slice("web-front.slice"), "/web.slice/web-front.slice/nginx.service"),
            ("nginx.service", slice("-.slice"), "/nginx.service"),
            ("nginx.service", slice("nonsense"), "/system.slice/nginx.service"),
            ("getty@tty1.service", None, "/system.slice/system-getty.slice/getty@tty1.service"),
            ("a-b@1.service", None, "/system.slice/system-a\\x2db.slice/a-b@1.service"),
            ("machine.slice", None, "/machine.slice"),
            ("user-1000.slice", None, "/user.slice/user-1000.slice"),
        ] {
            assert_eq!(control_group(unit, file.as_deref()), want, "{unit}");
        }
        let twice = "Slice=a.slice\n# Slice=c.slice\nSlice=b.slice\nSlicer=d.slice\n";
        assert_eq!(control_group("x.service", Some(twice)), "/b.slice/x.service");
    }

    #[test]
    fn names_of_units_and_groups() {
        assert!(is_unit("nginx.service") && is_unit("a@b.scope"));
        assert!(!is_unit("nginx") && !is_unit(".service") && !is_unit("a/b.service") && !is_unit("x.timer"));
        assert!(
            is_group("/a.slice/b")
                && !is_group("/")
                && !is_group("a")
                && !is_group("/a/")
                && !is_group("/a/../b")
        );
    }
}
