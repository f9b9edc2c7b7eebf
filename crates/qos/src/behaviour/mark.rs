//! A marker: the DSCP of a packet's headers by its aggregate and colour (RFC 2475 section 2.3.3.2, RFC 2697 section 4).

use super::{SettingsError, dscp, live};
use crate::component::{About, Behaviour, Context, Entry};
use crate::meta::{AggregateId, Colour};

/// The codepoints of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codepoints {
    /// One codepoint, whatever the colour.
    One(u8),
    /// The three codepoints of an AF class, 1 to 4: the colour is the drop precedence (RFC 2597 section 6).
    Assured(u8),
    /// One codepoint for green, yellow and red each.
    Coloured([u8; 3]),
}

impl Codepoints {
    /// The codepoints for green, yellow and red.
    fn all(self) -> Result<[u8; 3], SettingsError> {
        let all = match self {
            Codepoints::One(one) => [one; 3],
            Codepoints::Coloured(each) => each,
            Codepoints::Assured(class) => {
                let of = |colour| dscp::assured(class, colour).ok_or(SettingsError::NoCodepoint);
                [of(Colour::Green)?, of(Colour::Yellow)?, of(Colour::Red)?]
            }
        };
        if all.iter().any(|dscp| *dscp > 63) { Err(SettingsError::NoCodepoint) } else { Ok(all) }
    }
}

/// The headers that a marker writes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// The outer header alone: the pipe model of RFC 2983.
    #[default]
    Outer,
    /// The inner header alone.
    Inner,
    /// Both headers: the uniform model of RFC 2983.
    Both,
}

/// A marker of the DSCP. Packets of an aggregate that has no codepoints keep theirs.
#[derive(Clone, Debug)]
pub struct Marker {
    codepoints: Box<[Option<[u8; 3]>; 256]>,
    headers: Headers,
}

impl Marker {
    /// A marker with the codepoints of each aggregate.
    pub fn new(list: &[(AggregateId, Codepoints)], headers: Headers) -> Result<Marker, SettingsError> {
        let mut codepoints = Box::new([None; 256]);
        for (aggregate, its) in list {
            codepoints[usize::from(aggregate.0)] = Some(its.all()?);
        }
        Ok(Marker { codepoints, headers })
    }

    /// The codepoint of an aggregate and a colour; `None` if the marker leaves it alone.
    pub fn codepoint(&self, aggregate: AggregateId, colour: Colour) -> Option<u8> {
        self.codepoints[usize::from(aggregate.0)].map(|its| its[colour as usize])
    }
}

impl Behaviour for Marker {
    fn run(&mut self, batch: &mut [Entry], _: &Context) {
        for entry in live(batch) {
            let meta = &mut entry.meta;
            let Some(dscp) = self.codepoint(meta.aggregate, meta.colour) else { continue };
            if self.headers != Headers::Inner {
                (meta.dscp[0], meta.is_marked) = (dscp, true);
            }
            if self.headers != Headers::Outer {
                meta.dscp[1] = dscp;
            }
        }
    }

    fn about(&self) -> About {
        let count = self.codepoints.iter().flatten().count();
        let headers = match self.headers {
            Headers::Outer => "outer header",
            Headers::Inner => "inner header",
            Headers::Both => "both headers",
        };
        About { kind: "mark", settings: format!("{count} aggregates, {headers}") }
    }
}
