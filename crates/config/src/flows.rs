//! The `[flows]` section of the configuration: flows counted one by one, and a file for those that have ended
//! (docs/design/0018).

use std::path::PathBuf;
use std::time::Duration;

use super::read::{Reader, Value};

const FLOWS: [&str; 6] = ["log", "size", "files", "unpoliced", "idle", "interval"];

/// The size in MiB beyond which the flow log is rotated, unless told otherwise.
const SIZE: u64 = 16;
/// The number of full files that are kept, unless told otherwise.
const FILES: u32 = 4;

/// The settings for flows that are counted one by one, from `[flows]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowsConfig {
    /// The path of the flow log; `None`: flows are counted and shown, not written.
    pub log: Option<PathBuf>,
    /// The size in octets beyond which the flow log is rotated.
    pub size: u64,
    /// The number of full files that are kept beside the flow log.
    pub files: u32,
    /// Whether flows of programs without policy are counted too.
    pub unpoliced: bool,
    /// The silence after which a flow has ended.
    pub idle: Duration,
    /// How often a flow that goes on is written.
    pub interval: Duration,
}

impl Default for FlowsConfig {
    fn default() -> FlowsConfig {
        FlowsConfig {
            log: None,
            size: SIZE << 20,
            files: FILES,
            unpoliced: false,
            idle: Duration::from_secs(60),
            interval: Duration::from_secs(600),
        }
    }
}

impl Reader<'_> {
    pub(super) fn flows(&mut self, value: Option<&Value<'_>>) -> Option<FlowsConfig> {
        let table = self.table(value, "flows", &FLOWS)?;
        let log = table.get("log").and_then(|value| self.path(value, "log"));
        let mut out = FlowsConfig { log, ..FlowsConfig::default() };
        if let Some(value) = table.get("unpoliced") {
            match value.get_ref().as_bool() {
                Some(on) => out.unpoliced = on,
                None => {
                    let found = value.get_ref().type_str();
                    let remedy = "write: unpoliced = true to see the flows of programs without policy too";
                    self.fault(
                        value.span(),
                        format!("`unpoliced` must be true or false, not {found}"),
                        remedy,
                    );
                }
            }
        }
        let mut number = |what: &str, range, why: &str| {
            let number = table.get(what).and_then(|value| self.integer(value, what, range, why))?;
            u64::try_from(number).ok()
        };
        let why =
            "MiB of the file; with the full ones of before, (files + 1) times that is the most on the disk";
        out.size = number("size", 1..=4096, why).map_or(out.size, |size| size << 20);
        let files = number("files", 1..=64, "full files that are kept");
        out.files = files.and_then(|files| u32::try_from(files).ok()).unwrap_or(out.files);
        let idle = number("idle", 2..=3600, "seconds of silence behind which a flow has ended");
        out.idle = idle.map_or(out.idle, Duration::from_secs);
        let why = "seconds after which a flow that goes on is written, and again";
        out.interval = number("interval", 10..=86_400, why).map_or(out.interval, Duration::from_secs);
        Some(out)
    }
}
