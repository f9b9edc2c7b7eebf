//! `ravelin schema`: the JSON Schemas of documents and requests, without a daemon.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use api::schema::{self, Named};
use clap::Args;
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use serde_json::Value;

use crate::exit::{Failure, Kind};
use crate::output;

/// The name by which the description of the control API is asked for.
const OPENAPI: &str = "openapi";

/// Print the JSON Schema of a document or a request, or list the schemas.
///
/// `openapi` is the description of the control API, which a daemon serves at /v1/openapi.json.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ravelin schema                what there is, and which command prints it
  ravelin schema status         what `ravelin status --json` prints
  ravelin schema openapi        the control API, for generators of clients")]
pub struct Schema {
    /// The name of the schema, as the list has it.
    #[arg(add = ArgValueCandidates::new(names))]
    name: Option<String>,
    /// Write every schema into a folder, which must be there.
    #[arg(long, value_name = "FOLDER", conflicts_with = "name")]
    write: Option<PathBuf>,
}

impl Schema {
    pub fn execute(self) -> anyhow::Result<()> {
        if let Some(folder) = &self.write {
            return write(folder);
        }
        let Some(name) = self.name else { return output::text(&list()) };
        if name == OPENAPI {
            return output::text(&text(&openapi())?);
        }
        let found = schema::all().find(|named| named.name == name).ok_or_else(|| {
            let text = format!("there is no schema {name:?}");
            Failure::with_remedy(Kind::BadInput, text, "`ravelin schema` lists those there are")
        })?;
        output::text(&text(&found.schema())?)
    }
}

fn openapi() -> Value {
    api::openapi::document(env!("CARGO_PKG_VERSION"))
}

/// The document as it is printed and installed.
fn text(document: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

fn write(folder: &Path) -> anyhow::Result<()> {
    let put = |name: &str, document: &Value| {
        let path = folder.join(format!("{name}.json"));
        fs::write(&path, text(document)?).with_context(|| format!("writing {}", path.display()))
    };
    for named in schema::all() {
        put(named.name, &named.schema())?;
    }
    put(OPENAPI, &openapi())
}

fn list() -> String {
    let row = |named: &Named| {
        let printed: Vec<String> =
            named.commands.iter().map(|command| format!("ravelin {command}")).collect();
        vec![named.name.to_owned(), if printed.is_empty() { "-".to_owned() } else { printed.join(", ") }]
    };
    let rows: Vec<_> = schema::all().map(row).chain([vec![OPENAPI.to_owned(), "-".to_owned()]]).collect();
    output::table(&["NAME", "PRINTED BY"], &rows)
}

/// The names of all schemas, for shells that complete.
fn names() -> Vec<CompletionCandidate> {
    schema::all().map(|named| named.name).chain([OPENAPI]).map(CompletionCandidate::new).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The commands below this one that take `--json`, by their words.
    fn that_print(command: &clap::Command, above: &str, out: &mut BTreeSet<String>) {
        for below in command.get_subcommands() {
            let name = format!("{above}{}", below.get_name());
            if below.get_arguments().any(|argument| argument.get_id() == "json") {
                out.insert(name.clone());
            }
            that_print(below, &format!("{name} "), out);
        }
    }

    #[test]
    fn every_command_that_prints_json_has_a_schema() {
        let mut print = BTreeSet::new();
        that_print(&crate::cli::arguments(), "", &mut print);
        // These print nothing but lines of JSON, and have no option for it.
        print.extend(["sa monitor", "spd monitor"].map(str::to_owned));
        let named = schema::DOCUMENTS.iter().flat_map(|named| named.commands);
        let named: BTreeSet<String> =
            named.map(|command| command.split(" --").next().unwrap_or(command).to_owned()).collect();
        assert_eq!(print, named);
    }

    #[test]
    fn a_list_names_the_commands() {
        let list = list();
        for line in ["ravelin status --json", "ravelin capture --list --json", "request-sa-add", "openapi"] {
            assert!(list.contains(line), "{list}");
        }
        assert!(list.contains("ravelin sa monitor, ravelin spd monitor\n"), "{list}");
    }
}
