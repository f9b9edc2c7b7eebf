//! Whole packets of every suite, mode and family through the engine, and forged ones.

use std::sync::atomic::Ordering;

use cipher_loader::Form;
use cipher_loader::subject::Subject;
use crypto::SuiteId;
use sadb::Mode;

use super::host::{Host, association, datagram};
use crate::calls::{LENIENT, Octets, Verdict};

/// Octets of the payload of each packet.
const LENGTHS: [usize; 10] = [0, 1, 7, 8, 15, 16, 17, 100, 555, 1300];
/// Forged packets of each suite.
const FORGED: usize = 1000;
/// Octets of the outer headers, UDP among them, and of SPI and sequence number.
const FRONT_V4: usize = 20 + 8 + 8;

pub(super) fn esp(subject: &Subject<'_>) -> Verdict {
    let own = Host::new(subject.in_form(LENIENT))?;
    // The host's modes over the mandatory functions: what this peer makes and takes is the standard for the other.
    let plain = Host::new(subject.in_form(Form { plain: true, apart: true, ..LENIENT }))?;
    let suites = own.suites();
    let mut packets = 0;
    for suite in &suites {
        for mode in [Mode::Transport, Mode::Tunnel] {
            for v6 in [false, true] {
                exchange(&own, &plain, *suite, mode, v6).map_err(|why| {
                    let mode = if matches!(mode, Mode::Transport) { "transport" } else { "tunnel" };
                    format!("{suite}, {mode} mode, {}: {why}", if v6 { "IPv6" } else { "IPv4" })
                })?;
                packets += LENGTHS.len();
            }
        }
    }
    let mut behind_the_host = 0;
    for suite in &suites {
        let alone = suite.custom().is_none_or(|mode| mode.kind().is_alone());
        forge(&own, *suite, alone).map_err(|why| format!("{suite}: {why}"))?;
        behind_the_host += usize::from(!alone);
    }
    let alone = suites.len() - behind_the_host;
    let mut forged = format!("{FORGED} forged packets of each suite are dropped");
    if behind_the_host > 0 {
        forged += &format!(
            ", and none reached the cipher by the {behind_the_host} suites in which the host authenticates"
        );
    }
    if alone > 0 {
        forged += &format!("; {alone} rest on the cipher alone");
    }
    Ok(format!(
        "{packets} packets of {} suites, transport and tunnel mode, IPv4 and IPv6, both ways; {forged}",
        suites.len()
    ))
}

/// Packets both ways between the library as it is and the host's modes over its mandatory functions.
fn exchange(own: &Host, plain: &Host, suite: SuiteId, mode: Mode, v6: bool) -> Result<(), String> {
    let config = association(mode, suite, v6);
    let (mut here, mut there) = (own.sender(&config)?, plain.sender(&config)?);
    let (mut to_there, mut to_here) = (plain.receiver(&config)?, own.receiver(&config)?);
    let mut octets = Octets::new(21);
    for len in LENGTHS {
        let packet = datagram(v6, &octets.take(len))?;
        let (one, two) = (here.send(&packet)?, there.send(&packet)?);
        if one != two {
            return Err(format!(
                "a packet of {len} octets is another than the host makes of the mandatory functions"
            ));
        }
        let marked = packet.get(packet.len().saturating_sub(len.min(100))..).unwrap_or_default();
        if marked.len() >= 16 && one.windows(marked.len()).any(|part| part == marked) {
            return Err(format!("a packet of {len} octets shows its plaintext"));
        }
        for (receiver, outer, way) in [(&mut to_there, &one, "sent"), (&mut to_here, &two, "received")] {
            match receiver.receive(outer)? {
                None => return Err(format!("a packet of {len} octets that the library {way} is dropped")),
                Some(inner) if payload(&inner, len) != payload(&packet, len) => {
                    return Err(format!(
                        "a packet of {len} octets that the library {way} is delivered as another"
                    ));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

fn payload(packet: &[u8], len: usize) -> &[u8] {
    packet.get(packet.len().saturating_sub(len)..).unwrap_or_default()
}

/// Packets with a bit changed are dropped; where the host authenticates, the cipher is not called for them.
fn forge(host: &Host, suite: SuiteId, alone: bool) -> Result<(), String> {
    let config = association(Mode::Tunnel, suite, false);
    let mut receiver = host.receiver(&config)?;
    let mut octets = Octets::new(22);
    let genuine = host.sender(&config)?.send(&datagram(false, &octets.take(200))?)?;
    let calls = || host.calls.load(Ordering::Relaxed);
    let before = calls();
    for number in 0..FORGED {
        let mut forged = genuine.clone();
        // Each octet behind the sequence number in turn, then the sequence number.
        let behind = forged.len().saturating_sub(FRONT_V4).max(1);
        let at = if number % 10 == 9 { FRONT_V4 - 1 - number / 10 % 2 } else { FRONT_V4 + number % behind };
        if let Some(octet) = forged.get_mut(at) {
            *octet ^= 1 << octets.below(8);
        }
        if receiver.receive(&forged)?.is_some() {
            return Err(format!("a packet with octet {at} changed is delivered"));
        }
    }
    if !alone && calls() != before {
        return Err(format!("the cipher was called {} times for forged packets", calls() - before));
    }
    if receiver.receive(&genuine)?.is_none() {
        return Err("behind forged packets the genuine one is dropped".to_owned());
    }
    if calls() == before {
        return Err("the calls of the cipher are not counted".to_owned());
    }
    Ok(())
}
