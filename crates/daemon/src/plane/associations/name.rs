//! The name of an association.

use api::SaInfo;
use documents::associations;
use sadb::sa::KeyClass;
use sadb::{SaName, Spi};

/// An inbound association as its thread names it.
pub(super) fn name_of(sa: &SaInfo) -> SaName {
    let (destination, source) = match associations::class(sa.found_by.as_deref()) {
        Ok(KeyClass::SpiDestination) => (Some(sa.local), None),
        Ok(KeyClass::SpiDestinationSource) => (Some(sa.local), Some(sa.remote)),
        Ok(KeyClass::Spi) | Err(_) => (None, None),
    };
    SaName { spi: Spi(sa.spi.0), destination, source }
}
