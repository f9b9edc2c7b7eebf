//! Service curves: what a discipline gives each of its children, as a rate and a latency.
//!
//! Every formula takes the service (rate `C`, latency `T`) of the scheduler itself, and `L` for the cost of the
//! costliest packet. All of them hold for a discipline that never interrupts a packet.

use super::arrival::Arrival;

/// At least `rate * (t - latency)` of work in any time `t` in which there is work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// The share of the processor.
    pub rate: f64,
    /// The time until that share is given, in nanoseconds.
    pub latency: f64,
}

impl Service {
    /// The whole processor, at once.
    pub const WHOLE: Service = Service { rate: 1.0, latency: 0.0 };

    /// The time in which a packet leaves a queue of at most `limit` of work in the order of its coming.
    pub fn limited(self, limit: f64) -> f64 {
        if self.rate <= 0.0 { f64::INFINITY } else { limit / self.rate + self.latency }
    }

    /// Strict priority: what is left by the children `above`, of which each is policed.
    ///
    /// In a time `t` they take at most `S + R * t`, with `S` and `R` the sums of their bursts and rates; one packet
    /// of a child below may have begun: `C * (t - T) - S - R * t - L`. So the rate is `C - R`, the latency
    /// `(C * T + S + L) / (C - R)` (Le Boudec and Thiran, Network Calculus, section 1.3.2 and 6.2).
    pub fn behind(self, above: Arrival, packet_below: f64) -> Service {
        let rate = self.rate - above.rate;
        if rate <= 0.0 {
            return Service { rate: 0.0, latency: f64::INFINITY };
        }
        Service { rate, latency: (self.rate * self.latency + above.burst + packet_below) / rate }
    }

    /// Strict priority below a guard: in each period `period` the children above take at most the share `guard`, and
    /// what their last packet takes beyond it.
    ///
    /// The worst time begins with the end of one period and the beginning of the next, both spent above: the rate is
    /// `C * (1 - guard) - L / period`, the latency `T / (1 - guard) + 2 * guard * period + L / C`: what is done in the
    /// time `T` can be passed by the children above as well.
    pub fn below_guard(self, guard: f64, period: f64, packet: f64) -> Service {
        let rate = self.rate * (1.0 - guard) - packet / period;
        if rate <= 0.0 || rate.is_nan() {
            return Service { rate: 0.0, latency: f64::INFINITY };
        }
        Service { rate, latency: self.latency / (1.0 - guard) + 2.0 * guard * period + packet / self.rate }
    }

    /// Strict priority above a guard that it can reach: at most the share `guard` is given, and what has been used up
    /// waits for the rest of the period: the rate is at most `C * guard`, and the latency grows by the time
    /// `(1 - guard) * period + L / C`.
    pub fn within_guard(self, whole: Service, guard: f64, period: f64, packet: f64) -> Service {
        if whole.rate <= 0.0 {
            return self;
        }
        // What the children above use of the guard is taken from it too.
        let used = whole.rate - self.rate;
        let rate = self.rate.min((whole.rate * guard - used).max(0.0));
        let latency = if rate > 0.0 {
            self.latency + (1.0 - guard) * period + packet / whole.rate
        } else {
            f64::INFINITY
        };
        Service { rate, latency }
    }

    /// Deficit round robin with the quantum `own` among `others`.
    ///
    /// Let the child be visited `p` times while it has work `t`. It gets at least `p * own - L`, and each sibling
    /// `j` at most `(p + 1) * Q_j + L`. With `p <= (S + L) / own` for what it got, `S`: the rate is `C * own /
    /// sum(Q)`, the latency `T + sum(Q_j * (1 + L / own) + L) / C` over the siblings (after Boyer, Stea and Sofack,
    /// 2012).
    pub fn deficit(self, own: f64, others: &[f64], packet: f64) -> Service {
        let sum: f64 = others.iter().sum::<f64>() + own;
        if own <= 0.0 || self.rate <= 0.0 {
            return Service { rate: 0.0, latency: f64::INFINITY };
        }
        let ahead: f64 = others.iter().map(|quantum| quantum * (1.0 + packet / own) + packet).sum();
        Service { rate: self.rate * own / sum, latency: self.latency + ahead / self.rate }
    }

    /// Round robin by packets, `own` of them in turn among `others`; `least` is the cost of the cheapest packet.
    ///
    /// Between two visits each sibling `j` sends at most `w_j` packets of `L`, and the child's own may be the
    /// cheapest: the rate is `C * own * least / (own * least + sum(w_j) * L)`, the latency `T + sum(w_j) * L / C`.
    pub fn by_packets(self, own: f64, others: &[f64], packet: f64, least: f64) -> Service {
        let ahead: f64 = others.iter().sum::<f64>() * packet;
        if own <= 0.0 || self.rate <= 0.0 {
            return Service { rate: 0.0, latency: f64::INFINITY };
        }
        let rate = self.rate * own * least / (own * least + ahead);
        Service { rate, latency: self.latency + ahead / self.rate }
    }

    /// Weighted fair queueing with the share `share` among `siblings` others.
    ///
    /// The rate is `C * share`; the latency `T + L / (C * share) + siblings * L / C` is that of self-clocked fair
    /// queueing (Golestani, 1994), the loosest of the usual kinds: WFQ itself has one packet in place of `siblings`.
    pub fn fair(self, share: f64, siblings: f64, packet: f64) -> Service {
        let rate = self.rate * share;
        if rate <= 0.0 {
            return Service { rate: 0.0, latency: f64::INFINITY };
        }
        Service { rate, latency: self.latency + packet / rate + siblings * packet / self.rate }
    }

    /// A shaper of a rate: what it gives leaves within the service of its parent at the shaped rate.
    pub fn shaped(self, rate: f64, packet: f64) -> Service {
        if rate <= 0.0 || rate >= self.rate {
            return self;
        }
        Service { rate, latency: self.latency + packet / rate }
    }

    /// The worse of two services that hold alike.
    pub fn worse(self, other: Service) -> Service {
        Service { rate: self.rate.min(other.rate), latency: self.latency.max(other.latency) }
    }
}

/// Whether the deadlines of an EDF scheduler can be kept, non-preemptively, with a service of rate `C` and latency
/// `T`: the work that must be done by any time `t` is `sum(s_j + r_j * (t - d_j))` over the children with `d_j <=
/// t`, and it must be at most `C * (t - T) - L` (Liebeherr, Wrege and Ferrari, 1996). That has to hold where work is
/// added, at each deadline, and for ever, by the sum of the rates.
pub fn deadlines_hold(service: Service, children: &[(f64, Arrival)], packet: f64) -> bool {
    let rates: f64 = children.iter().map(|(_, arrival)| arrival.rate).sum();
    let by = |t: f64| {
        let due = children.iter().filter(|(deadline, _)| *deadline <= t);
        due.map(|(deadline, arrival)| arrival.burst + arrival.rate * (t - deadline)).sum::<f64>()
    };
    let kept = |t: f64| by(t) <= service.rate * (t - service.latency) - packet;
    rates <= service.rate && children.iter().all(|(deadline, _)| kept(*deadline))
}
