//! Events for key managers: from the data threads' numbers to names, and to everybody who listens.
//!
//! Who reads too slowly loses the oldest and is told how many. While somebody listens who answers acquires, packets without
//! an association wait for the answer; when the last one leaves, they no longer do.

use api::{Event, LostEvents};
use axum::body::Bytes;
use sadb::spd::RuleId;
use tokio::sync::{broadcast, mpsc};

use super::Observers;
use crate::datapath::OutboundHalf;
use crate::events::Lines;
use crate::plane::context::Context;
use crate::plane::{Halves, Shared};
use documents::api_error::ApiError;
use documents::associations;
use documents::ciphers::{Fingerprints, agreement};

/// Lines that wait for one reader's socket.
const LINES: usize = 64;

impl Observers {
    /// Do what an event asks for, and tell everybody who listens.
    pub(in crate::plane) async fn announce(&self, event: &engine::Event, context: Context<'_>) {
        let followed = match event {
            engine::Event::PeerMoved(moved) => follow(*moved, context.halves).await,
            _ => 0,
        };
        let Some(event) = in_words(event, followed, &self.fingerprints, context) else { return };
        tracing::debug!(?event, "event");
        self.hub.tell(event);
    }

    /// Tell everybody that events were lost on the way here.
    pub(in crate::plane) fn announce_lost(&self, count: u64) {
        if count > 0 {
            self.hub.tell(Event::Lost(LostEvents { count }));
        }
    }
}

/// Send to where the peer is now; how many associations do.
async fn follow(moved: engine::PeerMoved, halves: &Halves) -> usize {
    let answer = halves.ask_outbound(move |half: &mut OutboundHalf| half.engine.follow(&moved)).await;
    let followed = match answer {
        Ok(followed) => followed,
        Err(error) => {
            tracing::warn!("associations do not follow the peer of {}: {error}", moved.spi);
            return 0;
        }
    };
    // Who is not told that it is done tells again.
    let _ = halves.ask_inbound(move |half| half.engine.followed(&moved)).await;
    followed
}

/// The event for those who listen; `followed` associations went with a peer that moved. `None`: it is not told.
fn in_words(
    event: &engine::Event,
    followed: usize,
    fingerprints: &Fingerprints,
    context: Context<'_>,
) -> Option<Event> {
    Some(match event {
        // Between the two hosts' daemons; what comes of it is told as a change of the path.
        engine::Event::Path(_) => return None,
        engine::Event::Acquire(asked) => Event::Acquire(api::Acquire {
            id: asked.id.0,
            app: (asked.app != wire::AppId::NONE).then(|| context.policy.app_name(asked.app)),
            need: if asked.services.encrypts() { "encrypted" } else { "authenticated" }.to_owned(),
            wanted: api::WantedSuite {
                suite: asked.suite.map(|suite| suite.to_string()),
                custom: asked.suite.and_then(|suite| agreement(suite, fingerprints)).map(Box::new),
            },
            held: asked.held,
            protocol: asked.flow.protocol,
            local: asked.flow.local,
            local_port: asked.flow.local_port,
            remote: asked.flow.remote,
            remote_port: asked.flow.remote_port,
            rule: context.policy.rule_position(RuleId(asked.rule)),
            spd_rule: context.rules.name_of(asked.rule),
            selectors: asked.selectors.iter().map(ToString::to_string).collect(),
            bundle: asked.bundle.iter().map(ToString::to_string).collect(),
        }),
        engine::Event::Expire(ended) => Event::Expire(api::Expire {
            spi: api::Spi(ended.spi.0),
            direction: associations::direction(ended.direction),
            remote: ended.remote,
            state: associations::state(ended.state),
            packets: ended.packets,
            bytes: ended.bytes,
        }),
        engine::Event::Pmtu(change) => Event::Pmtu(api::Pmtu {
            spi: api::Spi(change.spi.0),
            remote: change.remote,
            before: change.before,
            mtu: change.mtu,
            inner_mtu: u32::try_from(change.inner_mtu).unwrap_or(u32::MAX),
            from: change.from,
            cause: change.cause.word().to_owned(),
        }),
        engine::Event::PeerMoved(moved) => Event::PeerMoved(api::PeerMoved {
            spi: api::Spi(moved.spi.0),
            old: moved.old.0,
            old_port: moved.old.1,
            new: moved.new.0,
            new_port: moved.new.1,
            followed,
        }),
        engine::Event::Icmp(seen) => Event::Icmp(api::IcmpSeen {
            spi: api::Spi(seen.spi.0),
            remote: seen.remote,
            from: seen.from,
            version: seen.version,
            kind: seen.kind,
            code: seen.code,
        }),
    })
}

/// Let packets without an association wait for it, or no longer.
async fn set_hold(halves: &Halves, hold: bool) -> Result<(), ApiError> {
    let limits = hold.then(engine::HoldLimits::default);
    Ok(halves.ask_outbound(move |half: &mut OutboundHalf| half.engine.set_hold(limits)).await?)
}

/// Begin to listen; `answers`: packets wait for this listener's associations. Ends when the answer is dropped.
///
/// # Errors
/// If the daemon is about to end.
pub async fn listen(shared: Shared, answers: bool) -> Result<Lines, ApiError> {
    let mut events = {
        let mut plane = shared.get().await?;
        if answers {
            set_hold(&plane.halves, true).await?;
            plane.observers.hub.answering += 1;
        }
        plane.observers.hub.sender.subscribe()
    };
    let (lines, waiting) = mpsc::channel(LINES);
    tokio::spawn(async move {
        let ready = Event::Ready(api::Ready { acquires: answers });
        let mut go_on = write(&lines, &ready).await;
        while go_on {
            tokio::select! {
                event = events.recv() => match event {
                    Ok(event) => go_on = write(&lines, &event).await,
                    Err(broadcast::error::RecvError::Lagged(count)) => {
                        go_on = write(&lines, &Event::Lost(LostEvents { count })).await;
                    }
                    Err(broadcast::error::RecvError::Closed) => break,
                },
                () = lines.closed() => break,
            }
        }
        if answers && let Ok(mut plane) = shared.get().await {
            plane.observers.hub.answering -= 1;
            if plane.observers.hub.answering == 0 {
                // A thread that has stopped holds nothing either.
                let _ = set_hold(&plane.halves, false).await;
            }
        }
    });
    Ok(Lines::of(waiting))
}

async fn write(lines: &mpsc::Sender<Bytes>, event: &Event) -> bool {
    match serde_json::to_vec(&api::Versioned::new(event)) {
        Ok(mut line) => {
            line.push(b'\n');
            lines.send(line.into()).await.is_ok()
        }
        Err(error) => {
            tracing::error!("an event cannot be written: {error}");
            true
        }
    }
}
