//! Gateway mode, as the kernel half and the data threads are to know it ([`crate::gateway`]): spans, inside interfaces, addresses.

use netio::link::Links;

use super::Plane;
use crate::config::GatewayConfig;
use crate::gateway::{Mtus, Surroundings, among, fault, spans};
use crate::refused::{Fault, Refused};
use crate::rules::RuleBook;

impl Plane {
    /// Before rules change: what they would not let pass does not pass any more.
    ///
    /// # Errors
    /// If the kernel half does not take it.
    pub(crate) fn narrow_spans(&self, book: &RuleBook) -> Result<(), Refused> {
        if self.config.gateway.is_none() {
            return Ok(());
        }
        self.monitor.get().narrow_spans(&spans(&book.in_order())).map_err(Refused::from)
    }

    /// After rules changed: what they let pass, passes.
    ///
    /// # Errors
    /// If the kernel half does not take it; the engine decides about the rest.
    pub(crate) fn set_spans(&self) -> Result<(), Refused> {
        if self.config.gateway.is_none() {
            return Ok(());
        }
        let spans = spans(&self.rules.in_order());
        self.monitor.get().set_spans(&spans).map_err(Refused::from)
    }

    /// Both, for rules that the engine has already.
    ///
    /// # Errors
    /// If the kernel half may let more pass than they do.
    pub(crate) fn put_first_spans(&self) -> Result<(), Refused> {
        self.narrow_spans(&self.rules)?;
        if let Err(refused) = self.set_spans() {
            tracing::warn!("what the rules bypass by address alone goes through the engine: {refused}");
        }
        Ok(())
    }

    /// Tell the data threads of addresses and devices that changed.
    pub(crate) async fn follow_surroundings(&mut self) -> Result<(), Refused> {
        let failed = |error: netio::Error| Refused::new(Fault::Failed, error.to_string());
        let now = Surroundings::look(&self.insides).map_err(failed)?;
        let mtus = Mtus::new(self.path_mtu, now.mtu);
        if mtus != self.mtus {
            self.halves.ask_outbound(move |half| half.mtus = mtus).await?;
            self.mtus = mtus;
        }
        if now != self.surroundings {
            self.surroundings = now.clone();
            let own = now.by_interface().clone();
            self.halves.ask_outbound(move |half| half.engine.set_own_addresses(own)).await?;
            let id = netio::random::number().map_err(|e| Refused::new(Fault::Failed, e.to_string()))?;
            self.halves.ask_inbound(move |half| half.cutter.set(now, id)).await?;
        }
        Ok(())
    }

    /// Look after the inside interfaces that there are now; what is wrong.
    pub(crate) fn follow_insides(&mut self) -> Option<String> {
        let gateway = self.config.gateway.as_ref()?;
        let all = match Links::open().and_then(|mut links| links.list()) {
            Ok(all) => all,
            Err(error) => return Some(error.to_string()),
        };
        let there = GatewayConfig {
            inside: gateway.inside.iter().filter(|n| all.iter().any(|l| l.name == **n)).cloned().collect(),
            ..gateway.clone()
        };
        let devices = among(&there, &all).unwrap_or_default();
        if devices != self.insides {
            let indices: Vec<u32> = devices.iter().map(|device| device.index).collect();
            if let Err(error) = self.monitor.get().set_insides(&indices) {
                return Some(format!("{error}; {}", error.remedy()));
            }
            let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
            tracing::info!("inside interfaces: {}", names.join(", "));
            self.insides = devices;
        }
        fault(&self.config, &all)
    }

    /// What keeps this host from being the gateway that it is to be, as it is now.
    pub(crate) fn gateway_fault(&self) -> Option<String> {
        self.config.gateway.as_ref()?;
        match Links::open().and_then(|mut links| links.list()) {
            Ok(all) => fault(&self.config, &all),
            Err(error) => Some(error.to_string()),
        }
    }
}
