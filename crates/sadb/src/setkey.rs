//! The language of setkey(8), the manual keying tool of the KAME family, which people have in their files.
//!
//! What enters: text. What leaves: [`Statement`]s in the file's order. Whatever Ravelin cannot do is refused at its
//! line. No key is ever repeated in an error. Source: the setkey(8) manual page of ipsec-tools; paper 001 section 2.6.

mod algorithm;
mod error;
mod policy;
mod token;
mod words;

use std::net::IpAddr;

use crypto::{Secret, SuiteId, Suites};

use crate::sa::{Encapsulation, Lifetime, SaProtocol};
use crate::{Mode, Spi};
pub use error::SetkeyError;
pub use policy::{Address, PolicyAction, PolicyDirection, PolicyLevel, PolicyStatement, Request, Upper};
use token::Token;
use words::{Words, shown};

/// One statement of a setkey file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// An `add` statement, which makes an association.
    Add(Box<AddStatement>),
    /// A `delete` statement, which removes an association.
    Delete {
        /// The line number of the statement.
        line: u32,
        /// The source address of the association.
        src: IpAddr,
        /// The destination address of the association.
        dst: IpAddr,
        /// The protocol of the association.
        protocol: SaProtocol,
        /// The SPI of the association.
        spi: Spi,
    },
    /// A `flush` statement, which removes the associations of one protocol, or of all.
    Flush {
        /// The line number of the statement.
        line: u32,
        /// The protocol whose associations go; `None`: those of all protocols.
        protocol: Option<SaProtocol>,
    },
    /// An `spdadd` statement, which makes a policy.
    SpdAdd(Box<PolicyStatement>),
    /// An `spddelete` statement, which removes the policy with this selector and direction.
    SpdDelete(Box<PolicyStatement>),
    /// An `spdflush` statement, which removes all policies.
    SpdFlush {
        /// The line number of the statement.
        line: u32,
    },
    /// A `dump`, `spddump` or `get` statement; an import has nothing to do for it.
    Show,
}

/// An association with a source and a destination but no direction, since that depends on the host that reads the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddStatement {
    /// The line number of the statement.
    pub line: u32,
    /// The sender of the outer packets.
    pub src: IpAddr,
    /// The receiver of the outer packets.
    pub dst: IpAddr,
    /// The protocol of the association.
    pub protocol: SaProtocol,
    /// The way in which its packets travel: in UDP (`esp-udp`) or bare.
    pub encapsulation: Encapsulation,
    /// The SPI, or the CPI of compression.
    pub spi: Spi,
    /// The mode that `-m` says; transport if absent.
    pub mode: Mode,
    /// The replay window that `-r` says, in packets (setkey counts octets of 8); `None`: not said.
    pub replay_window: Option<u32>,
    /// The number that `-u` says and `unique:N` policies name.
    pub unique: Option<u32>,
    /// The limits that `-lh`, `-ls`, `-bh` and `-bs` say.
    pub lifetime: Lifetime,
    /// The suite that `-E`, `-A` and `-C` say together.
    pub suite: Option<SuiteId>,
    /// The keys one behind the other, in the order of the suite.
    pub keymat: Secret,
}

/// Read a whole file. Its associations may name the ciphers of one's own that `suites` has: `maes512-ctr`.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &str, suites: &Suites) -> Result<Vec<Statement>, SetkeyError> {
    token::statements(text)?.iter().map(|tokens| statement(tokens, suites)).collect()
}

fn statement(tokens: &[Token<'_>], suites: &Suites) -> Result<Statement, SetkeyError> {
    let mut words = Words::new(tokens);
    let command = words.take("a command")?;
    let done = match command.text {
        "add" => Statement::Add(Box::new(add(&mut words, command.line, suites)?)),
        "delete" => {
            words.skip_flags();
            let (src, dst) = (words.address("the source")?, words.address("the destination")?);
            let (protocol, _) = protocol(&mut words)?;
            Statement::Delete { line: command.line, src, dst, protocol, spi: spi(&mut words)? }
        }
        "flush" => {
            let protocol = if words.peek().is_some() { Some(protocol(&mut words)?.0) } else { None };
            Statement::Flush { line: command.line, protocol }
        }
        "spdadd" => Statement::SpdAdd(Box::new(policy::read(&mut words, command.line, true)?)),
        "spddelete" => Statement::SpdDelete(Box::new(policy::read(&mut words, command.line, false)?)),
        "spdflush" => Statement::SpdFlush { line: command.line },
        "dump" | "spddump" | "get" => return Ok(Statement::Show),
        "deleteall" => {
            return Err(SetkeyError::at(command.line, "deleteall is not known here; use delete, or flush"));
        }
        _ => {
            return Err(SetkeyError::at(
                command.line,
                format!(
                    "{} is no command; known: add, delete, flush, dump, get, spdadd, spddelete, spdflush, spddump",
                    shown(command)
                ),
            ));
        }
    };
    words.end()?;
    Ok(done)
}

fn protocol(words: &mut Words<'_, '_>) -> Result<(SaProtocol, Encapsulation), SetkeyError> {
    let token = words.take("the protocol")?;
    match token.text {
        "esp" => Ok((SaProtocol::Esp, Encapsulation::None)),
        "esp-udp" => Ok((SaProtocol::Esp, Encapsulation::Udp)),
        "ah" => Ok((SaProtocol::Ah, Encapsulation::None)),
        "ipcomp" => Ok((SaProtocol::IpComp, Encapsulation::None)),
        "esp-old" | "ah-old" => Err(SetkeyError::at(
            token.line,
            "the protocols of RFC 1826 and RFC 1827 have no replay protection and are not offered; use esp or ah",
        )),
        _ => Err(SetkeyError::at(
            token.line,
            format!("{} is no protocol; known: esp, esp-udp, ah, ipcomp", shown(token)),
        )),
    }
}

fn spi(words: &mut Words<'_, '_>) -> Result<Spi, SetkeyError> {
    let token = words.take("the SPI")?;
    let number = match token.text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => token.text.parse(),
    };
    number.map(Spi).map_err(|_| {
        SetkeyError::at(token.line, "the SPI must be a number of 32 bits, as 4096 or 0x1000".to_owned())
    })
}

fn add(words: &mut Words<'_, '_>, line: u32, suites: &Suites) -> Result<AddStatement, SetkeyError> {
    words.skip_flags();
    let (src, dst) = (words.address("the source")?, words.address("the destination")?);
    let (protocol, encapsulation) = protocol(words)?;
    let spi = spi(words)?;
    let mut add = AddStatement {
        line,
        src,
        dst,
        protocol,
        encapsulation,
        spi,
        mode: Mode::Transport,
        replay_window: None,
        unique: None,
        lifetime: Lifetime::default(),
        suite: None,
        keymat: Secret::new(Vec::new()),
    };
    let mut algorithms = algorithm::Algorithms::default();
    while words.peek().is_some() {
        let option = words.take("an option")?;
        match option.text {
            "-m" => add.mode = mode(words)?,
            "-r" => add.replay_window = Some(replay_window(words)?),
            "-u" => add.unique = Some(words.number("the number behind -u")?),
            "-lh" => add.lifetime.hard.seconds = words.number("the seconds behind -lh")?,
            "-ls" => add.lifetime.soft.seconds = words.number("the seconds behind -ls")?,
            "-bh" => add.lifetime.hard.bytes = words.number("the octets behind -bh")?,
            "-bs" => add.lifetime.soft.bytes = words.number("the octets behind -bs")?,
            // What padding holds is fixed by RFC 4303, and sequence numbers never wrap here.
            "-f" => extension(words.take("the word behind -f")?)?,
            "-E" | "-A" | "-C" => algorithms.read(option.text, words, suites)?,
            _ => {
                return Err(SetkeyError::at(
                    option.line,
                    format!(
                        "{} is no option of add; known: -m -r -u -f -lh -ls -bh -bs -E -A -C",
                        shown(option)
                    ),
                ));
            }
        }
    }
    (add.suite, add.keymat) = algorithms.finish(protocol, line)?;
    Ok(add)
}

/// Check what `-f` says, which makes no difference here.
fn extension(token: &Token<'_>) -> Result<(), SetkeyError> {
    match token.text {
        "zero-pad" | "random-pad" | "seq-pad" | "nocyclic-seq" => Ok(()),
        "cyclic-seq" => Err(SetkeyError::at(
            token.line,
            "sequence numbers never begin again here (RFC 4303 section 3.3.3); leave -f cyclic-seq out",
        )),
        _ => Err(SetkeyError::at(
            token.line,
            format!("{} is unknown; known: zero-pad, random-pad, seq-pad, nocyclic-seq", shown(token)),
        )),
    }
}

fn mode(words: &mut Words<'_, '_>) -> Result<Mode, SetkeyError> {
    let token = words.take("the mode")?;
    match token.text {
        "transport" => Ok(Mode::Transport),
        "tunnel" => Ok(Mode::Tunnel),
        "beet" => Ok(Mode::Beet),
        "any" => Err(SetkeyError::at(
            token.line,
            "mode any leaves open what the packets look like; write transport or tunnel",
        )),
        _ => {
            Err(SetkeyError::at(token.line, format!("{} is no mode; known: transport, tunnel", shown(token))))
        }
    }
}

/// The replay window that `-r` says, in packets. setkey counts the octets of its bit map; our windows begin at 64
/// packets.
fn replay_window(words: &mut Words<'_, '_>) -> Result<u32, SetkeyError> {
    let octets: u32 = words.number("the window behind -r")?;
    Ok(if octets == 0 { 0 } else { octets.saturating_mul(8).clamp(64, 65536).next_power_of_two() })
}
