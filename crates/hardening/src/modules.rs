//! Parts of the kernel that a gateway does not need (paper 004 section 8, first remedy): modules that are loaded, that
//! could be loaded, and whether any can be loaded at all.

use std::collections::{BTreeMap, BTreeSet};

use api::Check;

use crate::finding::{Outcome, Tally, check, or_unknown};
use crate::tree::{ReadError, Tree};

/// Modules that a gateway does not need, with underscores as the kernel shows them: protocols that any user may open a
/// socket of and whose code is seldom reviewed, file systems that a plugged-in device chooses, and devices that an
/// attacker at the machine brings.
const UNNEEDED: [&str; 33] = [
    "af_802154",
    "appletalk",
    "atm",
    "ax25",
    "batman_adv",
    "can",
    "caif_socket",
    "dccp",
    "decnet",
    "ipx",
    "llc2",
    "n_gsm",
    "n_hdlc",
    "netrom",
    "nfc",
    "phonet",
    "qrtr",
    "rds",
    "rose",
    "sctp",
    "tipc",
    "vsock_loopback",
    "x25",
    "cramfs",
    "freevxfs",
    "hfs",
    "hfsplus",
    "jffs2",
    "ksmbd",
    "bluetooth",
    "firewire_core",
    "usb_storage",
    "vivid",
];

/// The folders of modprobe.d(5), from the strongest.
const MODPROBE: [&str; 5] = [
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
];

/// The programs that an `install` line names to refuse a module.
const REFUSALS: [&str; 6] = ["/bin/false", "/usr/bin/false", "/bin/true", "/usr/bin/true", "false", "true"];

/// Makes the checks of the modules.
pub(crate) fn checks(tree: &Tree) -> Vec<Check> {
    let (found, names) = or_none(loaded(tree));
    let loaded = check("modules loaded", found, unload(&names));
    let (found, names) = or_none(loadable(tree));
    let loadable = check("modules loadable", found, refuse(&names));
    let remedy = "`sysctl -w kernel.modules_disabled=1` when everything is loaded (until the next boot), or boot with \
                  `module.sig_enforce=1` or `lockdown=integrity`";
    vec![loaded, loadable, check("module loading", or_unknown(loading(tree)), remedy)]
}

type ModulesOutcome = (Outcome, Vec<&'static str>);

fn or_none(result: Result<ModulesOutcome, ReadError>) -> ModulesOutcome {
    result.unwrap_or_else(|error| (error.into(), Vec::new()))
}

fn unload(names: &[&str]) -> String {
    match names {
        [] => "read /proc/modules on the host itself, as root".to_owned(),
        _ => format!("`modprobe -r {}`, and refuse them as the next line says", names.join(" ")),
    }
}

fn refuse(names: &[&str]) -> String {
    match names {
        [] => "run `depmod -a`, and this check as root".to_owned(),
        _ => format!(
            "`for m in {}; do echo install $m /bin/false; done >> /etc/modprobe.d/hardening.conf`; a module that is built \
             in takes another kernel",
            names.join(" ")
        ),
    }
}

/// Whether the running kernel was built without modules: it has settings, and none of those of modules.
fn has_no_modules(tree: &Tree) -> bool {
    let absent = |path| matches!(tree.has(path), Ok(false));
    matches!(tree.has("/proc/sys/kernel/osrelease"), Ok(true))
        && absent("/proc/modules")
        && absent("/proc/sys/kernel/modules_disabled")
}

const NO_MODULES: &str = "the kernel takes no modules";

fn loaded(tree: &Tree) -> Result<ModulesOutcome, ReadError> {
    if has_no_modules(tree) {
        return Ok((Outcome::Good(NO_MODULES.to_owned()), Vec::new()));
    }
    let text = tree.text("/proc/modules")?;
    let all: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let names: Vec<&'static str> = UNNEEDED.into_iter().filter(|name| all.contains(name)).collect();
    let found = match names.is_empty() {
        true => {
            Outcome::Good(format!("of the modules ({}) none is one that a gateway does not need", all.len()))
        }
        false => Outcome::Bad(format!("a gateway does not need {}", names.join(", "))),
    };
    Ok((found, names))
}

/// The name of the module in a line of modules.dep or modules.builtin, which begins with its path.
fn module_of(line: &str) -> Option<String> {
    let path = line.split(':').next()?;
    let file = path.rsplit('/').next()?;
    let (name, _) = file.split_once(".ko")?;
    Some(name.trim().replace('-', "_"))
}

fn loadable(tree: &Tree) -> Result<ModulesOutcome, ReadError> {
    let mut tally = Tally::default();
    let mut kernels = Vec::new();
    for kernel in tree.names_if_there("/lib/modules")? {
        // What other packages leave there is no kernel's folder.
        if tree.has(format!("/lib/modules/{kernel}/modules.dep"))? {
            kernels.push(kernel);
        }
    }
    let running = tree.text_if_there("/proc/sys/kernel/osrelease")?.map(|text| text.trim().to_owned());
    match running {
        _ if has_no_modules(tree) => {}
        Some(running) if !kernels.contains(&running) => {
            tally.unknown(format!("/lib/modules/{running}/modules.dep, of the running kernel, is not there"));
        }
        None if kernels.is_empty() => tally.unknown("/lib/modules has no modules.dep"),
        _ => {}
    }
    let refused = refused(tree)?;
    let mut names = BTreeSet::new();
    for kernel in &kernels {
        let folder = format!("/lib/modules/{kernel}");
        let dependencies = tree.text(format!("{folder}/modules.dep"))?;
        let built_in = tree.text_if_there(format!("{folder}/modules.builtin"))?.unwrap_or_default();
        let known = |text: &str| text.lines().filter_map(module_of).collect::<BTreeSet<_>>();
        let (loadable, built_in) = (known(&dependencies), known(&built_in));
        for name in UNNEEDED {
            if built_in.contains(name) {
                tally.bad(format!("{name} is built into {kernel}"));
                names.insert(name);
            } else if loadable.contains(name) && !refused.contains(name) {
                tally.bad(format!("{name} ({kernel})"));
                names.insert(name);
            }
        }
    }
    let good = match kernels.is_empty() {
        true => NO_MODULES.to_owned(),
        false => format!("those that a gateway does not need are absent or refused ({})", kernels.join(", ")),
    };
    Ok((tally.outcome(good), names.into_iter().collect()))
}

/// The modules that modprobe or the kernel's command line refuses.
fn refused(tree: &Tree) -> Result<BTreeSet<String>, ReadError> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for folder in MODPROBE {
        for name in tree.names_if_there(folder)?.into_iter().filter(|name| name.ends_with(".conf")) {
            let path = format!("{folder}/{name}");
            // A file hides those of its name in weaker folders.
            files.entry(name).or_insert(path);
        }
    }
    let mut refused = BTreeSet::new();
    for path in files.values() {
        for line in tree.text(path)?.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["blacklist", name, ..] => refused.insert(name.replace('-', "_")),
                ["install", name, program, ..] if REFUSALS.contains(program) => {
                    refused.insert(name.replace('-', "_"))
                }
                _ => false,
            };
        }
    }
    let line = tree.text_if_there("/proc/cmdline")?.unwrap_or_default();
    let lists = line.split_whitespace().filter_map(|word| {
        word.strip_prefix("module_blacklist=").or_else(|| word.strip_prefix("modprobe.blacklist="))
    });
    refused.extend(lists.flat_map(|list| list.split(',')).map(|name| name.replace('-', "_")));
    Ok(refused)
}

fn loading(tree: &Tree) -> Result<Outcome, ReadError> {
    if has_no_modules(tree) {
        return Ok(Outcome::Good(NO_MODULES.to_owned()));
    }
    let enforced = tree.text_if_there("/sys/module/module/parameters/sig_enforce")?;
    if enforced.is_some_and(|text| text.trim() == "Y") {
        return Ok(Outcome::Good(
            "a module without a valid signature is refused (module.sig_enforce)".to_owned(),
        ));
    }
    let lockdown = tree.text_if_there("/sys/kernel/security/lockdown")?.unwrap_or_default();
    if let Some(level) =
        ["integrity", "confidentiality"].iter().find(|level| lockdown.contains(&format!("[{level}]")))
    {
        return Ok(Outcome::Good(format!(
            "a module without a valid signature is refused (lockdown={level})"
        )));
    }
    Ok(match tree.text("/proc/sys/kernel/modules_disabled")?.trim() {
        "1" => Outcome::Good("no further module can be loaded (kernel.modules_disabled)".to_owned()),
        _ => Outcome::Bad("root may load any module, also one that nobody signed".to_owned()),
    })
}
