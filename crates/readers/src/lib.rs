//! The readers behind a scrubber, as models: hosts and passive readers that put the same packets together in their own
//! ways.
//!
//! What enters: packets as a scrubber let them through. What leaves: the stream or the datagrams that each reader
//! delivers, and the judgement whether all of them are prefixes of one string (docs/design/0023). The room is never
//! shipped. Sources of what each reader does: Ptacek and Newsham 1998; Shankar and Paxson 2003; Novak 2005; Novak and
//! Sturges 2007; paper 003 section III.A.
//!
//! [`overlap`], [`stack`], [`stream`] and [`datagram`] are the readers, and [`packet`] is what they read. [`middle`],
//! [`mod@reference`], [`fault`] and [`relay`] stand in front of them. [`world`] has all the attackers of a small world.
//! [`judge`], [`alike`] and [`prove`] are the proof.
#![forbid(unsafe_code)]

pub mod alike;
pub mod datagram;
pub mod fault;
pub mod judge;
pub mod middlebox;
pub mod overlap;
pub mod packet;
pub mod prove;
pub mod reference;
pub mod relay;
pub mod replay;
pub mod stack;
pub mod stream;
pub mod world;
