//! What happens to a host between and during programs.

use lab::Side;

use crate::dice::Dice;

/// One thing that happens to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another daemon takes over from the daemon of this host.
    TakeOver(Side),
    /// The daemon of this host is killed, and another one started, with new keys for both hosts.
    Kill(Side),
    /// Both daemons read another text of the policy.
    Reload,
    /// The uplinks of both hosts, and the wire, have this MTU from now on.
    Mtu(u16),
}

impl Event {
    const ALL: [Event; 8] = [
        Event::TakeOver(Side::Alice),
        Event::TakeOver(Side::Bob),
        Event::Kill(Side::Alice),
        Event::Kill(Side::Bob),
        Event::Reload,
        Event::Mtu(1280),
        Event::Mtu(9000),
        Event::Mtu(1500),
    ];

    /// Whether packets on their way may be lost by it.
    pub fn loses(self) -> bool {
        matches!(self, Event::Kill(_) | Event::Mtu(_))
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Event::TakeOver(side) => write!(f, "take-over {}", side.name()),
            Event::Kill(side) => write!(f, "kill -9 {}", side.name()),
            Event::Reload => write!(f, "reload"),
            Event::Mtu(mtu) => write!(f, "MTU {mtu}"),
        }
    }
}

/// Events in an order by chance, each as often as the others.
#[derive(Debug, Default)]
pub struct Events(Vec<Event>);

impl Events {
    /// The next one; if packets must not be lost, the next that loses none.
    pub fn draw(&mut self, dice: &mut Dice, may_lose: bool) -> Event {
        loop {
            if let Some(at) = self.0.iter().rposition(|event| may_lose || !event.loses()) {
                return self.0.remove(at);
            }
            let mut more = Event::ALL.to_vec();
            dice.shuffle(&mut more);
            // What was left comes first.
            more.append(&mut self.0);
            self.0 = more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_comes_as_often_as_the_others() {
        let (mut events, mut dice) = (Events::default(), Dice::new(3));
        let drawn: Vec<Event> = (0..24).map(|_| events.draw(&mut dice, true)).collect();
        for event in Event::ALL {
            assert_eq!(drawn.iter().filter(|drawn| **drawn == event).count(), 3, "{event}");
        }
        assert!((0..9).all(|_| !events.draw(&mut dice, false).loses()));
    }
}
