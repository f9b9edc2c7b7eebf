//! When the routes to peers are looked at: the path MTU of an association is that of the route now, and not what it was when the
//! association was added (docs/pmtu.md).
//!
//! What enters: news of routes and devices ([`netio::link::Watch`]), and packets that the kernel did not take. What leaves: when
//! associations are to follow their routes.

use std::future::pending;
use std::os::fd::AsFd;
use std::time::Duration;

use netio::link::Watch;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use super::Plane;
use control::signals::registered;

/// How long the news of one change may take to come in; routes are looked at once for all of them.
const TOGETHER: Duration = Duration::from_millis(20);
/// Looking at routes takes at most one part in so many of the control plane's time.
const SHARE: u32 = 10;

/// Tells when routes are to be looked at.
pub(crate) struct Paths {
    /// `None`: it is not told, and each tick looks.
    news: Option<AsyncFd<std::os::fd::OwnedFd>>,
    /// The earliest time of the next look at routes.
    from: Instant,
    /// There were news that nobody has looked at yet.
    waiting: bool,
}

impl Paths {
    /// Paths that are looked at when `watch` hears of a change; without a watch, at every tick.
    pub(crate) fn of(watch: Option<&Watch>) -> Paths {
        let own = |watch: &Watch| watch.as_fd().try_clone_to_owned().map_err(|error| error.to_string());
        let news = watch.map(|watch| own(watch).and_then(registered));
        if let Some(Err(error)) = &news {
            tracing::warn!("changes of routes are seen once a second only: {error}");
        }
        Paths { news: news.and_then(Result::ok), from: Instant::now(), waiting: true }
    }

    /// It is time to look. Whoever does not wait for the end of this loses nothing.
    pub(crate) async fn ready(&mut self) {
        if !self.waiting {
            match &self.news {
                Some(news) => match news.readable().await {
                    Ok(mut guard) => guard.clear_ready(),
                    Err(_) => pending().await,
                },
                None => pending().await,
            }
            self.ask();
        }
        sleep_until(self.from).await;
    }

    /// Somebody wants the routes looked at.
    pub(crate) fn ask(&mut self) {
        self.waiting = true;
        self.from = self.from.max(Instant::now() + TOGETHER);
    }

    /// Look at the routes now, and let the associations have their MTUs.
    pub(crate) async fn look(&mut self, plane: &mut Plane) {
        let began = Instant::now();
        self.waiting = false;
        if let Err(refused) = plane.follow_paths().await {
            tracing::warn!("the path MTU of associations does not follow the routes: {refused}");
        }
        self.from = Instant::now() + began.elapsed() * SHARE;
    }
}
