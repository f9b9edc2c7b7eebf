//! The tables that say whose octets win where two pieces overlap, for each way in which a new piece can lie to an old
//! one.
//!
//! They are those of Novak and Sturges 2007 (streams) and of Shankar and Paxson 2003 and Novak 2005 (fragments).

use std::cmp::Ordering;

/// The places of a piece, from the first to before the second.
pub type Span = (u16, u16);

/// A table that says for each of the nine relations whether the new piece wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap(u16);

/// Makes a table of three rows. In its rows the new piece starts before, with, after the old one; in its columns it
/// ends before, with, after it.
const fn table(rows: [[u8; 3]; 3]) -> Overlap {
    let mut bits = 0;
    let mut at = 0;
    while at < 9 {
        bits |= (rows[at / 3][at % 3] as u16) << at;
        at += 1;
    }
    Overlap(bits)
}

impl Overlap {
    /// The piece that came first wins.
    pub const FIRST: Overlap = table([[0, 0, 0], [0, 0, 0], [0, 0, 0]]);
    /// The piece that came last wins.
    pub const LAST: Overlap = table([[1, 1, 1], [1, 1, 1], [1, 1, 1]]);
    /// The piece that starts further left wins.
    pub const LEFT: Overlap = table([[1, 1, 1], [0, 0, 0], [0, 0, 0]]);
    /// The piece that starts further right, or came last, wins.
    pub const RIGHT: Overlap = table([[0, 0, 0], [1, 1, 1], [1, 1, 1]]);
    /// The table of [`Overlap::LEFT`], except that of two that start together the longer one wins.
    pub const LEFT_LONGER: Overlap = table([[1, 1, 1], [0, 0, 1], [0, 0, 0]]);
    /// The table of [`Overlap::LEFT`], except that of two that start together the later one wins, unless it is shorter.
    pub const LEFT_LATER: Overlap = table([[1, 1, 1], [0, 1, 1], [0, 0, 0]]);
    /// The table of [`Overlap::LEFT`], except that of two that start together the later one wins.
    pub const LEFT_LAST: Overlap = table([[1, 1, 1], [1, 1, 1], [0, 0, 0]]);
    /// A new piece wins that covers the old one, or that starts after it and ends after it.
    pub const COVER_OR_BEHIND: Overlap = table([[0, 1, 1], [0, 1, 1], [0, 0, 1]]);
    /// A new piece wins that starts before the old one and does not end before it.
    pub const COVER: Overlap = table([[0, 1, 1], [0, 0, 0], [0, 0, 0]]);
    /// A new piece wins that goes beyond the old one on both sides.
    pub const BEYOND: Overlap = table([[0, 0, 1], [0, 0, 0], [0, 0, 0]]);

    /// Whether the octets of `new` take the place of those of `old` where both are.
    #[inline]
    pub fn new_wins(self, old: Span, new: Span) -> bool {
        let place = |ordering| match ordering {
            Ordering::Less => 0,
            Ordering::Equal => 1,
            Ordering::Greater => 2,
        };
        self.0 >> (3 * place(new.0.cmp(&old.0)) + place(new.1.cmp(&old.1))) & 1 == 1
    }

    /// Lay `new` over the pieces that are there. `put` is called with each place of it whose octet is to be written.
    #[inline]
    pub fn lay(self, old: &[Span], new: Span, mut put: impl FnMut(u16)) {
        for at in new.0..new.1 {
            let stays = |piece: &Span| piece.0 <= at && at < piece.1 && !self.new_wins(*piece, new);
            if !old.iter().any(stays) {
                put(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of Novak and Sturges: nine, then eight that overlap them in every way; `A` is the first.
    const PIECES: [Span; 17] = [
        (0, 3),
        (4, 6),
        (6, 9),
        (10, 11),
        (13, 15),
        (15, 18),
        (18, 20),
        (20, 22),
        (22, 23),
        (1, 5),
        (6, 9),
        (9, 12),
        (12, 15),
        (16, 17),
        (19, 20),
        (20, 21),
        (22, 24),
    ];

    fn laid(overlap: Overlap, pieces: &[Span]) -> String {
        let mut text = vec![b'?'; 24];
        for (index, piece) in pieces.iter().enumerate() {
            overlap.lay(&pieces[..index], *piece, |at| text[usize::from(at)] = b'A' + index as u8);
        }
        String::from_utf8_lossy(&text).trim_end_matches('?').to_string()
    }

    #[test]
    fn the_pattern_of_novak_reads_as_published() {
        // Streams: Novak and Sturges 2007. Fragments: Novak 2005, table 4.
        let table = [
            ("first, vista, fragments: first", Overlap::FIRST, "AAAJBBCCCLDLMEEFFFGGHHIQ"),
            ("last, fragments: last", Overlap::LAST, "AJJJJBKKKLLLMMMFNFGOPHQQ"),
            ("bsd, windows, fragments: bsd", Overlap::LEFT, "AAAJJBCCCLLLMMMFFFGGHHIQ"),
            ("linux", Overlap::LEFT_LONGER, "AAAJJBCCCLLLMMMFFFGGHHQQ"),
            ("old-linux", Overlap::LEFT_LATER, "AAAJJBKKKLLLMMMFFFGGHHQQ"),
            ("solaris, hpux11", Overlap::COVER_OR_BEHIND, "AJJJBBKKKLLLMMMFFFGGHHQQ"),
            ("fragments: linux", Overlap::LEFT_LAST, "AAAJJBKKKLLLMMMFFFGGPHQQ"),
            ("fragments: windows", Overlap::BEYOND, "AAAJBBCCCLLLMEEFFFGGHHIQ"),
            ("fragments: solaris", Overlap::COVER, "AAAJBBCCCLLLMMMFFFGGHHIQ"),
        ];
        for (name, overlap, read) in table {
            assert_eq!(laid(overlap, &PIECES), read, "{name}");
        }
    }

    #[test]
    fn the_pattern_of_shankar_and_paxson_reads_as_published() {
        let pieces = [(0, 3), (4, 6), (6, 9), (1, 5), (6, 9), (9, 12)];
        let table = [
            ("bsd", Overlap::LEFT, "111442333666"),
            ("bsd-right", Overlap::RIGHT, "144422555666"),
            ("linux", Overlap::LEFT_LAST, "111442555666"),
            ("first", Overlap::FIRST, "111422333666"),
            ("last", Overlap::LAST, "144442555666"),
        ];
        for (name, overlap, read) in table {
            let digits: String =
                laid(overlap, &pieces).bytes().map(|b| char::from(b - b'A' + b'1')).collect();
            assert_eq!(digits, read, "{name}");
        }
    }
}
