//! The options of an association and where it is in its life.

use wire::{AggregateId, Time};

use super::error::HandOverError;
use super::octets::{Reader, Writer};
use crate::Spi;
use crate::sa::{
    DontFragment, Dscp, Encapsulation, Fragmentation, HeaderPolicy, HopLimit, KeyClass, LifeState, Lifetime,
    Limits, Padding, SaOptions, SaProtocol, Tfc,
};

/// The first version of the form in which associations have a class.
const WITH_CLASS: u32 = 7;
/// The number of classes that an instance can have.
const MOST_CLASSES: u8 = 64;

/// Makes the two functions that write and read one octet for each value of an enum.
macro_rules! octets {
    ($put:ident, $read:ident, $name:literal, $type:ty, $($octet:literal = $value:expr),*) => {
        fn $put(value: $type) -> u8 {
            match [$(($value, $octet)),*].into_iter().find(|(known, _)| *known == value) {
                Some((_, octet)) => octet,
                // The list is whole; zero is read as an error.
                None => 0,
            }
        }

        fn $read(r: &mut Reader<'_>) -> Result<$type, HandOverError> {
            match r.u8($name)? {
                $($octet => Ok($value),)*
                _ => Err(HandOverError::Field($name)),
            }
        }
    };
}

octets!(
    protocol_octet,
    read_protocol,
    "protocol",
    SaProtocol,
    1 = SaProtocol::Esp,
    2 = SaProtocol::Ah,
    3 = SaProtocol::IpComp,
    4 = SaProtocol::IpIp
);
octets!(
    encapsulation_octet,
    read_encapsulation,
    "encapsulation",
    Encapsulation,
    1 = Encapsulation::Udp,
    2 = Encapsulation::None
);
octets!(
    df_octet,
    read_df,
    "don't fragment",
    DontFragment,
    1 = DontFragment::Copy,
    2 = DontFragment::Set,
    3 = DontFragment::Clear
);
octets!(
    class_octet,
    read_class,
    "key class",
    KeyClass,
    1 = KeyClass::Spi,
    2 = KeyClass::SpiDestination,
    3 = KeyClass::SpiDestinationSource
);
octets!(
    life_octet,
    read_life_state,
    "life",
    LifeState,
    1 = LifeState::Mature,
    2 = LifeState::Dying,
    3 = LifeState::Dead
);

pub fn put(out: &mut Writer, options: &SaOptions) {
    let SaOptions {
        protocol,
        encapsulation,
        extended_sequence,
        lifetime,
        headers: HeaderPolicy { dscp, dscp_inward, ecn, df, hop_limit, fragment },
        tfc,
        padding,
        next,
        class,
        aggregate,
        keepalive,
        dummy,
        follow_peer,
    } = options;
    out.u8(protocol_octet(*protocol));
    out.u8(encapsulation_octet(*encapsulation));
    out.u8((*extended_sequence).into());
    put_limits(out, lifetime.soft);
    put_limits(out, lifetime.hard);
    match dscp {
        Dscp::Copy => out.u8(1),
        Dscp::Set(dscp) => {
            out.u8(2);
            out.u8(*dscp);
        }
        Dscp::Map(map) => {
            out.u8(3);
            out.put(&map[..]);
        }
    }
    out.u8((*dscp_inward).into());
    out.u8((*ecn).into());
    out.u8(df_octet(*df));
    match hop_limit {
        HopLimit::Copy => out.u8(1),
        HopLimit::Set(limit) => {
            out.u8(2);
            out.u8(*limit);
        }
    }
    out.u8((*fragment == Fragmentation::Before).into());
    match tfc {
        Tfc::None => out.u8(1),
        Tfc::Multiple(octets) => {
            out.u8(2);
            out.u16(*octets);
        }
        Tfc::Full => out.u8(3),
    }
    out.u8((*padding == Padding::Blocks).into());
    out.u8(next.is_some().into());
    out.u32(next.unwrap_or(Spi(0)).0);
    out.u8(class_octet(*class));
    out.u16(*keepalive);
    out.u16(*dummy);
    out.u8((*follow_peer).into());
    out.u8(aggregate.0);
}

/// Read the options in this version of the form.
pub fn read(r: &mut Reader<'_>, version: u32) -> Result<SaOptions, HandOverError> {
    Ok(SaOptions {
        protocol: read_protocol(r)?,
        encapsulation: read_encapsulation(r)?,
        extended_sequence: r.flag("extended sequence numbers")?,
        lifetime: Lifetime { soft: read_limits(r)?, hard: read_limits(r)? },
        headers: HeaderPolicy {
            dscp: match r.u8("DSCP")? {
                1 => Dscp::Copy,
                2 => Dscp::Set(r.u8("DSCP")?),
                3 => Dscp::Map(Box::new(r.array("DSCP")?)),
                _ => return Err(HandOverError::Field("DSCP")),
            },
            dscp_inward: r.flag("DSCP")?,
            ecn: r.flag("ECN")?,
            df: read_df(r)?,
            hop_limit: match r.u8("hop limit")? {
                1 => HopLimit::Copy,
                2 => HopLimit::Set(r.u8("hop limit")?),
                _ => return Err(HandOverError::Field("hop limit")),
            },
            fragment: if r.flag("fragmentation")? { Fragmentation::Before } else { Fragmentation::After },
        },
        tfc: match r.u8("padding")? {
            1 => Tfc::None,
            2 => Tfc::Multiple(r.u16("padding")?),
            3 => Tfc::Full,
            _ => return Err(HandOverError::Field("padding")),
        },
        padding: if r.flag("padding")? { Padding::Blocks } else { Padding::Least },
        next: match (r.flag("bundle")?, r.u32("bundle")?) {
            (true, spi) => Some(Spi(spi)),
            (false, 0) => None,
            (false, _) => return Err(HandOverError::Field("bundle")),
        },
        class: read_class(r)?,
        keepalive: r.u16("keepalive")?,
        dummy: r.u16("dummy packets")?,
        follow_peer: r.flag("follow peer")?,
        // Fields are read in the order in which they stand here.
        aggregate: if version < WITH_CLASS { AggregateId::DEFAULT } else { read_aggregate(r)? },
    })
}

fn read_aggregate(r: &mut Reader<'_>) -> Result<AggregateId, HandOverError> {
    match r.u8("class")? {
        number if number < MOST_CLASSES => Ok(AggregateId(number)),
        _ => Err(HandOverError::Field("class")),
    }
}

fn put_limits(out: &mut Writer, limits: Limits) {
    for limit in [limits.bytes, limits.packets, limits.seconds, limits.seconds_used] {
        out.u64(limit);
    }
}

fn read_limits(r: &mut Reader<'_>) -> Result<Limits, HandOverError> {
    let mut limit = || r.u64("lifetime");
    Ok(Limits { bytes: limit()?, packets: limit()?, seconds: limit()?, seconds_used: limit()? })
}

pub fn put_life(out: &mut Writer, added: Time, first_used: Option<Time>, state: LifeState) {
    out.u64(added.0);
    out.u8(first_used.is_some().into());
    out.u64(first_used.unwrap_or_default().0);
    out.u8(life_octet(state));
}

pub fn read_life(r: &mut Reader<'_>) -> Result<(Time, Option<Time>, LifeState), HandOverError> {
    let added = Time(r.u64("life")?);
    let first_used = match (r.flag("life")?, r.u64("life")?) {
        (true, at) => Some(Time(at)),
        (false, 0) => None,
        (false, _) => return Err(HandOverError::Field("life")),
    };
    Ok((added, first_used, read_life_state(r)?))
}
