//! Codepoints of the DS field, and how the AF ones stand for a class and a drop precedence (RFC 2597 section 6).

use crate::meta::Colour;

/// The default per-hop behaviour (RFC 2474 section 4.1).
pub const DEFAULT: u8 = 0;
/// Lower effort (RFC 8622).
pub const LE: u8 = 1;
/// Expedited forwarding (RFC 3246).
pub const EF: u8 = 46;
/// Class selector 6, for control of the network (RFC 2474 section 4.2.2).
pub const CS6: u8 = 48;

/// The codepoint of an AF class, 1 to 4, and a drop precedence.
pub const fn assured(class: u8, colour: Colour) -> Option<u8> {
    if class < 1 || class > 4 {
        return None;
    }
    let precedence = match colour {
        Colour::Green => 1,
        Colour::Yellow => 2,
        Colour::Red => 3,
    };
    Some(class << 3 | precedence << 1)
}

/// The AF class and the drop precedence of a codepoint; `None` if it is no AF codepoint.
pub const fn assured_of(dscp: u8) -> Option<(u8, Colour)> {
    let class = dscp >> 3;
    if class < 1 || class > 4 {
        return None;
    }
    match dscp & 7 {
        2 => Some((class, Colour::Green)),
        4 => Some((class, Colour::Yellow)),
        6 => Some((class, Colour::Red)),
        _ => None,
    }
}
