//! Whether a host is hardened as paper 004 section 8 asks: its six remedies, each with checks.
//!
//! What enters: the root of a host, which is `/` for this one, or the folder of an image. What leaves: the checks in
//! six groups, each with what was found and what to type. Files are read and nothing else is done: no process is
//! started, no socket is opened, nothing is written. Whatever is read is bounded, and no link leads out of the root.
//!
//! What cannot be read is a warning that begins with "unknown" and says why; it is never taken for good. A check that
//! fails is a finding about the host, and does not keep the daemon from starting.
#![forbid(unsafe_code)]

mod configuration;
mod finding;
mod functions;
mod host;
mod integrity;
mod modules;
mod own_files;
mod remote_log;
mod services;
mod settings;
mod spool;
mod tree;
mod units;
mod updates;

use api::{HardeningGroup, HardeningRemedy};

pub use host::{CONFIG, Host, RootError};

use settings::Settings;
use tree::Tree;

/// Makes every check of a host, in the order of the paper's list.
///
/// # Errors
/// If the root is no folder that can be opened.
pub fn checks(host: &Host) -> Result<Vec<HardeningGroup>, RootError> {
    let tree = Tree::open(host).map_err(|source| RootError::new(host, source))?;
    let settings = Settings::read(&tree, &host.config);
    let group = |remedy, checks| HardeningGroup { remedy, checks };
    Ok(vec![
        group(HardeningRemedy::Modules, [modules::checks(&tree), services::checks(&tree)].concat()),
        group(HardeningRemedy::Functions, functions::checks(&tree, &settings)),
        group(HardeningRemedy::Configuration, configuration::checks(&tree, &settings)),
        group(HardeningRemedy::Updates, updates::checks(&tree)),
        group(HardeningRemedy::Integrity, integrity::checks(&tree, &settings)),
        group(HardeningRemedy::RemoteLog, remote_log::checks(&tree, &settings)),
    ])
}
