//! A daemon that is up: requests, signals, refusals to be logged, devices that come and go, until something ends it.

use std::future::pending;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use netio::link::Watch;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::enc::Enc;
use crate::handover::Giving;
use crate::plane::paths::Paths;
use crate::plane::{Allow, GraphInForce, Plane, Shared, Turns};
use crate::start::{Daemon, ProcessParts, RunError, hand_over, own_request};
use crate::workers::{ChangeReceiver, KnownAnswers};
use crate::{detach, handlers};
use control::notify;
use control::signals::{SignalRequest, Signals, registered};

/// How often refusals are logged and news of devices are read.
const TICK: Duration = Duration::from_secs(1);
/// Every so many ticks, attachments, settings and executables are looked at.
const ROUND: u32 = 5;
/// How long requests that are being answered may take at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// What ended the daemon.
enum End {
    Signal(&'static str),
    HandOver(Giving),
    Broken,
}

pub(crate) async fn serve(daemon: Daemon, mut changes: ChangeReceiver) -> Result<(), RunError> {
    let Daemon { mut plane, mut held, control, handover } = daemon;
    let system = |doing| move |source| RunError::System { doing, source };
    let control =
        tokio::net::UnixListener::from_std(control).map_err(system("listening on the control socket"))?;
    let handover =
        tokio::net::UnixListener::from_std(handover).map_err(system("listening on the hand-over socket"))?;
    let mut signals = Signals::new().map_err(system("listening for signals"))?;
    let mut upkeep = Upkeep::new(&plane, changes.known_answers())?;
    let answers = Answers::of(&plane);
    let mut paths = Paths::of(upkeep.watch.as_ref());
    let mut probing = Turns::new();
    let unfit = Arc::clone(&held.told.routes);
    let have = own_request(&plane);
    let mut findings = plane.begin_pins();
    report_graph(plane.graph());
    tracing::info!("ready; control socket {}", plane.config().control_socket.display());
    let plane = Shared::new(plane);

    let (stop, stopped) = oneshot::channel::<()>();
    let api = tokio::spawn(handlers::serve(control, plane.clone(), async {
        let _ = stopped.await;
    }));
    let told = match plane.get().await {
        Ok(plane) => plane
            .policy()
            .last_error()
            .map(|_| "degraded: the policy file is broken, the last good policy is in force"),
        Err(_) => None,
    };
    notify::ready(told.unwrap_or("the policy is in force"));
    let end = loop {
        tokio::select! {
            asked = signals.next() => match asked {
                SignalRequest::Reload => reload(&plane).await,
                SignalRequest::End(name) => break End::Signal(name),
            },
            _ = &mut held.outbound_ended => break End::Broken,
            _ = &mut held.inbound_ended => break End::Broken,
            accepted = handover.accept() => {
                let giving = accepted.and_then(|(stream, _)| stream.into_std()).and_then(|s| Giving::answer(s, &have));
                match giving {
                    Ok(giving) => match measured(&plane, &held, giving).await {
                        Ok(giving) => break End::HandOver(giving),
                        Err(text) => tracing::warn!("no hand-over: {text}"),
                    },
                    Err(error) => tracing::warn!("no hand-over: {error}"),
                }
            },
            () = upkeep.tick() => if let Ok(mut plane) = plane.get().await {
                upkeep.look(&mut plane);
                upkeep.end_trial(&mut plane).await;
                if let Err(refused) = plane.follow_surroundings().await {
                    tracing::debug!("the data threads do not hear of new addresses and devices: {refused}");
                }
                if let Err(refused) = plane.follow_sockets().await {
                    tracing::warn!("sockets are not compared with their entries: {refused}");
                }
                if let Err(refused) = plane.follow_flows() {
                    tracing::warn!("flows are not followed: {refused}");
                }
                if let Err(refused) = plane.look_after_health().await {
                    tracing::debug!("it is not known whether what must be protected gets through: {refused}");
                }
                if let Err(refused) = plane.follow_components().await {
                    tracing::debug!("it is not known whether components from outside are called: {refused}");
                }
                plane.expire_promises(netio::clock::monotonic()).await;
                plane.expire_reservations(netio::clock::monotonic()).await;
                report_names(plane.tend_names(netio::clock::monotonic()).await);
            },
            Some(found) = findings.recv() => if let Ok(mut plane) = plane.get().await {
                plane.judge_pins(found);
            },
            Some(heard) = held.heard.recv() => if let Ok(mut plane) = plane.get().await {
                report_names(plane.hear_name(heard).await);
            },
            change = changes.next() => if let Ok(plane) = plane.get().await {
                plane.observers().cipher_changed(change);
            },
            () = paths.ready() => if let Ok(mut plane) = plane.get().await {
                paths.look(&mut plane).await;
            },
            () = unfit.notified() => paths.ask(),
            () = probing.ready() => if let Ok(mut plane) = plane.get().await {
                probing.look(&mut plane).await;
            },
            () = answers.ready() => if let Ok(mut plane) = plane.get().await {
                report_names(plane.observe_names().await);
            },
            Some(event) = held.told.next() => if let Ok(mut plane) = plane.get().await {
                let lost = held.told.take_lost();
                plane.announce_lost(lost);
                match event {
                    engine::Event::Path(said) => {
                        if plane.hear_of_path(said).await {
                            probing.soon();
                        }
                    }
                    _ => plane.announce(&event).await,
                }
                plane.follow_end(&event, lost > 0).await;
            },
        }
    };
    // From here on nobody changes anything any more.
    let plane = plane.take().await.ok_or(RunError::Thread)?;
    plane.stop_captures();
    drop(stop);
    if timeout(FAREWELL, api).await.is_err() {
        tracing::debug!("a client of the control API was left without an answer");
    }
    finish(end, plane, held).await
}

/// A hand-over of what this daemon has, while nothing is stopped or wiped yet: it is neither too long nor of no use
/// at the other end, and somebody is there.
async fn measured(plane: &Shared, held: &ProcessParts, giving: Giving) -> Result<Giving, String> {
    if let Err(error) = held.tun.try_hand_over() {
        let text = format!(
            "{error}; without its TUN nobody can go on with its associations: stop it, start again, add new keys"
        );
        giving.refuse(&text);
        return Err(text);
    }
    let giving = giving.takes_queues(held.tun.queues(), 1 + held.further.len(), held.udp.fds().len())?;
    let giving = giving.takes_sockets(held.udp.queues())?;
    let measured = match plane.get().await {
        Ok(plane) => plane.measured().await,
        Err(refused) => Err(refused),
    };
    match measured {
        Ok((octets, ciphers, rules)) => {
            giving.takes(octets)?.has_ciphers(&ciphers)?.show(&rules)?.is_awaited()
        }
        Err(refused) => {
            giving.refuse(&refused.to_string());
            Err(refused.to_string())
        }
    }
}

/// Tells when applications have received answers of the DNS.
struct Answers(Option<AsyncFd<OwnedFd>>);

impl Answers {
    fn of(plane: &Plane) -> Answers {
        let ring = plane.dns_answers_fd().map_err(|error| error.to_string());
        let ring = ring.and_then(registered);
        if let Err(error) = &ring {
            tracing::warn!("answers that applications receive are not seen: {error}");
        }
        Answers(ring.ok())
    }

    /// There are some, or there were: who is called looks.
    async fn ready(&self) {
        match &self.0 {
            Some(ring) => match ring.readable().await {
                Ok(mut guard) => guard.clear_ready(),
                Err(error) => {
                    tracing::debug!(%error, "the ring of answers cannot be waited for");
                    pending().await
                }
            },
            None => pending().await,
        }
    }
}

fn report_names(outcome: Result<(), documents::api_error::ApiError>) {
    if let Err(refused) = outcome {
        tracing::warn!("addresses of names are not followed: {refused}");
    }
}

async fn finish(end: End, plane: Plane, held: ProcessParts) -> Result<(), RunError> {
    let auditor = plane.observers().auditor().clone();
    let done = match end {
        End::HandOver(giving) => hand_over(plane, held, giving).await,
        End::Signal(name) => {
            tracing::info!("{name}: stopping");
            notify::stopping();
            stop_threads(&plane, held.outbound_ended, held.inbound_ended).await;
            leave(&plane, held.options.detach_on_exit)
        }
        End::Broken => {
            let _ = plane.stop_threads();
            Err(RunError::Thread)
        }
    };
    auditor.stop();
    done
}

/// Wait until no packet is on its way; the associations end with the threads' state.
async fn stop_threads<O, I>(plane: &Plane, outbound: oneshot::Receiver<O>, inbound: oneshot::Receiver<I>) {
    if plane.stop_threads().is_ok()
        && timeout(FAREWELL, async { (outbound.await, inbound.await) }).await.is_err()
    {
        tracing::warn!("the data threads do not stop; the process ends without them");
    }
}

fn leave(plane: &Plane, take_down: bool) -> Result<(), RunError> {
    let instance = &plane.config().instance;
    let run_dir = plane.config().run_dir();
    if !take_down {
        let _ = std::fs::remove_file(&plane.config().control_socket);
        let _ = std::fs::remove_file(crate::handover::socket(&run_dir));
        tracing::info!(
            "the kernel half stays: what must be protected is refused until the next `ravelin run`; \
             `ravelin detach --instance {instance}` opens the host again"
        );
        return Ok(());
    }
    let done = detach::take_down(instance, &run_dir);
    for left in &done.left {
        tracing::warn!("left behind: {left}");
    }
    if !done.again {
        let _ = crate::state::remove(instance, &run_dir);
    }
    tracing::info!("taken off the host: {}", done.removed.join(", "));
    Ok(())
}

/// Say which graph of classes is in force, whether it is on trial, and where the text is that a start took back.
fn report_graph(graph: Option<&GraphInForce>) {
    let Some(graph) = graph.map(GraphInForce::in_force) else {
        tracing::info!("no graph of classes is in force: the configuration has no [qos]");
        return;
    };
    tracing::info!("graph of classes: {graph}");
    if let Some(waiting) = &graph.waiting {
        let left = waiting.seconds_left;
        tracing::warn!("the graph is on trial: it is taken back in {left} s, unless `ravelin qos confirm`");
    }
    if let Some(file) = &graph.origin.rejected {
        tracing::warn!("a graph was not confirmed in time and is taken back: its text is {file} now");
    }
}

async fn reload(plane: &Shared) {
    let Ok(mut plane) = plane.get().await else { return };
    // A signal cannot say that an empty file is meant.
    match plane.reload(Allow::default()).await {
        Ok(answer) if answer.refused_blocks.is_empty() => {}
        Ok(answer) => tracing::error!(
            "the policy has errors; broken blocks keep what they had:\n{}",
            answer.diagnostics
        ),
        Err(refused) => tracing::error!("the policy was not reloaded: {refused}; the one in force stays"),
    }
}

/// What is looked at from time to time.
struct Upkeep {
    ticks: Interval,
    count: u32,
    /// `None`: every tick lists the devices.
    watch: Option<Watch>,
    enc: Enc,
    answers: KnownAnswers,
    /// What was last wrong, so that it is said once.
    said: Vec<String>,
    /// Likewise, why a policy on trial could not be taken back.
    trial: Option<String>,
    /// Likewise, of a graph.
    graph_trial: Option<String>,
}

impl Upkeep {
    fn new(plane: &Plane, answers: KnownAnswers) -> Result<Upkeep, RunError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut enc = Enc::new(plane.config().enc.clone());
        plane.feed_enc(&mut enc);
        Ok(Upkeep {
            ticks,
            count: 0,
            watch: Some(Watch::open_with_routes()?),
            enc,
            answers,
            said: Vec::new(),
            trial: None,
            graph_trial: None,
        })
    }

    async fn tick(&mut self) {
        self.ticks.tick().await;
    }

    /// What cannot be taken back now is tried again with the next tick.
    async fn end_trial(&mut self, plane: &mut Plane) {
        let wrong = plane.end_trial().await;
        if let Some(text) = wrong.as_ref().filter(|text| self.trial.as_ref() != Some(text)) {
            tracing::error!("{text}");
        }
        self.trial = wrong;
        let wrong = plane.end_graph_trial().await;
        if let Some(text) = wrong.as_ref().filter(|text| self.graph_trial.as_ref() != Some(text)) {
            tracing::error!("{text}");
        }
        self.graph_trial = wrong;
    }

    fn look(&mut self, plane: &mut Plane) {
        let news_of_files = plane.hear();
        plane.feed_enc(&mut self.enc);
        let news =
            self.watch.as_mut().is_none_or(|watch| watch.events().is_ok_and(|events| !events.is_empty()));
        self.count += 1;
        let round = self.count.is_multiple_of(ROUND);
        let mut wrong = Vec::new();
        if news || round {
            wrong.extend(plane.follow_devices());
        }
        if round {
            wrong.extend(plane.repair());
        }
        if round || news_of_files {
            wrong.extend(plane.refresh_executables().err().map(|refused| refused.to_string()));
        }
        plane.follow_pins(round);
        if let Some(cipher) = plane.cipher_to_check(self.count) {
            self.answers.ask(cipher);
        }
        if news || round || news_of_files {
            for text in wrong.iter().filter(|text| !self.said.contains(text)) {
                tracing::error!("{text}");
            }
            self.said = wrong;
        }
    }
}
