//! A line that is up: requests, signals, interfaces that come and go, until something ends it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use netio::link::{Links, Watch};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::error::LineError;
use crate::feed;
use crate::handlers;
use crate::handover::{self, Giving};
use crate::line::{Line, LineOptions, Shared};
use crate::settings::{LineSettings, standby_socket};
use control::signals::{SignalRequest, Signals, registered};
use control::socket;
use control::{notify, privileges};

/// How often guards are looked at.
const ROUND: Duration = Duration::from_secs(5);
/// How long requests that are being answered, and workers, may take at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// The reason why a process stops serving its line.
enum End {
    Signal(&'static str),
    HandOver(Giving),
}

/// Run a line in the foreground, until a signal.
///
/// # Errors
/// [`LineError`]. Whatever the reason: what was closed stays closed.
pub fn run(settings: LineSettings, options: LineOptions) -> Result<(), LineError> {
    privileges::begin().map_err(|source| LineError::System { doing: "giving up privileges", source })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| LineError::System { doing: "starting", source })?;
    runtime.block_on(serve(settings, options))
}

async fn serve(settings: LineSettings, options: LineOptions) -> Result<(), LineError> {
    let system = |doing| move |source| LineError::System { doing, source };
    // Before the line is up, so that no news is missed.
    let mut watch = Watch::open()?;
    let news = watch.as_fd().try_clone_to_owned().map_err(system("watching interfaces"))?;
    let news: AsyncFd<_> = registered(news).map_err(|error| LineError::System {
        doing: "watching interfaces",
        source: std::io::Error::other(error),
    })?;
    let mut signals = Signals::new().map_err(system("listening for signals"))?;
    if settings.bare {
        tracing::warn!("nobody looks at the packets of this line: it is for measurements only");
    }
    let line = if options.take_over { Line::take_over(settings)? } else { Line::start(settings)? };
    for index in line.guard.others() {
        tracing::warn!(
            "interface {index} was closed by this line before and is closed still; `ravelin inline detach` opens it when the line is stopped"
        );
    }
    let listener = line.listen()?;
    let listener = tokio::net::UnixListener::from_std(listener).map_err(system("listening"))?;
    let successor = handover::listen(&line.settings.instance)?;
    let successor = tokio::net::UnixListener::from_std(successor).map_err(system("listening"))?;
    let standby = socket::bind(&standby_socket(&line.settings.instance))?;
    let standby = tokio::net::UnixListener::from_std(standby).map_err(system("listening"))?;
    let control_socket = line.settings.control_socket.clone();
    let [outside, inside] = line.settings.interfaces.clone();
    let line: Shared = Arc::new(Mutex::new(line));
    let (stop, stopped) = oneshot::channel::<()>();
    let api = tokio::spawn(handlers::serve(listener, Arc::clone(&line), async {
        let _ = stopped.await;
    }));
    privileges::settle_line().map_err(system("closing system calls that nothing needs"))?;
    notify::ready("both interfaces are closed to all but the scrubber");
    tracing::info!("ready: {outside} outside, {inside} inside; control socket {}", control_socket.display());
    let mut ticks = interval(ROUND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ended = loop {
        tokio::select! {
            asked = signals.next() => match asked {
                SignalRequest::Reload => tracing::warn!("a line does not load its settings again; start it anew"),
                SignalRequest::End(name) => break Ok(End::Signal(name)),
            },
            accepted = standby.accept() => match accepted {
                Ok((stream, _)) => drop(tokio::spawn(feed::serve(stream, Arc::clone(&line)))),
                Err(error) => tracing::warn!("no stream of connections: {error}"),
            },
            accepted = successor.accept() => {
                match accepted.and_then(|(stream, _)| stream.into_std()).and_then(Giving::answer) {
                    Ok(giving) => break Ok(End::HandOver(giving)),
                    Err(error) => tracing::warn!("no hand-over: {error}"),
                }
            },
            ready = news.ready(Interest::READABLE) => {
                if let Ok(mut ready) = ready {
                    ready.clear_ready();
                }
                // What the news say may be old by now: the host is asked.
                let _ = watch.events();
                match Links::open().and_then(|mut links| links.list()) {
                    Ok(links) => line.lock().await.follow(&links),
                    Err(error) => tracing::error!("interfaces are not followed: {error}"),
                }
            },
            _ = ticks.tick() => {
                let mut line = line.lock().await;
                line.mend();
                if line.threads.iter_mut().any(|thread| !matches!(thread.ended.try_recv(), Err(oneshot::error::TryRecvError::Empty))) {
                    break Err(LineError::Broken);
                }
            },
        }
    };
    drop(stop);
    let ended = ended?;
    if timeout(FAREWELL, api).await.is_err() {
        tracing::debug!("a client of the control API was left without an answer");
    }
    let mut line = line.lock().await;
    let name = match ended {
        End::Signal(name) => name,
        End::HandOver(giving) => {
            let _ = std::fs::remove_file(&control_socket);
            let state = timeout(FAREWELL * 5, line.hand_over()).await.map_err(|_| LineError::Broken)??;
            let stream = giving.give(&state).map_err(system("handing over"))?;
            tracing::info!("handed over; the line is closed until the next process goes on");
            // The next one waits for the end of this process, which closes it.
            std::mem::forget(stream);
            return Ok(());
        }
    };
    tracing::info!("{name}: stopping; the line is closed");
    notify::stopping();
    match timeout(FAREWELL, line.stop()).await {
        Ok(workers) => drop(workers?),
        Err(_) => tracing::warn!("the workers do not stop; the process ends without them"),
    }
    let _ = std::fs::remove_file(&control_socket);
    if options.detach_on_exit {
        sockmon::line::open(&line.settings.instance).map_err(LineError::Guard)?;
        tracing::info!("the line is open");
    }
    Ok(())
}
