//! Paper 001's transforms and today's, between two hosts with a daemon each. One at a time is installed; its keys are new each
//! time.

use crate::product;
use anyhow::{Context, ensure};
use crypto::Suites;
use lab::rig::{Rig, RigOptions};
use lab::{Host, Lab, Side};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// One protocol around a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// ESP (IP protocol 50) with this suite.
    Esp(&'static str),
    /// ESP in UDP with this suite.
    EspUdp(&'static str),
    /// AH (IP protocol 51) with this integrity algorithm.
    Ah(&'static str),
}

/// What is done to packets between the hosts: nothing, or the members from the innermost to the outermost.
#[derive(Clone, Copy, Debug)]
pub struct Transform {
    /// The name of the transform in figures.
    pub name: &'static str,
    /// The name of the transform in plots.
    pub title: &'static str,
    members: &'static [Member],
}

/// A transform of these members, from the innermost to the outermost.
pub const fn transform(name: &'static str, title: &'static str, members: &'static [Member]) -> Transform {
    Transform { name, title, members }
}

/// Every transform that is measured. The paper's own were keyed MD5 and SHA, DES and 3DES; encryption without integrity, which
/// it had, is refused here, so an authenticator is with each cipher.
pub const TRANSFORMS: [Transform; 15] = [
    transform("clear", "clear, no IPsec", &[]),
    transform("ah-md5", "AH HMAC-MD5 (legacy)", &[Member::Ah("md5")]),
    transform("ah-sha1", "AH HMAC-SHA1", &[Member::Ah("sha1")]),
    transform("ah-sha256", "AH HMAC-SHA2-256", &[Member::Ah("sha256")]),
    transform("esp-null-sha256", "ESP NULL, SHA2-256", &[Member::Esp("null-sha256")]),
    transform("esp-des-md5", "ESP DES, MD5 (legacy)", &[Member::Esp("des-md5")]),
    transform("esp-3des-sha1", "ESP 3DES, SHA1 (legacy)", &[Member::Esp("3des-sha1")]),
    transform("esp-aes128cbc-sha1", "ESP AES-128-CBC, SHA1", &[Member::Esp("aes128cbc-sha1")]),
    transform("esp-aes128cbc-sha256", "ESP AES-128-CBC, SHA2-256", &[Member::Esp("aes128cbc-sha256")]),
    transform("esp-aes128gcm", "ESP AES-128-GCM", &[Member::Esp("aes128gcm")]),
    transform("esp-aes256gcm", "ESP AES-256-GCM", &[Member::Esp("aes256gcm")]),
    transform("esp-chacha20poly1305", "ESP ChaCha20-Poly1305", &[Member::Esp("chacha20poly1305")]),
    transform(
        "ah-sha256.esp-aes128gcm",
        "AH SHA2-256 over ESP AES-128-GCM",
        &[Member::Esp("aes128gcm"), Member::Ah("sha256")],
    ),
    transform("udp-aes128gcm", "ESP in UDP, AES-128-GCM", &[Member::EspUdp("aes128gcm")]),
    transform("udp-chacha20poly1305", "ESP in UDP, ChaCha20-Poly1305", &[Member::EspUdp("chacha20poly1305")]),
];

/// Two hosts with daemons, and two without.
pub struct Bed {
    rig: Rig,
    clear: Lab,
    spi: u32,
    suites: Suites,
    programs: Vec<PathBuf>,
}

/// How the hosts of a [`Bed`] are made.
pub struct BedOptions<'a> {
    /// The name of the labs, behind `rvl-`.
    pub name: &'a str,
    /// The programs that are protected from each other.
    pub programs: &'a [&'a Path],
    /// The lines behind what every daemon's configuration says.
    pub configuration: &'a str,
    /// The suites that the configuration brings.
    pub suites: Suites,
    /// The program that runs as the daemons, if it is not the one of this build.
    pub daemon: Option<PathBuf>,
}

impl Bed {
    /// Build the hosts; these programs are protected from each other on them.
    ///
    /// # Errors
    /// Without root, or where something does not come up; nothing is left then.
    pub fn build(name: &str, programs: &[&Path]) -> anyhow::Result<Bed> {
        Bed::build_with(BedOptions {
            name,
            programs,
            configuration: "[crypto]\nlegacy = true\n",
            suites: Suites::standard(),
            daemon: None,
        })
    }

    /// Build the hosts like [`Bed::build`], otherwise configured.
    ///
    /// # Errors
    /// As [`Bed::build`].
    pub fn build_with(options: BedOptions<'_>) -> anyhow::Result<Bed> {
        let BedOptions { name, programs, configuration, suites, daemon } = options;
        let options = RigOptions {
            name: format!("rvl-{name}"),
            binary: product::ravelin()?,
            daemon,
            segmentation: true,
        };
        let mut rig = Rig::build(&options)?;
        for side in Side::BOTH {
            rig.configure(side, configuration);
        }
        let options = lab::LabOptions { name: format!("rvl-{name}-clear"), segmentation: true };
        let programs = programs.iter().map(|program| program.to_path_buf()).collect();
        let clear = Lab::build(&options)?;
        let mut bed = Bed { rig, clear, spi: 0x1000, suites, programs };
        // AH gives authentication and no more, so that is what all transforms must have.
        bed.write_policy("authentication mandatory")?;
        bed.rig.start_both()?;
        Ok(bed)
    }

    fn write_policy(&self, demand: &str) -> anyhow::Result<()> {
        for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
            let blocks = self.programs.iter().map(|program| block(program, peer, demand));
            self.rig.set_policy(side, &blocks.collect::<String>())?;
        }
        Ok(())
    }

    /// Demand something else of the programs' traffic: `encryption mandatory suite aes256gcm`.
    ///
    /// # Errors
    /// If a daemon refuses it.
    pub fn demand(&self, demand: &str) -> anyhow::Result<()> {
        self.write_policy(demand)?;
        // An association of one cipher of one's own and an item of another do not come together.
        for side in Side::BOTH {
            self.rig.ravelin(side, &["sa", "flush"], "")?;
        }
        Side::BOTH.into_iter().try_for_each(|side| self.rig.reload(side).map(drop))
    }

    /// The hosts of this transform.
    pub fn lab(&self, transform: &Transform) -> &Lab {
        if transform.members.is_empty() { &self.clear } else { &self.rig.lab }
    }

    /// One host of this transform.
    pub fn host(&self, transform: &Transform, side: Side) -> &Host {
        self.lab(transform).host(side)
    }

    /// The daemons, alice's first; none where there is no transform.
    ///
    /// # Errors
    /// If one is not there.
    pub fn daemons(&self, transform: &Transform) -> anyhow::Result<Option<[u32; 2]>> {
        if transform.members.is_empty() {
            return Ok(None);
        }
        Ok(Some([self.rig.daemon(Side::Alice)?.pid(), self.rig.daemon(Side::Bob)?.pid()]))
    }

    /// Put this transform in the place of the last one.
    ///
    /// # Errors
    /// If a daemon refuses it.
    pub fn install(&mut self, transform: &Transform) -> anyhow::Result<()> {
        if transform.members.is_empty() {
            return Ok(());
        }
        let mut lines = [String::new(), String::new()];
        for (from, to) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
            let first = self.spi;
            self.spi += transform.members.len() as u32;
            // The outermost first, for a chain names the next one.
            for (index, member) in transform.members.iter().enumerate().rev() {
                let next = (index + 1 < transform.members.len()).then(|| first + index as u32 + 1);
                let (out, inward) =
                    member.associations(first + index as u32, next, from, to, &self.suites)?;
                let _ = writeln!(lines[from as usize], "{out}");
                let _ = writeln!(lines[to as usize], "{inward}");
            }
        }
        for side in Side::BOTH {
            self.rig.ravelin(side, &["sa", "flush"], "")?;
        }
        import(&self.rig, &lines)?;
        Ok(())
    }

    /// Whether every association of the transform carried packets since it was installed.
    ///
    /// # Errors
    /// If one did not.
    pub fn prove(&self, transform: &Transform) -> anyhow::Result<()> {
        if transform.members.is_empty() {
            return Ok(());
        }
        let list = self.rig.json(Side::Bob, &["sa", "list"])?;
        let sas = list["sas"].as_array().context("`sa list` says no associations")?;
        ensure!(sas.len() == 2 * transform.members.len(), "{} associations", sas.len());
        for sa in sas {
            ensure!(sa["counters"]["packets"].as_u64() > Some(0), "an association carried nothing: {sa}");
        }
        Ok(())
    }
}

/// Add associations on both hosts: lines of `ravelin import`, alice's first.
///
/// # Errors
/// If a daemon refuses one.
pub(crate) fn import(rig: &Rig, lines: &[String; 2]) -> anyhow::Result<()> {
    for (side, text) in Side::BOTH.into_iter().zip(lines) {
        let path = rig.folder().join("associations");
        let _ = fs::remove_file(&path);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(text.as_bytes())?;
        // The configuration names ciphers of one's own.
        let config = rig.config_file(side);
        let arguments = ["import", "--config", &config.display().to_string(), &path.display().to_string()];
        rig.ravelin(side, &arguments, "")?;
        fs::remove_file(&path)?;
    }
    Ok(())
}

impl Member {
    fn suite(self) -> &'static str {
        match self {
            Member::Esp(suite) | Member::EspUdp(suite) | Member::Ah(suite) => suite,
        }
    }

    /// The two ends of an association, with a fresh key: the sender's, and the receiver's.
    pub(crate) fn associations(
        self,
        spi: u32,
        next: Option<u32>,
        from: Side,
        to: Side,
        suites: &Suites,
    ) -> anyhow::Result<(Value, Value)> {
        let suite = suites.find(self.suite()).with_context(|| format!("no suite {}", self.suite()))?;
        let mut key = vec![0; suite.keymat_len()];
        netio::random::fill(&mut key)?;
        let hex = key.iter().fold(String::new(), |mut hex, octet| {
            let _ = write!(hex, "{octet:02x}");
            hex
        });
        let end = |direction: &str, local: Side, remote: Side| {
            let mut end = json!({
                "direction": direction, "spi": format!("{spi:#x}"), "local": local.v4(), "remote": remote.v4(),
                "mode": "transport", "suite": self.suite(), "keymat": hex,
                "type": if matches!(self, Member::Ah(_)) { "ah" } else { "esp" },
                "encapsulation": if matches!(self, Member::EspUdp(_)) { "udp" } else { "none" },
            });
            if let (Some(next), "out") = (next, direction) {
                end["next"] = format!("{next:#x}").into();
            }
            end
        };
        Ok((end("out", from, to), end("in", to, from)))
    }
}

/// The policy of a program.
fn block(program: &Path, peer: Side, demand: &str) -> String {
    format!(
        "application \"{}\" {{\n  network {} protected P;\n  \
         protection P {{ localport=any remoteport=any {demand}; }}\n}}\n",
        program.display(),
        peer.v4(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transform_has_a_suite_and_a_name_of_its_own() {
        for (index, transform) in TRANSFORMS.iter().enumerate() {
            for member in transform.members {
                let (out, inward) = member
                    .associations(0x1000, Some(0x1001), Side::Alice, Side::Bob, &Suites::standard())
                    .unwrap();
                assert_eq!(out["keymat"], inward["keymat"]);
                assert_eq!(out["next"], "0x1001");
                assert_eq!(inward.get("next"), None);
            }
            assert!(TRANSFORMS[..index].iter().all(|other| other.name != transform.name));
        }
    }
}
