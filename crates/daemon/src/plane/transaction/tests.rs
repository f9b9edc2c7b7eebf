//! A fault at each step of each way to another policy: everything is as it was.

use std::fs;
use std::path::Path;
use std::sync::mpsc::Sender;

use api::PolicyApply;

use super::*;
use crate::handlers::tests::{Folder, plane_over};
use crate::monitor::recorder::Recorder;
use crate::plane::Allow;

/// The shell goes on under another name, which is written down.
const BEFORE: &str = "application sh { network 192.0.2.0/24 untrusted; }\n";
const AFTER: &str = "application /usr/bin/sh { network 192.0.2.0/24 untrusted; }\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Files,
    Numbers,
    Outbound,
    Inbound,
    Kernel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyEntry {
    Reload,
    Apply,
    Trial,
    Back,
}

struct BrokenStep<'f> {
    folder: &'f Path,
    step: Step,
    kernel_half: Recorder,
    _busy: Option<Sender<()>>,
}

impl BrokenStep<'_> {
    /// A name at which the file is written aside that the step writes.
    fn obstacle(folder: &Path, step: Step) -> Option<std::path::PathBuf> {
        match step {
            Step::Files => Some(folder.join("policy.new")),
            Step::Numbers => Some(folder.join(crate::policy_store::NUMBERS).with_extension("new")),
            _ => None,
        }
    }

    fn begin<'f>(plane: &Plane, kernel_half: &Recorder, folder: &'f Path, step: Step) -> BrokenStep<'f> {
        if let Some(path) = BrokenStep::obstacle(folder, step) {
            fs::create_dir(path).unwrap();
        }
        if step == Step::Kernel {
            kernel_half.fail(&["load_policy"]);
        }
        let busy = match step {
            Step::Outbound => Some(plane.halves.occupy_outbound()),
            Step::Inbound => Some(plane.halves.occupy_inbound()),
            _ => None,
        };
        BrokenStep { folder, step, kernel_half: kernel_half.clone(), _busy: busy }
    }
}

impl Drop for BrokenStep<'_> {
    fn drop(&mut self) {
        self.kernel_half.fail(&[]);
        if let Some(path) = BrokenStep::obstacle(self.folder, self.step) {
            fs::remove_dir(path).unwrap();
        }
    }
}

/// What the files say to a daemon that comes after this one, but for the numbers, which stay given: who goes on under which other
/// name, and which programs are closed while no daemon runs.
fn notes(folder: &Path) -> [Option<serde_json::Value>; 2] {
    ["renamed.json", "closed.json"].map(|name| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        (value != serde_json::json!({})).then_some(value)
    })
}

async fn go(plane: &mut Plane, way: PolicyEntry) -> Result<(), ApiError> {
    let apply = |seconds| PolicyApply {
        text: Some(AFTER.to_owned()),
        file: Some("other".to_owned()),
        confirm_within_seconds: seconds,
        allow_missing: true,
        ..PolicyApply::default()
    };
    match way {
        PolicyEntry::Reload => plane.reload(Allow { missing: true, ..Allow::default() }).await.map(drop),
        PolicyEntry::Apply => plane.apply(apply(None)).await.map(drop),
        PolicyEntry::Trial => plane.apply(apply(Some(60))).await.map(drop),
        PolicyEntry::Back => plane.roll_back().await.map(drop),
    }
}

#[tokio::test]
async fn a_fault_at_any_step_leaves_everything_as_it_was() {
    use Step::{Files, Inbound, Kernel, Numbers, Outbound};
    let steps: [(PolicyEntry, &[Step]); 4] = [
        (PolicyEntry::Reload, &[Numbers, Outbound, Inbound, Kernel]),
        (PolicyEntry::Apply, &[Files, Numbers, Outbound, Inbound, Kernel]),
        (PolicyEntry::Trial, &[Numbers, Outbound, Inbound, Kernel]),
        (PolicyEntry::Back, &[Outbound, Inbound, Kernel]),
    ];
    for (way, steps) in steps {
        let folder = Folder::new(&format!("transaction-{way:?}"));
        let policy = folder.0.join("policy");
        fs::write(&policy, BEFORE).unwrap();
        let kernel_half = Recorder::default();
        let mut plane = plane_over(kernel_half.clone(), folder.config(), Some(&folder.0));
        // As a start does: what is in force is written down.
        go(&mut plane, PolicyEntry::Reload).await.unwrap();
        if way == PolicyEntry::Back {
            go(&mut plane, PolicyEntry::Apply).await.unwrap();
        }
        if way == PolicyEntry::Reload {
            fs::write(&policy, AFTER).unwrap();
        }
        let text = fs::read_to_string(&policy).unwrap();
        let had = plane.halves.policies().await;
        let generation = plane.policy.generation();
        let noted = notes(&folder.0);
        for step in steps {
            let fault = BrokenStep::begin(&plane, &kernel_half, &folder.0, *step);
            let refused = go(&mut plane, way).await;
            drop(fault);
            assert!(refused.is_err(), "{way:?} {step:?}");
            let has = plane.halves.policies().await;
            for (old, new) in had.iter().zip(&has) {
                assert_eq!((old.generation, *old == *new), (new.generation, true), "{way:?} {step:?}");
            }
            assert_eq!(plane.policy.generation(), generation, "{way:?} {step:?}");
            assert_eq!(kernel_half.policy_generation(), Some(generation), "{way:?} {step:?}");
            assert_eq!(fs::read_to_string(&policy).unwrap(), text, "{way:?} {step:?}");
            assert!(plane.policy.waiting().is_none(), "{way:?} {step:?}");
            assert_eq!(notes(&folder.0), noted, "{way:?} {step:?}");
        }
        go(&mut plane, way).await.unwrap();
        for (old, new) in had.iter().zip(&plane.halves.policies().await) {
            assert_ne!(old.generation, new.generation, "{way:?}");
        }
        assert_ne!(notes(&folder.0), noted, "{way:?}");
    }
}
