//! What associations serve, as the kernel half knows it: inbound ones, since *optional* is sticky for these flows, and those to multicast
//! groups, since what no association takes to a group is refused to its sender.
//!
//! Counted as associations come and go, for walking all of them in the inbound thread would stop its packets. Where the count
//! does not tell, it is made anew.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::SaInfo;
use sadb::sa::{LifeState, SaProtocol};
use sadb::{Direction, InboundSa, OutboundSa, Selectors, Spi};

use super::served::{LiveName, RemainingService, Served};
use super::{Associations, Context};
use crate::datapath::{InboundHalf, OutboundHalf};
use crate::monitor::Monitor;
use documents::api_error::ApiError;
use documents::associations::groups_of;

/// What [`Served`] wants to know of an association; `None`: nothing. IP in IP that is taken bare of its peer (`tunnels_from`) protects no
/// flow, so clear text is no less than what it serves.
fn served(sa: &InboundSa, tunnels_from: &BTreeSet<IpAddr>) -> Option<(LiveName, Selectors)> {
    let config = sa.config();
    let remote = config.endpoints.remote;
    let bare = config.options.protocol == SaProtocol::IpIp && tunnels_from.contains(&remote);
    (!bare).then(|| ((Direction::Inbound, sa.spi(), remote), config.effective_selectors()))
}

/// The same of an outbound one: what it takes to multicast groups.
fn served_groups(sa: &OutboundSa) -> impl Iterator<Item = (LiveName, Selectors)> + use<> {
    let name = (Direction::Outbound, sa.spi(), sa.config().endpoints.remote);
    groups_of(*sa.selectors()).map(move |selectors| (name, selectors))
}

fn warn_of_widened(served: Selectors) {
    tracing::warn!(
        peers = %served.remote,
        "more selectors of associations meet here than the kernel half tells apart: optional clear text of these peers is refused for \
         every flow; associations with wider selectors, or fewer of them, change this"
    );
}

fn name_of(sa: &SaInfo) -> LiveName {
    let direction = match sa.direction {
        api::Direction::In => Direction::Inbound,
        api::Direction::Out => Direction::Outbound,
    };
    (direction, Spi(sa.spi.0), sa.remote)
}

fn tell_of_live(served: Selectors, monitor: &Monitor) -> Result<(), ApiError> {
    let mut kernel_half = monitor.get();
    let before = kernel_half.live_widened();
    kernel_half.add_live_sa(&served)?;
    if before == 0 && kernel_half.live_widened() > 0 {
        warn_of_widened(served);
    }
    Ok(())
}

impl Associations {
    /// Tell the kernel half which flows the associations of both engines serve, whose threads do not run yet.
    ///
    /// # Errors
    /// If it does not take them all.
    pub(in crate::plane) fn put_first_live(
        &mut self,
        out: &OutboundHalf,
        into: &InboundHalf,
        context: Context<'_>,
    ) -> Result<(), ApiError> {
        let groups = out.engine.sad().list().flat_map(|(_, sa)| served_groups(sa));
        let inbound = into.engine.sad().list().filter_map(|sa| served(sa, &context.config.tunnels_from));
        self.set_live(Served::of(inbound.chain(groups)), context.monitor)
    }

    /// An event of the data threads may be the end of an association; where events were `lost`, others may have ended too.
    ///
    /// # Errors
    /// If the kernel half does not follow, or a data thread does not answer.
    pub(in crate::plane) async fn follow_end(
        &mut self,
        event: &engine::Event,
        lost: bool,
        context: Context<'_>,
    ) -> Result<(), ApiError> {
        match event {
            _ if lost => {
                self.count_classes_anew(context).await?;
                self.count_anew(context).await
            }
            engine::Event::Expire(end) if end.state == LifeState::Dead => {
                let name = (end.direction, end.spi, end.remote);
                match end.direction {
                    Direction::Inbound => self.end_live_of(name, context).await,
                    Direction::Outbound => self.end_groups_of(name, context).await,
                }
            }
            _ => Ok(()),
        }
    }

    /// An inbound association was added that serves these flows.
    ///
    /// # Errors
    /// If the kernel half does not take them: the association is removed again, for clear text would still pass in its place.
    pub(super) async fn begin_live(
        &mut self,
        sa: &SaInfo,
        served: Selectors,
        context: Context<'_>,
    ) -> Result<(), ApiError> {
        if sa.kind == api::SaType::Ipip && context.config.tunnels_from.contains(&sa.remote) {
            return Ok(());
        }
        let first = self.live.add(name_of(sa), served);
        let told = if first { tell_of_live(served, context.monitor) } else { Ok(()) };
        if told.is_err() {
            self.live.undo(name_of(sa), served);
            let name = super::name::name_of(sa);
            // Its key stays burnt: the peer may have sealed with it already.
            let _ = context.halves.ask_inbound(move |half| half.engine.remove_sa(name).map(drop)).await;
            let _ = self.end_class_of(Spi(sa.spi.0), sa.remote, context).await;
        }
        told
    }

    /// An outbound association was added or exchanged that takes these flows to groups. What the kernel half does not take is refused to
    /// its sender, so it is said and nothing is undone.
    pub(super) fn begin_groups(&mut self, sa: &SaInfo, served: Selectors, monitor: &Monitor) {
        for selectors in groups_of(served) {
            if self.live.add(name_of(sa), selectors)
                && let Err(refused) = tell_of_live(selectors, monitor)
            {
                tracing::warn!(group = %selectors.remote, "packets to the group are refused to their senders: {refused}");
            }
        }
    }

    /// Forget an outbound association to a group, if this one is: the kernel half refuses packets to the group from
    /// then on. The association has ended or was exchanged.
    ///
    /// # Errors
    /// If the kernel half does not follow, or a data thread does not answer.
    pub(super) async fn end_groups(&mut self, sa: &SaInfo, context: Context<'_>) -> Result<(), ApiError> {
        self.end_groups_of(name_of(sa), context).await
    }

    /// The same as [`Associations::end_groups`], for the association that an event names.
    async fn end_groups_of(&mut self, name: LiveName, context: Context<'_>) -> Result<(), ApiError> {
        if self.live.has(name) { self.end_live_of(name, context).await } else { Ok(()) }
    }

    /// An inbound association has ended.
    ///
    /// # Errors
    /// If the kernel half does not follow, or the thread does not answer.
    pub(super) async fn end_live(&mut self, sa: &SaInfo, context: Context<'_>) -> Result<(), ApiError> {
        self.end_live_of(name_of(sa), context).await
    }

    /// The same as [`Associations::end_live`], for the association that an event names.
    async fn end_live_of(&mut self, name: LiveName, context: Context<'_>) -> Result<(), ApiError> {
        if name.0 == Direction::Inbound {
            self.end_class_of(name.1, name.2, context).await?;
        }
        match self.live.remove(name) {
            RemainingService::Others => Ok(()),
            RemainingService::Nobody(served) => {
                context.monitor.get().remove_live_sa(&served).map_err(ApiError::from)
            }
            RemainingService::Unclear => self.count_anew(context).await,
        }
    }

    /// Count anew what the associations serve, and tell the kernel half.
    async fn count_anew(&mut self, context: Context<'_>) -> Result<(), ApiError> {
        let tunnels_from = context.config.tunnels_from.clone();
        let of = move |half: &mut InboundHalf| {
            half.engine.sad().list().filter_map(|sa| served(sa, &tunnels_from)).collect::<Vec<_>>()
        };
        let mut all = context.halves.ask_inbound(of).await?;
        let groups = |half: &mut OutboundHalf| {
            half.engine.sad().list().flat_map(|(_, sa)| served_groups(sa)).collect::<Vec<_>>()
        };
        all.extend(context.halves.ask_outbound(groups).await?);
        self.set_live(Served::of(all), context.monitor)
    }

    /// Tell the kernel half which flows associations serve, and no others.
    ///
    /// # Errors
    /// If it does not take them all.
    fn set_live(&mut self, live: Served, monitor: &Monitor) -> Result<(), ApiError> {
        monitor.get().set_live_sas(&live.list())?;
        // What the kernel half did not take is counted as new when an association of it comes again.
        self.live = live;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wire::Prefix;

    use super::*;

    #[test]
    fn an_association_each_way_may_have_one_spi() {
        let both = |direction| (direction, Spi(7), IpAddr::from([192, 0, 2, 1]));
        let group = Selectors { remote: Prefix::host([239, 1, 2, 3].into()), ..Selectors::ANY };
        let mut live =
            Served::of([(both(Direction::Inbound), Selectors::ANY), (both(Direction::Outbound), group)]);
        assert_eq!(live.remove(both(Direction::Outbound)), RemainingService::Nobody(group));
        assert!(!live.has(both(Direction::Outbound)) && live.has(both(Direction::Inbound)));
    }

    #[test]
    fn flows_are_served_as_long_as_one_association_does_it() {
        let name = |spi, last| (Direction::Inbound, Spi(spi), IpAddr::from([192, 0, 2, last]));
        let peer = |last| Selectors { remote: Prefix::host([10, 0, 0, last].into()), ..Selectors::ANY };
        let has = |live: &Served, want: &[Selectors]| {
            let list = live.list();
            list.len() == want.len() && want.iter().all(|one| list.contains(one))
        };
        let mut live = Served::of([(name(1, 1), peer(1)), (name(2, 1), peer(1))]);
        assert!(!live.add(name(3, 1), peer(1)) && live.add(name(4, 2), peer(2)));
        assert!(has(&live, &[peer(1), peer(2)]));
        // The same peer by another protocol is something else.
        let tcp = Selectors { protocol: Some(6), ..peer(1) };
        assert!(live.add(name(5, 1), tcp) && has(&live, &[peer(1), peer(2), tcp]));
        assert_eq!(live.remove(name(5, 1)), RemainingService::Nobody(tcp));
        assert_eq!(live.remove(name(4, 2)), RemainingService::Nobody(peer(2)));
        assert_eq!(live.remove(name(1, 1)), RemainingService::Others);
        assert_eq!(live.remove(name(1, 1)), RemainingService::Unclear);
        assert_eq!(live.remove(name(2, 1)), RemainingService::Others);
        // Two of one name: an event does not say which has ended.
        live.add(name(3, 1), peer(3));
        assert_eq!(live.remove(name(3, 1)), RemainingService::Unclear);
        assert!(has(&live, &[peer(1), peer(3)]));
    }

    #[test]
    fn what_the_kernel_half_did_not_take_does_not_count() {
        let name = |spi| (Direction::Inbound, Spi(spi), IpAddr::from([192, 0, 2, 1]));
        let flows = Selectors { remote: Prefix::host([10, 0, 0, 1].into()), ..Selectors::ANY };
        let mut live = Served::default();
        assert!(live.add(name(1), flows));
        live.undo(name(1), flows);
        assert_eq!(live.list(), []);
        // So the next one tells the kernel half again, and another of the same name is still known.
        assert!(live.add(name(1), flows));
        assert!(!live.add(name(1), flows));
        live.undo(name(1), flows);
        assert_eq!(live.remove(name(1)), RemainingService::Nobody(flows));
    }
}
