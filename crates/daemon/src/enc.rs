//! The enc device as the daemon holds it: there while the daemon runs, fed only while somebody listens to it, for a copy of
//! each packet costs time.

use netio::enc::EncDevice;

use crate::monitor::Monitor;

/// The enc device; looked after once a second.
#[derive(Debug)]
pub struct Enc {
    /// The name of the device; `None`: none is wanted.
    name: Option<String>,
    device: Option<EncDevice>,
    /// Whether the kernel half copies packets to the device.
    fed: bool,
    /// The fault that was last logged, so that it is logged once.
    said: String,
}

impl Enc {
    /// An enc device that is made under this name, if any, at the first look.
    pub fn new(name: Option<String>) -> Enc {
        Enc { name, device: None, fed: false, said: String::new() }
    }

    /// Make the device if it is missing (the daemon before us may have had it a moment ago), and have the kernel half copy
    /// packets to it while somebody listens.
    pub(crate) fn look(&mut self, monitor: &Monitor) {
        if let Err(fault) = self.try_look(monitor)
            && self.said != fault
        {
            tracing::warn!("protected packets cannot be shown in clear: {fault}");
            self.said = fault;
        }
    }

    fn try_look(&mut self, monitor: &Monitor) -> Result<(), String> {
        let Some(name) = &self.name else { return Ok(()) };
        let device = match &mut self.device {
            Some(device) => device,
            none => none.insert(EncDevice::open(name).map_err(|error| error.to_string())?),
        };
        let wanted = device.has_listener().map_err(|error| error.to_string())?;
        if wanted != self.fed {
            let index = if wanted { device.index() } else { 0 };
            monitor.get().set_enc(index).map_err(|error| error.to_string())?;
            self.fed = wanted;
            tracing::info!(
                "{name} {} protected packets in clear",
                if wanted { "shows" } else { "no longer shows" }
            );
        }
        Ok(())
    }
}
