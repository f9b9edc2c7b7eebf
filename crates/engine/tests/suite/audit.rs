//! Tests of what an auditor hears (RFC 4303 section 4): SPI, addresses, sequence number and, over IPv6, the flow label.

use crate::support;

use engine::Audited;
use sadb::spd::Level;
use sadb::{Mode, SaConfig, Spi};
use support::*;
use wire::{DropReason, Services};

fn told(receiver: &mut Receiver) -> Vec<Audited> {
    let mut out = Vec::new();
    receiver.engine.take_audits(NOW, &mut |audited| out.push(audited));
    out
}

/// An outer packet over this family, with this flow label.
fn outer(v6: bool, config: &SaConfig) -> Vec<u8> {
    let mut alice =
        Sender::new(policy(APP, Services::ENCRYPTED, Level::Mandatory), std::slice::from_ref(config));
    let (a, b) = hosts(v6);
    let sent = alice.send(stamped(APP, &udp_packet((a, 40000), (b, 53), 0, true, b"payload")));
    sent[0].bytes().to_vec()
}

#[test]
fn what_is_wrong_is_told_with_all_that_is_known() {
    let config = outbound_config(Mode::Tunnel, SUITES[0], false);
    let mut bob = Receiver::new(std::slice::from_ref(&config));
    let whole = outer(false, &config);
    // Nobody audits.
    assert!(bob.handle(&whole).is_ok());
    assert!(bob.handle(&whole).is_err());
    assert_eq!(told(&mut bob), []);

    bob.engine.set_audit(Some(8));
    let mut forged = outer(false, &config);
    *forged.last_mut().unwrap() ^= 1;
    let mut strange = whole.clone();
    strange[28..32].copy_from_slice(&0x7777_u32.to_be_bytes());
    for bytes in [&whole, &strange] {
        assert!(bob.handle(bytes).is_err());
    }
    let mut bob_again = Receiver::new(std::slice::from_ref(&config));
    bob_again.engine.set_audit(Some(8));
    assert!(bob_again.handle(&forged).is_err());
    let all: Vec<_> = told(&mut bob).into_iter().chain(told(&mut bob_again)).collect();
    let seen: Vec<_> = all
        .iter()
        .map(|audited| match audited {
            Audited::Packet(dropped) => (dropped.reason, Spi(dropped.spi), dropped.sequence, dropped.outer),
            other => panic!("{other:?}"),
        })
        .collect();
    let ends = Some((config.endpoints.local, config.endpoints.remote));
    assert_eq!(
        seen,
        [
            (DropReason::Replayed, config.spi, 1, ends),
            (DropReason::UnknownSpi, Spi(0x7777), 1, ends),
            (DropReason::AuthFailed, config.spi, 1, ends),
        ]
    );
    // Over IPv6 the label of the outer packet is among it.
    let config = outbound_config(Mode::Tunnel, SUITES[0], true);
    let mut bob_six = Receiver::new(std::slice::from_ref(&config));
    bob_six.engine.set_audit(Some(8));
    let mut forged = outer(true, &config);
    let first = forged[1] & 0xf0 | 0x4;
    forged[1..4].copy_from_slice(&[first, 0x2a, 0x17]);
    *forged.last_mut().unwrap() ^= 1;
    assert!(bob_six.handle(&forged).is_err());
    match told(&mut bob_six)[..] {
        [Audited::Packet(dropped)] => {
            assert_eq!((dropped.reason, dropped.flow_label), (DropReason::AuthFailed, 0x4_2a17));
        }
        ref other => panic!("{other:?}"),
    }
    bob.engine.set_audit(None);
    assert!(bob.handle(&whole).is_err());
    assert_eq!(told(&mut bob), []);
}
