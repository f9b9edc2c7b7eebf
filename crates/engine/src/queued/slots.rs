//! The places of packets that wait, by the tickets that a graph orders.

/// The ticket of a packet that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// A fixed number of places. Nothing is allocated after they were made.
pub(crate) struct Slots<T> {
    places: Box<[Option<T>]>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    /// So many places, all free.
    pub(crate) fn new(count: u32) -> Slots<T> {
        Slots { places: (0..count).map(|_| None).collect(), free: (0..count).rev().collect() }
    }

    /// Put a packet into a free place, or give it back.
    #[inline]
    pub(crate) fn insert(&mut self, packet: T) -> Result<Ticket, T> {
        let Some(place) = self.free.last().copied() else { return Err(packet) };
        match self.places.get_mut(place as usize) {
            Some(slot) => {
                *slot = Some(packet);
                self.free.pop();
                Ok(Ticket(place))
            }
            None => Err(packet),
        }
    }

    /// The packet of a ticket, which keeps its place.
    #[inline]
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&T> {
        self.places.get(ticket.0 as usize)?.as_ref()
    }

    /// Take the packet of a ticket; the ticket means nothing afterwards.
    #[inline]
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<T> {
        let packet = self.places.get_mut(ticket.0 as usize)?.take()?;
        self.free.push(ticket.0);
        Some(packet)
    }

    /// Take every packet out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.free.clear();
        self.free.extend((0..self.places.len() as u32).rev());
        self.places.iter_mut().filter_map(Option::take)
    }

    /// The number of packets that can wait.
    pub(crate) fn capacity(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_and_places_are_bounded() {
        let mut slots = Slots::new(2);
        let first = slots.insert("first").unwrap();
        let second = slots.insert("second").unwrap();
        assert_eq!(slots.insert("third"), Err("third"));
        assert_eq!((slots.take(first), slots.take(first)), (Some("first"), None));
        let third = slots.insert("third").unwrap();
        assert_eq!((slots.take(second), slots.take(third)), (Some("second"), Some("third")));
        assert_eq!((slots.insert("fourth").is_ok(), slots.insert("fifth").is_ok()), (true, true));
    }
}
