//! Paper 000's workloads: 5000 files of 2 KB and one of 100 MB, fetched from bob by alice, with FTP (vsftpd and curl, passive mode: a
//! connection for each file) or with sftp (one connection for all). The programs are those of the distribution.

use crate::stage::{program, succeeded};
use anyhow::{Context, ensure};
use lab::{Host, Lab, Program, Running, Side, Transport};
use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Files of the small workload, and octets of each.
pub const SMALL: (usize, usize) = (5000, 2048);
/// Octets of the one file of the large workload.
pub const LARGE: usize = 100_000_000;
const LARGE_NAME: &str = "large";
const SSH: u16 = 22;
const PATIENCE: Duration = Duration::from_secs(300);
/// The cipher of sftp: that of the IPsec which it is compared with (the paper took 3DES with HMAC-SHA1 for both).
const CIPHER: &str = "-oCiphers=aes128-gcm@openssh.com";
/// The empty folder of root's that sshd wants, whatever its configuration says.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

/// How files are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// FTP, by curl from vsftpd.
    Ftp,
    /// SFTP, by sftp from sshd.
    Sftp,
}

/// The files, configurations and keys, in a folder that goes with this value.
pub struct Files {
    folder: PathBuf,
    curl: PathBuf,
    sftp: PathBuf,
    vsftpd: PathBuf,
    sshd: PathBuf,
}

/// The servers on one host; they end with this value.
pub struct Servers {
    _ftp: Running,
    _ssh: Running,
}

impl Files {
    /// Make everything in `folder`, which must not be there (what a crash left is removed first).
    ///
    /// # Errors
    /// If a program is not installed, or the folder cannot be written.
    pub fn make(folder: &Path) -> anyhow::Result<Files> {
        let (curl, sftp) = (program("curl")?, program("sftp")?);
        let (vsftpd, sshd) = (program("vsftpd")?, program("sshd")?);
        let _ = fs::remove_dir_all(folder);
        let files = Files { folder: folder.to_owned(), curl, sftp, vsftpd, sshd };
        files.write().with_context(|| format!("making files in {}", folder.display()))?;
        Ok(files)
    }

    /// The executables that use the network, server and client, in the words of a policy.
    ///
    /// # Errors
    /// If one is not installed.
    pub fn programs(&self, protocol: Protocol) -> anyhow::Result<[PathBuf; 2]> {
        Ok(match protocol {
            Protocol::Ftp => [self.vsftpd.clone(), self.curl.clone()],
            // sftp starts ssh, which connects.
            Protocol::Sftp => [self.sshd.clone(), program("ssh")?],
        })
    }

    fn write(&self) -> anyhow::Result<()> {
        let data = self.folder.join("data");
        for folder in [&self.folder, &data, &self.folder.join("empty")] {
            fs::create_dir_all(folder)?;
        }
        fs::create_dir_all(PRIVILEGE_SEPARATION)?;
        let mut octets = vec![0; LARGE];
        netio::random::fill(&mut octets[..SMALL.1])?;
        fs::write(data.join(LARGE_NAME), &octets)?;
        let mut batch = String::new();
        for index in 0..SMALL.0 {
            let name = format!("{index:04}");
            octets[0] = index as u8;
            octets[1] = (index >> 8) as u8;
            fs::write(data.join(&name), &octets[..SMALL.1])?;
            let _ = writeln!(batch, "get {} /dev/null", data.join(&name).display());
        }
        fs::write(self.folder.join("batch"), batch)?;
        let large = data.join(LARGE_NAME);
        fs::write(self.folder.join("batch-large"), format!("get {} /dev/null\n", large.display()))?;
        let at = |name: &str| self.folder.join(name).display().to_string();
        let vsftpd = tests::ftp::configuration(&data, &self.folder.join("empty"));
        fs::write(self.folder.join("vsftpd.conf"), vsftpd)?;
        for key in ["host-key", "user-key"] {
            keygen(&self.folder.join(key))?;
        }
        let sshd = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPermitRootLogin prohibit-password\nUsePAM no\n\
             UseDNS no\nPidFile none\nSubsystem sftp internal-sftp\n",
            at("host-key"),
            at("user-key.pub"),
        );
        fs::write(self.folder.join("sshd.conf"), sshd)?;
        Ok(())
    }

    /// Start the servers on bob.
    ///
    /// # Errors
    /// With what they printed, if they do not listen.
    pub fn serve(&self, lab: &Lab) -> anyhow::Result<Servers> {
        let bob = lab.bob();
        let start = |program: &Path, args: &[&str], port| {
            let mut server = bob.spawn(Program::new(program).args(args))?;
            bob.wait_for_listener(Transport::Tcp, port, &mut server, PATIENCE)?;
            anyhow::Ok(server)
        };
        let at = |name: &str| self.folder.join(name).display().to_string();
        let ftp = start(&self.vsftpd, &[&at("vsftpd.conf")], tests::ftp::PORT).context("starting vsftpd")?;
        let ssh = start(&self.sshd, &["-D", "-e", "-f", &at("sshd.conf")], SSH).context("starting sshd")?;
        Ok(Servers { _ftp: ftp, _ssh: ssh })
    }

    /// The file that tells curl to fetch the small workload from this address.
    fn urls(&self, peer: Ipv4Addr) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(format!("urls-{peer}"));
        if !path.exists() {
            let urls = (0..SMALL.0).fold(String::new(), |mut urls, index| {
                let _ = writeln!(urls, "url = \"ftp://{peer}/{index:04}\"\noutput = \"/dev/null\"");
                urls
            });
            fs::write(&path, urls)?;
        }
        Ok(path)
    }

    /// Seconds until alice has all files of a workload from bob's servers at this address.
    ///
    /// # Errors
    /// With what the client printed, if it has not.
    pub fn fetch(
        &self,
        alice: &Host,
        peer: Ipv4Addr,
        protocol: Protocol,
        large: bool,
    ) -> anyhow::Result<f64> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let client = match protocol {
            Protocol::Ftp if large => {
                let url = format!("ftp://{peer}/{LARGE_NAME}");
                Program::new(&self.curl).args([
                    "--silent",
                    "--show-error",
                    "--disable-epsv",
                    "--output",
                    "/dev/null",
                    &url,
                ])
            }
            Protocol::Ftp => {
                let args = ["--silent", "--show-error", "--disable-epsv", "--fail-early", "--config"];
                Program::new(&self.curl).args(args).arg(self.urls(peer)?)
            }
            Protocol::Sftp => {
                let batch = at(if large { "batch-large" } else { "batch" });
                let key = format!("-oIdentityFile={}", at("user-key"));
                let options = [
                    "-oStrictHostKeyChecking=no",
                    "-oUserKnownHostsFile=/dev/null",
                    "-oLogLevel=ERROR",
                    CIPHER,
                ];
                let program = Program::new(&self.sftp).args(["-q", "-F", "none", "-b", &batch, &key]);
                program.args(options).arg(format!("root@{peer}"))
            }
        };
        let start = Instant::now();
        let done = alice.run_program(client, PATIENCE)?;
        let seconds = start.elapsed().as_secs_f64();
        let said = succeeded("fetching files", &done)?;
        if protocol == Protocol::Sftp {
            // Each command is said as it is done; a file that is not there would end the batch.
            let wanted = if large { 1 } else { SMALL.0 };
            let got = said.lines().filter(|line| line.starts_with("sftp> get ")).count();
            ensure!(got == wanted, "sftp got {got} of {wanted} files");
        }
        Ok(seconds)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A key pair without a passphrase.
fn keygen(path: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(program("ssh-keygen")?);
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).stdin(Stdio::null());
    let output = command.output().context("running ssh-keygen")?;
    ensure!(output.status.success(), "ssh-keygen: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The peer of a host, for policies.
pub fn peer_of(side: Side) -> Ipv4Addr {
    match side {
        Side::Alice => Side::Bob.v4(),
        Side::Bob => Side::Alice.v4(),
    }
}
