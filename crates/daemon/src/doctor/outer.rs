//! What `doctor` says of what a take-over must not find out after it: frames of the uplinks, and the tables of the daemon before.

use api::Check;
use netio::link::Links;

use super::finding::check;
use crate::datapath::frames;
use config::{Config, OuterIo};

/// The check of `[io]`: whether frames of the uplinks can be had; `None`: nobody asks for them.
pub(super) fn io(config: &Config) -> Option<Check> {
    let word = match config.outer {
        OuterIo::Udp => return None,
        OuterIo::Packet => "af_packet",
        OuterIo::Xdp => "af_xdp",
    };
    let found = can_take_frames(config).map(|devices| format!("{word} on {devices}"));
    Some(check("outer packets", found, "change what it says, or use outer = \"udp\" in [io]"))
}

fn can_take_frames(config: &Config) -> Result<String, String> {
    let uplinks = crate::uplinks::choose(config).map_err(|error| error.to_string())?;
    let devices = frames::devices(&uplinks).map_err(|error| error.to_string())?;
    if config.outer == OuterIo::Xdp {
        let links = Links::open().and_then(|mut links| links.list()).map_err(|error| error.to_string())?;
        for device in &devices {
            netio::xdp::check_device(device).map_err(|error| error.to_string())?;
            let attached = links.iter().find(|link| link.index == device.index).and_then(|link| link.xdp);
            // One of ours ends with the daemon before.
            if let Some(number) = attached
                && !sockmon::is_frame_steering(number).map_err(|error| error.to_string())?
            {
                return Err(format!(
                    "{} has an XDP program of somebody else (number {number}); `ip link set {} xdp off` takes it away",
                    device.name, device.name
                ));
            }
        }
    }
    Ok(devices.into_iter().map(|device| device.name).collect::<Vec<_>>().join(", "))
}

/// Whether what is pinned can be taken over.
pub(super) fn pins(config: &Config) -> Check {
    let result = sockmon::check_pins(&config.instance);
    let remedy = result.as_ref().err().map_or_else(String::new, sockmon::SockmonError::remedy);
    let found = result.map(|()| "none, or of this version".to_owned()).map_err(|error| error.to_string());
    check("tables of an earlier daemon", found, &remedy)
}
