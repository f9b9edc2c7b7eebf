//! What a line is made of, and the order in which it comes up: lock, guards, sockets, threads, and only then do the sockets hear.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crypto::Secret;
use netio::clock;
use netio::line::Port;
use netio::link::{Link, Links, Offload, set_offload};
use netio::packet::FrameDevice;
use scrub::{RestoreCounts, Saved, Scrubber};
use sockmon::line::{LineGuard, LineKey, worker};
use tokio::sync::{Mutex, oneshot};

use crate::error::LineError;
use crate::handover;
use crate::settings::{LineSettings, run_dir};
use crate::worker::Worker;
use control::channel::{Handle, channel};
use control::privileges;
use control::socket::{self, Lock};
use documents::scrub_record::Ring;

/// How a line is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineOptions {
    /// Take connections and sockets over from the process that has them.
    pub take_over: bool,
    /// Open the line at the end.
    pub detach_on_exit: bool,
}

/// One interface of the line.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name: that is what the line is between, whatever number it has.
    pub name: String,
    /// Its device; none while there is none of that name.
    pub device: Option<FrameDevice>,
    /// What is wrong with its guard.
    pub faults: Vec<String>,
}

/// A worker as the control plane has it.
pub struct Thread {
    /// The handle by which the worker is given commands.
    pub handle: Handle<Worker>,
    /// The worker itself, which comes back when its thread has ended.
    pub ended: oneshot::Receiver<Worker>,
}

/// A line that is up.
pub struct Line {
    /// What it was told.
    pub settings: LineSettings,
    /// The interfaces of the line: outside, inside.
    pub interfaces: [Interface; 2],
    /// The worker threads of the line.
    pub threads: Vec<Thread>,
    /// A standby is told of connections.
    pub feeding: bool,
    key: LineKey,
    /// Who keeps everybody else out.
    pub guard: LineGuard,
    _lock: Lock,
}

/// The line, for those who ask and the one who looks after it.
pub type Shared = Arc<Mutex<Line>>;

/// What a line has before it works.
struct Ready {
    settings: LineSettings,
    /// The network devices of the line: outside, inside.
    devices: [FrameDevice; 2],
    key: LineKey,
    guard: LineGuard,
}

impl Ready {
    fn new(settings: LineSettings) -> Result<Ready, LineError> {
        let mut links = Links::open()?;
        let [outside, inside] = &settings.interfaces;
        let devices = [fit(&mut links, outside)?, fit(&mut links, inside)?];
        let mut key = LineKey::default();
        random(&mut key)?;
        let guard = LineGuard::load(&settings.instance, &key).map_err(LineError::Guard)?;
        Ok(Ready { settings, devices, key, guard })
    }

    fn close(&mut self) -> Result<(), LineError> {
        let mut links = Links::open()?;
        for device in &self.devices {
            self.guard.close(device.index).map_err(LineError::Guard)?;
        }
        for device in &self.devices {
            make_ready(&mut links, device)?;
        }
        Ok(())
    }

    /// Open the ports of both sides, one for each worker.
    fn ports(&self) -> Result<[Vec<Port>; 2], LineError> {
        let [outside, inside] = &self.devices;
        let of = |device| ports(&self.guard, self.settings.workers, device);
        Ok([of(outside)?, of(inside)?])
    }

    /// Threads, with what others knew.
    fn begin(self, lock: Lock, ports: [Vec<Port>; 2], saved: Option<&Saved<'_>>) -> Result<Line, LineError> {
        let Ready { settings, devices, key, guard } = self;
        let config = settings.share([devices[0].mtu as usize, devices[1].mtu as usize]);
        let numbers = Arc::new(AtomicU64::new(0));
        let [outside, inside] = ports;
        let mut threads = Vec::new();
        let mut restored = RestoreCounts::default();
        for (at, (outside, inside)) in outside.into_iter().zip(inside).enumerate() {
            let mut seed = [0; 16];
            random(&mut seed)?;
            let mut scrubber = (!settings.bare).then(|| Scrubber::new(config.clone(), seed));
            if let (Some(scrubber), Some(saved)) = (&mut scrubber, saved) {
                let workers = u32::try_from(settings.workers).unwrap_or(u32::MAX);
                let done = scrubber.restore(clock::monotonic(), saved, |hosts| match hosts {
                    Some((one, other)) => worker(&key, one, other, workers) as usize == at,
                    // What rules did before is one worker's to tell.
                    None => at == 0,
                });
                restored.connections += done.connections;
                restored.sessions += done.sessions;
                restored.lost += done.lost;
            }
            let ring = Ring::new(at, Arc::clone(&numbers));
            let worker = Worker::new(scrubber, [outside, inside], settings.ethertypes.clone(), ring, key);
            let (handle, inbox) = channel()?;
            let name = format!("rvl-line-{at}");
            let ended =
                control::channel::start(&name, worker, inbox, privileges::give_up_all, Worker::serve)?;
            threads.push(Thread { handle, ended });
        }
        if saved.is_some() {
            let RestoreCounts { connections, sessions, lost } = restored;
            tracing::info!("taken over: {connections} connections, {sessions} sessions");
            if lost > 0 {
                tracing::warn!(
                    "{lost} connections and sessions found no room and are forgotten: their packets end"
                );
            }
        }
        // Every worker is there to hear its share.
        for thread in &threads {
            let told = thread.handle.tell(|worker| {
                for port in worker.ports.iter().flatten() {
                    if let Err(error) = port.listen() {
                        tracing::error!("{}: {error}", port.device().name);
                    }
                }
            });
            told.map_err(|_| LineError::Broken)?;
        }
        let interface = |device: FrameDevice| Interface {
            name: device.name.clone(),
            device: Some(device),
            faults: Vec::new(),
        };
        Ok(Line {
            interfaces: devices.map(interface),
            threads,
            feeding: false,
            key,
            guard,
            settings,
            _lock: lock,
        })
    }
}

/// A port for each worker, in a group, deaf.
fn ports(guard: &LineGuard, workers: usize, device: &FrameDevice) -> Result<Vec<Port>, LineError> {
    let ports: Vec<Port> = (0..workers).map(|_| Port::open(device)).collect::<netio::Result<_>>()?;
    Port::share(&ports.iter().collect::<Vec<_>>(), guard.shard().map_err(LineError::Guard)?)?;
    for port in &ports {
        guard.admit(port.as_fd(), device.index).map_err(LineError::Guard)?;
    }
    Ok(ports)
}

impl Line {
    /// Close both interfaces, then scrub between them.
    ///
    /// # Errors
    /// [`LineError`]. What was closed by then stays closed.
    pub fn start(settings: LineSettings) -> Result<Line, LineError> {
        let folder = run_dir(&settings.instance);
        socket::make_folder(&folder)?;
        let lock = socket::lock(&folder)?;
        let mut ready = Ready::new(settings)?;
        ready.close()?;
        let ports = ready.ports()?;
        ready.begin(lock, ports, None)
    }

    /// Go on in the place of the process that has the line: with its connections, and with what waits since this one listens.
    ///
    /// # Errors
    /// [`LineError`]. The line stays closed, and served if the other process goes on.
    pub fn take_over(settings: LineSettings) -> Result<Line, LineError> {
        let folder = run_dir(&settings.instance);
        let mut ready = Ready::new(settings)?;
        let ports = ready.ports()?;
        for port in ports.iter().flatten() {
            port.listen()?;
        }
        let state = handover::take(&ready.settings.instance)?;
        let saved = handover::check(&ready.settings.instance, &state)?;
        let lock = socket::lock(&folder)?;
        // From here on nobody else's frames pass.
        ready.close()?;
        ready.begin(lock, ports, Some(&saved))
    }

    /// What the host says of its interfaces: one that came back is closed and served again, one that went is let go.
    pub fn follow(&mut self, links: &[Link]) {
        for at in 0..self.interfaces.len() {
            let Some(interface) = self.interfaces.get(at) else { continue };
            let name = interface.name.clone();
            let there = links.iter().find(|link| link.name == name).map(|link| link.index);
            match interface.device.as_ref().map(|device| device.index) {
                // Under another name, perhaps: it is the same interface, and stays closed.
                Some(index) if links.iter().any(|link| link.index == index) => continue,
                Some(index) => self.let_go(at, index),
                None => {}
            }
            if let Some(index) = there {
                match self.serve_again(at, index) {
                    Ok(()) => tracing::info!("{name} is there again; it is closed and served"),
                    Err(error) => tracing::error!("{name} is there again and is not served: {error}"),
                }
            }
        }
    }

    fn let_go(&mut self, at: usize, index: u32) {
        let Some(interface) = self.interfaces.get_mut(at) else { return };
        tracing::warn!("{} is gone: nothing passes until it is there again", interface.name);
        interface.device = None;
        for thread in &self.threads {
            let _ = thread.handle.tell(move |worker| worker.set_port(at, None));
        }
        if let Err(error) = self.guard.forget(index) {
            tracing::warn!("{error}");
        }
    }

    fn serve_again(&mut self, at: usize, index: u32) -> Result<(), LineError> {
        // First of all.
        self.guard.close(index).map_err(LineError::Guard)?;
        let device = FrameDevice::of(index)?;
        make_ready(&mut Links::open()?, &device)?;
        for (thread, port) in self.threads.iter().zip(ports(&self.guard, self.settings.workers, &device)?) {
            port.listen()?;
            let told = thread.handle.tell(move |worker| worker.set_port(at, Some(port)));
            told.map_err(|_| LineError::Broken)?;
        }
        if let Some(interface) = self.interfaces.get_mut(at) {
            interface.device = Some(device);
        }
        Ok(())
    }

    /// Look whether interfaces and guards are where they belong, and put them there.
    pub fn mend(&mut self) {
        let links = match Links::open().and_then(|mut links| links.list()) {
            Ok(links) => links,
            Err(error) => return tracing::error!("interfaces are not looked after: {error}"),
        };
        // What failed before, or was not heard of.
        self.follow(&links);
        for at in 0..self.interfaces.len() {
            let Some(interface) = self.interfaces.get(at) else { continue };
            let Some(index) = interface.device.as_ref().map(|device| device.index) else { continue };
            let name = interface.name.clone();
            let mut faults = self.guard.faults(index);
            let xdp = links.iter().find(|link| link.index == index).and_then(|link| link.xdp);
            if !faults.is_empty() {
                tracing::error!("{name}: {}; closing it again", faults.join("; "));
                match self.guard.close(index) {
                    Ok(()) => faults = self.guard.faults(index),
                    Err(error) => faults.push(error.to_string()),
                }
            }
            // That one is in front of whatever traffic control does, and nobody here may take it off.
            faults.extend(xdp.map(|program| LineError::Xdp(name, program).to_string()));
            if let Some(interface) = self.interfaces.get_mut(at) {
                for fault in faults.iter().filter(|fault| !interface.faults.contains(fault)) {
                    tracing::error!("{fault}");
                }
                interface.faults = faults;
            }
        }
    }

    /// Stop the workers; what they know and their ports come back, in order. Frames wait in the sockets.
    ///
    /// # Errors
    /// [`LineError::Broken`] if one is not there any more.
    pub async fn stop(&mut self) -> Result<Vec<Worker>, LineError> {
        let mut workers = Vec::new();
        for thread in self.threads.drain(..) {
            thread.handle.stop().map_err(|_| LineError::Broken)?;
            workers.push(thread.ended.await.map_err(|_| LineError::Broken)?);
        }
        Ok(workers)
    }

    /// Which worker hears what these two hosts say.
    pub fn worker_of(&self, one: IpAddr, other: IpAddr) -> usize {
        worker(&self.key, one, other, u32::try_from(self.threads.len()).unwrap_or(u32::MAX)) as usize
    }

    /// Stop the workers and write down what they know.
    ///
    /// # Errors
    /// [`LineError::Broken`] if one is not there any more. Nothing passes the line then.
    pub async fn hand_over(&mut self) -> Result<Secret, LineError> {
        let mut state = Vec::new();
        for worker in &mut self.stop().await? {
            worker.drain();
            if let Some(scrubber) = &worker.scrubber {
                scrubber.save(clock::monotonic(), &mut state);
            }
        }
        Ok(Secret::new(state))
    }

    /// The control socket, listening.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn listen(&self) -> Result<std::os::unix::net::UnixListener, LineError> {
        let path: &Path = &self.settings.control_socket;
        Ok(socket::bind(path)?)
    }
}

/// Up, and joining packets of one flow that come together (GRO): one look for all of them is what makes a line fast.
fn make_ready(links: &mut Links, device: &FrameDevice) -> Result<(), LineError> {
    if let Err(error) = set_offload(&device.name, Offload::Gro, true) {
        tracing::info!("{} does not join packets, the line is slower for it: {error}", device.name);
    }
    Ok(links.set_up(device.index, true)?)
}

fn random(out: &mut [u8]) -> Result<(), LineError> {
    netio::random::fill(out).map_err(|source| LineError::System { doing: "asking for random octets", source })
}

/// An interface that can be one end of a line.
fn fit(links: &mut Links, name: &str) -> Result<FrameDevice, LineError> {
    let found = links.list()?.into_iter().find(|link| link.name == name);
    let link = found.ok_or_else(|| LineError::NoInterface(name.to_owned()))?;
    if link.loopback || link.address.len() != 6 {
        return Err(LineError::NotEthernet(link.name));
    }
    if link.master.is_some() {
        return Err(LineError::Enslaved(link.name));
    }
    if let Some(program) = link.xdp {
        return Err(LineError::Xdp(link.name, program));
    }
    Ok(FrameDevice::of(link.index)?)
}
