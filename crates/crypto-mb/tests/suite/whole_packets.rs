//! Whole ESP packets of others, sealed and opened by the wide unit, which serves most suites where it is there: at every width that this
//! processor has, and with nobody beside it.

use crate::appendix_a;
use crate::scapy;
use crate::widths;

use crypto::{Provider, Registry, SuiteId};
use widths::{suites, widths};

#[test]
fn what_scapy_seals_is_sealed_and_opened_here_and_nothing_else_is() {
    for wide in widths() {
        // Nine suites of GCM, and ChaCha20-Poly1305 where the processor has it.
        let count = if wide.offers(SuiteId::CHACHA20_POLY1305) { 96 } else { 72 };
        assert_eq!(scapy::sealed_here(wide), count, "{wide:?}");
        assert_eq!(scapy::opened_here(wide), count, "{wide:?}");
        assert_eq!(scapy::refused_here(wide), count, "{wide:?}");
    }
}

#[test]
fn the_packet_of_rfc_7634_appendix_a_opens_once_and_unchanged() {
    if !suites().contains(&SuiteId::CHACHA20_POLY1305) {
        return;
    }
    for wide in widths().into_iter().filter(|wide| wide.offers(SuiteId::CHACHA20_POLY1305)) {
        let registry = Registry::new().with(wide);
        appendix_a::opens_once(&registry);
        appendix_a::no_bit_of_it_can_be_changed(&registry);
    }
}
