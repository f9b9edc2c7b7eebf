//! Outbound packets of flows that are scrubbed, and packets that the scrubber makes itself.

use sadb::{PacketKey, SaIndex};
use scrub::Side;
use wire::ip::{self, Headers};
use wire::stage::Inner;
use wire::{AppId, DropReason, Flow, Meta, Packet, Pool, ScrubId, Services, Time};

use super::course::Course;
use super::outcome::{Outcome, end};
use super::rule_cache::RuleCourse;
use super::{Outbound, origin};
use crate::scrubbing::{self, Own, Scrubbed, Scrubbers};
use crate::tally::{About, Dropped};

impl Outbound {
    /// The scrubbers of flows whose policy says so, for the inbound half.
    pub fn scrubbers(&self) -> &Scrubbers {
        &self.scrubbers
    }

    /// Replace the scrubbers by others with a configuration of their own, and a seed that nobody knows.
    #[must_use]
    pub fn scrubbing_by(mut self, scrubbers: Scrubbers) -> Outbound {
        self.scrubbers = scrubbers;
        self
    }

    /// The profile by which a flow of this association is scrubbed: the one that policy says, and the one of the rules
    /// unless the association is bound to an application. The inbound half, which knows no more than this, comes to the
    /// same answer.
    pub(super) fn profile(&self, sa: SaIndex, flow: &Flow) -> ScrubId {
        let app = self.bound_to(Course::Protect(sa));
        let said = if self.spd.scrubs() { scrubbing::profile(&self.spd, app, flow) } else { ScrubId::NONE };
        if app == AppId::NONE { said.max(self.ruled_profile(flow)) } else { said }
    }

    /// The profile by which the rules say that packets of a flow are scrubbed.
    fn ruled_profile(&self, flow: &Flow) -> ScrubId {
        let ruled = self.consider_rules(&PacketKey::of_flow(flow), AppId::NONE, flow);
        ruled.map_or(ScrubId::NONE, |ruled| ruled.scrub)
    }

    /// The application that the association of a course is bound to. Flows of such associations have their own entries
    /// in the scrubbers.
    fn bound_to(&self, course: Course) -> AppId {
        let Course::Protect(sa) = course else { return AppId::NONE };
        self.sad.get(sa).and_then(|sa| sa.selectors().app).unwrap_or_default()
    }

    /// Let the scrubber see a packet whose course is known, and let it go on as it is then.
    #[cold]
    pub(super) fn scrub(
        &mut self,
        course: Course,
        mut packet: Packet<Inner>,
        joined: Option<u32>,
        flow: &Flow,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        let from = if origin::has_arrived(&packet.meta) { Side::Outside } else { Side::Inside };
        let mut own = std::mem::take(&mut self.own);
        let realm = self.bound_to(course);
        let scrubbed = self.scrubbers.process(from, realm, &mut packet, &mut own);
        let meta = packet.meta;
        match scrubbed {
            Some(Scrubbed::Passed) => match Headers::parse(packet.bytes()) {
                Ok(headers) => self.go(course, packet, &headers, joined, flow, pool, out),
                Err(error) => end(&mut self.tally, packet, error.into(), Some(flow), pool, out),
            },
            Some(Scrubbed::Ended(rule)) => {
                let about = About::of(&meta);
                let dropped =
                    Dropped::new(DropReason::Scrubbed, &about, packet.bytes().len(), Some(flow)).by(rule);
                self.tally.dropped(dropped);
                out.push(Outcome::Drop(dropped));
                pool.put(packet.into_buf());
            }
            Some(Scrubbed::Gone) => pool.put(packet.into_buf()),
            // Nobody knows this profile.
            None => end(&mut self.tally, packet, DropReason::Scrubbed, Some(flow), pool, out),
        }
        for own in own.drain(..) {
            // What came in clear goes on in clear, and so do answers to it.
            let clear = from == Side::Outside;
            let course = if clear { Course::Clear } else { course };
            let to_host = own.to == Side::Inside && !clear;
            self.send_one(meta.received, own, (!to_host).then_some(course), pool, out);
        }
        self.own = own;
    }

    /// Send the packets that the inbound half left, or that the passing of time brought.
    #[inline]
    pub(super) fn send_own(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        while let Some(own) = self.scrubbers.take() {
            self.send_left(now, own, pool, out);
        }
    }

    #[cold]
    fn send_left(&mut self, now: Time, own: Own, pool: &mut Pool, out: &mut Vec<Outcome>) {
        if own.to == Side::Inside {
            return self.send_one(now, own, None, pool, out);
        }
        let flow = Headers::parse(own.buf.as_slice())
            .ok()
            .map(|headers| ip::flow(own.buf.as_slice(), &headers, true));
        let course = flow.ok_or(DropReason::BadHeader).and_then(|flow| self.course_of_own(own.app, &flow));
        match course {
            Ok(course) => self.send_one(now, own, Some(course), pool, out),
            Err(reason) => {
                let about = About { at: now, app: own.app, ..About::default() };
                let dropped = Dropped::new(reason, &about, own.buf.len(), flow.as_ref());
                self.tally.dropped(dropped);
                out.push(Outcome::Drop(dropped));
            }
        }
    }

    /// The course of a packet that the scrubber made: under the protection that the packets of its flow have, or in
    /// clear if a rule says so for them and no application's policy speaks for it.
    fn course_of_own(&self, app: AppId, flow: &Flow) -> Result<Course, DropReason> {
        let reason = match self.sad.search_for_answer(app, flow, Services::AUTHENTICATED) {
            Ok(sa) => return Ok(Course::Protect(sa)),
            Err(reason) => reason,
        };
        if app != AppId::NONE || self.spd.scrub(flow) != ScrubId::NONE {
            return Err(reason);
        }
        let ruled = self.consider_rules(&PacketKey::of_flow(flow), app, flow);
        match ruled.map(|ruled| ruled.course) {
            Some(RuleCourse::Clear) => Ok(Course::Clear),
            Some(RuleCourse::Protect(sa)) => Ok(Course::Protect(sa)),
            Some(RuleCourse::Refuse(reason)) => Err(reason),
            Some(RuleCourse::Missing(_)) | None => Err(reason),
        }
    }

    /// Send a packet that the scrubber made on this course; `None`: it is for the host, or for a network behind it.
    fn send_one(
        &mut self,
        now: Time,
        own: Own,
        course: Option<Course>,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        let Own { buf, app, services, .. } = own;
        let mark = crate::mark(services, app);
        let meta = Meta { received: now, app, mark, services, ..Meta::default() };
        let mut room = pool.take();
        let Some(place) = room.push_back(buf.len()) else {
            return end(&mut self.tally, Packet::from_host(room, meta), DropReason::NoRoom, None, pool, out);
        };
        place.copy_from_slice(buf.as_slice());
        let Some(course) = course else {
            self.tally.replies.count(buf.len());
            return out.push(Outcome::Reply(Packet::made_for_host(room, meta), mark));
        };
        let packet: Packet<Inner> = Packet::from_host(room, meta);
        match Headers::parse(packet.bytes()) {
            Ok(headers) => {
                let flow = ip::flow(packet.bytes(), &headers, true);
                self.go(course, packet, &headers, None, &flow, pool, out);
            }
            Err(error) => end(&mut self.tally, packet, error.into(), None, pool, out),
        }
    }
}
