//! OpenVPN in user space, without its kernel half: TLS between two certificates that each know the other's fingerprint.

use super::install::debian;
use super::{FrameContent, INNER_MTU, Scratch, inner, lab, run, wait_for_answer};
use anyhow::Context;
use lab::{Program, Running, Side};

/// A tunnel by OpenVPN.
pub struct OpenVpn;

impl OpenVpn {
    /// Start both with this data cipher.
    ///
    /// # Errors
    /// If a program is missing or they do not reach each other.
    pub fn build(name: &str, cipher: &str) -> anyhow::Result<FrameContent> {
        let program = debian("openvpn", "openvpn")?;
        let openssl = debian("openssl", "openssl")?;
        let lab = lab(name)?;
        let scratch = Scratch::new(name)?;
        let file =
            |side: Side, kind: &str| scratch.path(&format!("{}.{kind}", side.name())).display().to_string();
        let mut prints = Vec::new();
        for side in Side::BOTH {
            let (key, certificate) = (file(side, "key"), file(side, "pem"));
            let subject = format!("/CN={}", side.name());
            let mut args =
                vec!["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
            args.extend(["-days", "2", "-subj", &subject, "-keyout", &key, "-out", &certificate]);
            run(lab.host(side), &openssl, &args)?;
            let args = ["x509", "-in", &certificate, "-noout", "-fingerprint", "-sha256"];
            let print = run(lab.host(side), &openssl, &args)?;
            let (_, print) = print.trim().split_once('=').context("openssl says no fingerprint")?;
            prints.push(print.to_owned());
        }
        let start = |side: Side, peer: Side| {
            let role: &[&str] =
                if side == Side::Bob { &["--tls-server", "--dh", "none"] } else { &["--tls-client"] };
            let ends = [side.v4(), peer.v4(), inner(side), inner(peer)].map(|address| address.to_string());
            let mtu = INNER_MTU.to_string();
            let program = Program::new(&program)
                .args(["--dev", "tun", "--proto", "udp", "--disable-dco", "--verb", "1", "--mssfix", "0"])
                .args(["--local", &ends[0], "--remote", &ends[1], "--ifconfig", &ends[2], &ends[3]])
                .args(["--tun-mtu", &mtu, "--data-ciphers", cipher, "--key", &file(side, "key")])
                .args(["--cert", &file(side, "pem"), "--peer-fingerprint", &prints[peer as usize]])
                .args(role);
            lab.host(side).spawn(program)
        };
        let carriers = [start(Side::Alice, Side::Bob)?, start(Side::Bob, Side::Alice)?];
        let answer = wait_for_answer(&lab, inner(Side::Bob));
        answer.with_context(|| carriers.each_ref().map(Running::output).concat())?;
        let pids = carriers.each_ref().map(Running::pid);
        Ok(FrameContent { pids, target: inner(Side::Bob), _kept: Box::new((carriers, scratch)), lab })
    }
}
