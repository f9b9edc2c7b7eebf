//! Two hosts with daemons, and a wire that is listened to all the time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use lab::rig::{Rig, RigOptions};
use lab::{Capture, CaptureOptions, Side};
use netio::cgroup::Cgroup;
use netio::link::Links;
use tests::{PATIENCE, Scratch, associate, forget_keys};

use crate::event::Event;

/// Names the hosts and the daemons.
pub const NAME: &str = "drill-programs";

/// The control group of the programs of a case, below the host's.
pub const GROUP: &str = "programs";

/// Octets of frames to keep of one program, for the reader of a failure.
const KEEP: usize = 4 << 20;

/// Octets of `$PAYLOAD`, about.
const PAYLOAD: usize = 2 << 20;

/// The two hosts of the drill, and what is between them.
pub struct Stage {
    /// The hosts with their daemons.
    pub rig: Rig,
    /// A word that must never be seen on the wire.
    pub mark: String,
    /// The path of a file that is full of the mark.
    pub payload: PathBuf,
    /// The folder for files of the programs.
    pub folder: Scratch,
    wire: Capture,
    /// The executables that the policy names, and those of the program before: its last packets are still its own.
    named: BTreeSet<PathBuf>,
    before: BTreeSet<PathBuf>,
    /// The number of the policy's text: each load has another one.
    edition: usize,
}

/// What a program left on the wire.
#[derive(Debug)]
pub struct Crossed {
    /// Octets of encrypted frames.
    pub octets: u64,
    /// What should not have been there.
    pub complaint: Option<String>,
}

impl Stage {
    /// Build them, with keys, and with nobody named by the policy.
    ///
    /// # Errors
    /// Without root, or where a part is missing.
    pub fn build(binary: &Path) -> anyhow::Result<Stage> {
        let mut octets = [0; 12];
        netio::random::fill(&mut octets)?;
        let mark = octets.iter().fold("mark".to_owned(), |mark, octet| format!("{mark}{octet:02x}"));
        let folder = Scratch::new(NAME);
        let payload = folder.join("payload");
        std::fs::write(&payload, text_of(&mark)).context("writing the payload")?;
        let options =
            RigOptions { name: NAME.to_owned(), binary: binary.to_owned(), daemon: None, segmentation: true };
        let rig = Rig::build(&options)?;
        let watch = vec![mark.clone().into_bytes()];
        let wire = rig.lab.capture(CaptureOptions { keep: KEEP, watch })?;
        let (named, before) = Default::default();
        let mut stage = Stage { rig, mark, payload, folder, wire, named, before, edition: 0 };
        stage.write_policy()?;
        stage.rig.start_both()?;
        associate(&stage.rig)?;
        Ok(stage)
    }

    /// From now on the policy names these executables.
    ///
    /// # Errors
    /// If a daemon refuses it.
    pub fn protect(&mut self, programs: BTreeSet<PathBuf>) -> anyhow::Result<()> {
        self.before = std::mem::replace(&mut self.named, programs);
        self.reload()
    }

    fn reload(&mut self) -> anyhow::Result<()> {
        self.edition += 1;
        self.write_policy()?;
        Side::BOTH.into_iter().try_for_each(|side| self.rig.reload(side).map(drop))
    }

    /// Each edition means the same for the programs, by another text: the protection's name, the order, a block that is nobody's.
    fn write_policy(&self) -> anyhow::Result<()> {
        for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
            let (edition, v4, v6) = (self.edition, peer.v4(), peer.v6());
            let mut blocks: Vec<String> = self
                .named
                .union(&self.before)
                .map(|program| {
                    format!(
                        "application \"{}\" {{\n  network {v4}, {v6} protected P{edition};\n  protection P{edition} {{ \
                         encryption mandatory; }}\n}}\n",
                        program.display()
                    )
                })
                .collect();
            if edition % 2 == 1 {
                blocks.reverse();
                blocks.push("application /usr/bin/true { network 203.0.113.0/24 untrusted; }\n".to_owned());
            }
            self.rig.set_policy(side, &blocks.concat())?;
        }
        Ok(())
    }

    /// Let an event happen to the hosts.
    ///
    /// # Errors
    /// If a daemon does not do as it should.
    pub fn happen(&mut self, event: Event) -> anyhow::Result<()> {
        let done = match event {
            Event::TakeOver(side) => self.take_over(side),
            Event::Kill(side) => self.kill(side),
            Event::Reload => self.reload(),
            Event::Mtu(mtu) => self.set_mtu(mtu),
        };
        done.with_context(|| format!("{event}"))
    }

    fn take_over(&mut self, side: Side) -> anyhow::Result<()> {
        let old = self.rig.release(side).context("no daemon")?;
        self.rig.start_with(side, &["--take-over"])?;
        let old = old.finish(PATIENCE)?;
        ensure!(old.status.success(), "the daemon before: {}", old.err());
        Ok(())
    }

    fn kill(&mut self, side: Side) -> anyhow::Result<()> {
        self.rig.kill(side)?;
        self.rig.start(side)?;
        forget_keys(&self.rig);
        associate(&self.rig)
    }

    /// What is shorter first at the hosts, what is longer first at the wire, so that no packet is too long for the next device.
    fn set_mtu(&self, mtu: u16) -> anyhow::Result<()> {
        let lab = &self.rig.lab;
        let hosts = || {
            Side::BOTH.into_iter().try_for_each(|side| {
                lab.host(side)
                    .run(|| set_device("eth0", mtu))?
                    .with_context(|| format!("eth0 of {}", side.name()))
            })
        };
        let wire = || {
            lab.wire()
                .run(|| ["alice", "bob", "wire"].into_iter().try_for_each(|name| set_device(name, mtu)))?
        };
        let now = lab.alice().device()?.mtu;
        if u32::from(mtu) < now { hosts().and_then(|()| wire()) } else { wire().and_then(|()| hosts()) }
    }

    /// End every program of both hosts.
    ///
    /// # Errors
    /// If one does not die.
    pub fn clear_hosts(&self) -> anyhow::Result<()> {
        for side in Side::BOTH {
            let path = self.rig.lab.host(side).cgroup().path().join(GROUP);
            if path.is_dir() {
                let group = Cgroup::open(path)?;
                group.kill()?;
                group.remove()?;
            }
        }
        Ok(())
    }

    /// What crossed the wire since the last call; if something should not have been there, the frames go to that file.
    ///
    /// # Errors
    /// If the capture ended, or the file cannot be written.
    pub fn crossed(&self, frames: &Path) -> anyhow::Result<Crossed> {
        let crossed = self.wire.look(|seen| {
            let clear = || {
                let frames = seen.frames.iter();
                let clear = frames.filter(|seen| matches!(seen.class, lab::Class::Clear | lab::Class::Other));
                clear.take(3).map(ToString::to_string).collect::<Vec<_>>().join("; ")
            };
            let complaint = if seen.clear + seen.other > 0 {
                Some(format!("{} frames IN CLEAR: {}", seen.clear + seen.other, clear()))
            } else if seen.contains_bytes(self.mark.as_bytes()) {
                Some("the mark was seen IN CLEAR".to_owned())
            } else if !seen.is_complete() {
                Some(format!("the eavesdropper lost {} frames", seen.lost))
            } else {
                None
            };
            Crossed { octets: seen.esp_octets, complaint }
        })?;
        if crossed.complaint.is_some() {
            self.wire.evidence()?.write_pcap(frames)?;
        }
        self.wire.clear()?;
        Ok(crossed)
    }

    /// What both daemons say of themselves, for the reader of a failure.
    pub fn health(&self) -> String {
        let problems = Side::BOTH.into_iter().map(|side| {
            let Ok(status) = self.rig.command(side, &["status", "--json"], "") else { return String::new() };
            let status: serde_json::Value = serde_json::from_str(&status.out()).unwrap_or_default();
            let codes = status["problems"].as_array().into_iter().flatten();
            let codes: Vec<&str> = codes.filter_map(|problem| problem["code"].as_str()).collect();
            format!("{} {} {}", side.name(), status["state"].as_str().unwrap_or("?"), codes.join(","))
        });
        problems.collect::<Vec<_>>().join("; ")
    }

    /// Wait a moment by chance, so that an event meets a program at another place each time.
    pub fn pause(milliseconds: usize) {
        std::thread::sleep(Duration::from_millis(milliseconds as u64));
    }
}

fn set_device(name: &str, mtu: u16) -> anyhow::Result<()> {
    let mut links = Links::open()?;
    let index = links.index(name)?;
    links.set_mtu(index, mtu.into()).with_context(|| format!("MTU {mtu} of {name}"))
}

/// Numbered lines, each with the mark: text that every protocol can carry.
fn text_of(mark: &str) -> String {
    let mut text = String::with_capacity(PAYLOAD + 64);
    for number in 0.. {
        text.push_str(&format!(
            "{number:08} {mark} {:016x}\n",
            (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ));
        if text.len() >= PAYLOAD {
            break;
        }
    }
    text
}
