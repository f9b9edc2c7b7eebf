//! Subjects that no process of this host can match: what they were to protect leaves in clear, so that this is said wherever
//! policy is looked at, and refused where it is changed unless it is meant.

use std::collections::BTreeSet;
use std::path::Path;

use api::MissingProgram;
use crypto::Suites;
use policy::{Code, Compiled, Executables, Host, Image, ProgramFile};
use qos::graph::Aggregates;

use super::{Executable, candidates};
use documents::decision::block_position;
use host_files::HostFiles;

/// Subjects that are told of one policy.
const TOLD: usize = 64;

/// The subjects of a policy without a file among `executables`, those of [`super::executables`]; at most 64.
pub fn missing(compiled: &Compiled, executables: &[Executable]) -> Vec<MissingProgram> {
    let there: BTreeSet<&Path> = executables.iter().map(|executable| executable.path.as_path()).collect();
    let is_there = |image: &Image| candidates(image).iter().any(|path| there.contains(path.as_path()));
    let host = HostFiles::here(&Suites::standard(), &Aggregates::without_graph());
    let mut out = Vec::new();
    for app in &compiled.applications {
        let own = match &app.selector.executables {
            Executables::Named(image) => Some(image),
            Executables::Anonymous | Executables::Any => None,
        };
        for image in own.into_iter().chain(&app.selector.from).filter(|image| !is_there(image)) {
            if out.len() == TOLD {
                return out;
            }
            let (Image::Path(program) | Image::Name(program)) = image;
            let Some((code, message, remedy)) = told(&host, program) else { continue };
            let application = app.name.clone();
            let message = if application == *program {
                format!("application {application}: {message}")
            } else {
                format!("application {application}, {program}: {message}")
            };
            let code = code.as_str().to_owned();
            let at = block_position(compiled, app);
            out.push(MissingProgram { code, application, program: program.clone(), at, message, remedy });
        }
    }
    out
}

/// What is said of one name. `None`: it has a file by now, or the host does not say.
fn told(host: &HostFiles, program: &str) -> Option<(Code, String, String)> {
    let clear = "no process matches it, and what was to be protected is in clear";
    let near = || host.near_program(program);
    match host.program(program) {
        ProgramFile::Missing => Some((
            Code::UnknownProgram,
            format!("no such executable is on this host; {clear}"),
            match near() {
                Some(near) => format!("did you mean {near}?"),
                None => "check the name, or install the program".to_owned(),
            },
        )),
        ProgramFile::Script { path, interpreter } => Some((
            Code::ScriptProgram,
            format!("{path} is a script, its processes execute {interpreter}; {clear}"),
            match near() {
                Some(near) => format!("name the program that it starts: {near}"),
                None => {
                    "name the program that the script starts, or its unit, control group or user".to_owned()
                }
            },
        )),
        ProgramFile::Executable | ProgramFile::NotKnown => None,
    }
}
