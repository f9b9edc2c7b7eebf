//! How the control plane talks to a data thread: a bounded channel of functions and an eventfd that wakes the thread.
//!
//! A function runs in the thread that owns the state, between two packets, so neither side ever locks. The
//! thread looks at the channel only when the eventfd woke it (docs/design/0001).

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use netio::eventfd::Wake;
use tokio::sync::oneshot;

use documents::api_error::{ApiError, Blame};

/// The most commands that wait for one thread.
const DEPTH: usize = 64;
/// How long is waited for a place in a full channel, before the next look.
const BREATH: std::time::Duration = std::time::Duration::from_millis(2);

/// Something for the owner of a `T` to do.
enum Command<T> {
    Run(Box<dyn FnOnce(&mut T) + Send>),
    Stop,
}

/// The control plane's end of the channel to a data thread.
pub struct Handle<T> {
    /// `None` only while it is dropped.
    commands: Option<SyncSender<Command<T>>>,
    wake: Wake,
}

/// The data thread's end of the channel, where commands arrive.
pub struct Inbox<T> {
    commands: Receiver<Command<T>>,
    wake: Wake,
}

/// Why a thread did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The channel to the thread is full.
    #[error("the data path has {DEPTH} commands to do already; try again")]
    Busy,
    /// The data thread has ended.
    #[error("the data path has stopped")]
    Stopped,
}

impl From<AskError> for ApiError {
    fn from(error: AskError) -> ApiError {
        let fault = match error {
            AskError::Busy => Blame::Busy,
            AskError::Stopped => Blame::Failed,
        };
        ApiError::new(fault, error.to_string())
    }
}

/// A channel to a thread.
///
/// # Errors
/// If there is no eventfd to be had.
pub fn channel<T>() -> netio::Result<(Handle<T>, Inbox<T>)> {
    let (sender, receiver) = sync_channel(DEPTH);
    let wake = Wake::new()?;
    let other = wake
        .try_clone()
        .map_err(|source| netio::Error::System { doing: "duplicating an eventfd".to_owned(), source })?;
    Ok((Handle { commands: Some(sender), wake }, Inbox { commands: receiver, wake: other }))
}

impl<T> Handle<T> {
    /// Let the owner run `f` and wait for its answer.
    ///
    /// # Errors
    /// [`AskError`]; `f` may then have run or not only if the thread ended meanwhile.
    pub async fn ask<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Run(Box::new(move |state| {
            // Whoever asked may have gone; what was asked is done all the same.
            let _ = answer.send(f(state));
        })))?;
        answered.await.map_err(|_| AskError::Stopped)
    }

    /// Asks the thread as [`Handle::ask`] does, and waits for a place in the channel: for what must not be left half done.
    ///
    /// # Errors
    /// [`AskError::Stopped`]: the thread has ended, and the daemon ends with it.
    pub async fn insist<R: Send + 'static>(
        &self,
        f: impl Fn(&mut T) -> R + Clone + Send + 'static,
    ) -> Result<R, AskError> {
        loop {
            match self.ask(f.clone()).await {
                // The thread has so much to do before: it is woken, and looks again within a batch of packets.
                Err(AskError::Busy) => tokio::time::sleep(BREATH).await,
                answered => return answered,
            }
        }
    }

    /// Another end of the same channel, for another thread.
    ///
    /// # Errors
    /// If there is no descriptor to be had.
    pub fn try_clone(&self) -> netio::Result<Handle<T>> {
        Ok(Handle { commands: self.commands.clone(), wake: self.waker()? })
    }

    /// What wakes the owner and nothing else: there is something that it finds by itself.
    ///
    /// # Errors
    /// If there is no descriptor to be had.
    pub fn waker(&self) -> netio::Result<Wake> {
        let doing = || "duplicating an eventfd".to_owned();
        self.wake.try_clone().map_err(|source| netio::Error::System { doing: doing(), source })
    }

    /// Let the owner run `f`; waits, as long as its channel is full, but not for `f`. Not for the control plane.
    ///
    /// # Errors
    /// [`AskError::Stopped`].
    pub fn tell(&self, f: impl FnOnce(&mut T) + Send + 'static) -> Result<(), AskError> {
        let commands = self.commands.as_ref().ok_or(AskError::Stopped)?;
        commands.send(Command::Run(Box::new(f))).map_err(|_| AskError::Stopped)?;
        self.wake.wake();
        Ok(())
    }

    /// Let the owner end after what it is doing.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn stop(&self) -> Result<(), AskError> {
        self.send(Command::Stop)
    }

    fn send(&self, command: Command<T>) -> Result<(), AskError> {
        let commands = self.commands.as_ref().ok_or(AskError::Stopped)?;
        let sent = commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Busy,
            TrySendError::Disconnected(_) => AskError::Stopped,
        });
        self.wake.wake();
        sent
    }
}

/// Whether a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The thread goes on with the next packet.
    GoOn,
    /// The thread ends: it was told to, or nobody can tell it anything any more.
    End,
}

impl<T> Inbox<T> {
    /// What to wait on beside the device.
    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Do what was asked since the last call.
    pub fn run(&self, state: &mut T) -> Next {
        self.wake.take();
        loop {
            match self.commands.try_recv() {
                Ok(Command::Run(f)) => f(state),
                Ok(Command::Stop) | Err(std::sync::mpsc::TryRecvError::Disconnected) => return Next::End,
                Err(std::sync::mpsc::TryRecvError::Empty) => return Next::GoOn,
            }
        }
    }
}

impl<T> Drop for Handle<T> {
    /// The thread must hear that nobody can tell it anything any more: first the channel closes, then it wakes.
    fn drop(&mut self) {
        self.commands = None;
        self.wake.wake();
    }
}

/// Start a thread that owns `state` until it is told to stop. When this function returns, the thread has its name and has
/// done `first`, which gives up its capabilities. The answer comes when the thread ends: its state, or an error if it broke.
///
/// # Errors
/// If the system has no thread to give.
pub fn start<T: Send + 'static>(
    name: &str,
    mut state: T,
    inbox: Inbox<T>,
    first: fn(),
    serve: impl FnOnce(&mut T, &Inbox<T>) + Send + 'static,
) -> netio::Result<oneshot::Receiver<T>> {
    let (ending, ended) = oneshot::channel();
    let (begun, begins) = std::sync::mpsc::sync_channel(1);
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        first();
        let _ = begun.send(());
        serve(&mut state, &inbox);
        // Nobody may be waiting for it any more.
        let _ = ending.send(state);
    });
    spawned
        .map_err(|source| netio::Error::System { doing: format!("starting the thread {name}"), source })?;
    // A thread that broke by then sends nothing: whoever waits for its end hears of it.
    let _ = begins.recv();
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::thread;

    fn serve(inbox: Inbox<Vec<u32>>) -> thread::JoinHandle<Vec<u32>> {
        thread::spawn(move || {
            let mut state = Vec::new();
            loop {
                netio::poll::readable([inbox.wake().as_fd()], None).unwrap();
                if inbox.run(&mut state) == Next::End {
                    return state;
                }
            }
        })
    }

    #[tokio::test]
    async fn functions_run_in_order_in_the_owner() {
        let (handle, inbox) = channel().unwrap();
        let thread = serve(inbox);
        for n in 0..100 {
            assert_eq!(
                handle
                    .ask(move |v: &mut Vec<u32>| {
                        v.push(n);
                        v.len()
                    })
                    .await,
                Ok(n as usize + 1)
            );
        }
        handle.stop().unwrap();
        assert_eq!(thread.join().unwrap(), (0..100).collect::<Vec<_>>());
        assert_eq!(handle.ask(|v| v.len()).await, Err(AskError::Stopped));
    }

    #[tokio::test]
    async fn a_full_channel_says_busy_and_nothing_blocks() {
        let (handle, inbox) = channel::<Vec<u32>>().unwrap();
        for _ in 0..DEPTH {
            handle.send(Command::Run(Box::new(|v| v.push(1)))).unwrap();
        }
        assert_eq!(handle.ask(|_| ()).await, Err(AskError::Busy));
        let mut state = Vec::new();
        assert_eq!(inbox.run(&mut state), Next::GoOn);
        assert_eq!(state.len(), DEPTH);
    }

    #[test]
    fn a_thread_ends_when_its_handle_goes() {
        let (handle, inbox) = channel().unwrap();
        let thread = serve(inbox);
        drop(handle);
        assert!(thread.join().unwrap().is_empty());
    }
}
