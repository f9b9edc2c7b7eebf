//! Programs that the kernel half keeps closed while no daemon runs: written down beside the sockets before it hears of them, so that
//! whoever finds the pins can say whom they concern.

use std::fs;
use std::io;
use std::path::Path;

use policy::Compiled;
use sadb::spd::Class;

use crate::whole_file::write_whole;

/// The file in the instance's run directory.
pub(super) const FILE: &str = "closed.json";

/// Applications that do not send everything in clear.
fn names(compiled: &Compiled) -> Vec<&str> {
    let is_closed = |app: &&policy::Application| {
        let policy = compiled.spd.get(app.id);
        policy.is_some_and(|policy| policy.networks().iter().any(|n| !matches!(n.class, Class::Trusted)))
    };
    compiled.applications.iter().filter(is_closed).map(|app| app.name.as_str()).collect()
}

/// Write down whom this policy closes.
///
/// # Errors
/// If that is not possible.
pub fn note(run_dir: &Path, compiled: &Compiled) -> io::Result<()> {
    let text = serde_json::to_vec(&names(compiled))?;
    let path = run_dir.join(FILE);
    if fs::read(&path).is_ok_and(|kept| kept == text) {
        return Ok(());
    }
    write_whole(&path, &text, None)
}

/// Programs that an instance's kernel half protects or refuses, daemon or not: none where it has no pins.
pub fn closed(instance: &str) -> Vec<String> {
    closed_by(&crate::state::find(instance), instance)
}

/// The same as [`closed`], for an instance with this run directory.
pub fn closed_by(run_dir: &Path, instance: &str) -> Vec<String> {
    let pinned = sockmon::instances().is_ok_and(|all| all.iter().any(|one| one == instance));
    let names = || serde_json::from_slice(&fs::read(run_dir.join(FILE)).ok()?).ok();
    match pinned {
        true => names().unwrap_or_else(|| vec!["(every program of its policy; the list is lost)".to_owned()]),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_are_closed_that_do_not_send_all_in_clear() {
        let text = "application a { network 0.0.0.0/0 trusted; }\napplication b { network 192.0.2.0/24 untrusted; }\n";
        let compiled = policy::compile(&policy::parse("p", text), &mut policy::AppTable::new(), 1);
        assert_eq!(names(&compiled), ["b"]);
        let folder = std::env::temp_dir().join(format!("ravelin-closed-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        note(&folder, &compiled).unwrap();
        assert_eq!(fs::read_to_string(folder.join(FILE)).unwrap(), "[\"b\"]");
        // Without pins nobody is kept closed, whatever was written down.
        assert_eq!(closed_by(&folder, "no-such-instance"), [] as [&str; 0]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
