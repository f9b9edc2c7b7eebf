//! The last step of an outer packet: what the path does not carry leaves in fragments, as the daemon's raw sockets send it, or
//! not at all.

use api::{ReplayLine, ReplayVerdict};
use sadb::Spi;
use wire::ip::{self, Headers};
use wire::ipv4::Ipv4;
use wire::stage::Outer;
use wire::{DropReason, Packet, fragment};

use super::Replay;
use super::error::{ReplayError, Write};

impl Replay {
    /// A protected packet for the output. `original`: the packet of the capture that it was made of.
    pub(super) fn send(
        &mut self,
        packet: Packet<Outer>,
        original: (&[u8], Option<&Headers>),
        line: &mut ReplayLine,
        write: &mut Write<'_>,
    ) -> Result<(), ReplayError> {
        let (meta, bytes) = (packet.meta, packet.bytes());
        let Ok(headers) = Headers::parse(bytes) else {
            return self.written(line, ReplayVerdict::Protect, &meta, bytes, write);
        };
        let last = ip::final_destination(bytes, &headers).unwrap_or(headers.dst);
        let path = self.outbound.path_mtu(Spi(meta.spi), last).map_or(usize::MAX, usize::from);
        if bytes.len() <= path {
            self.written(line, ReplayVerdict::Protect, &meta, bytes, write)?;
        } else if !meta.may_fragment {
            let spi = Some(Spi(meta.spi));
            if let (whole, Some(inner)) = original {
                let mtu = whole.len().saturating_sub(bytes.len() - path);
                if let Some(error) = self.outbound.too_big(&meta, whole, inner, mtu) {
                    self.written(line, ReplayVerdict::Reply, &meta, error.as_slice(), write)?;
                }
            }
            self.refused_in_part(line, DropReason::TooBig, spi);
        } else {
            self.cut(&packet, &headers, path, line, write)?;
        }
        self.pool.put(packet.into_buf());
        Ok(())
    }

    fn cut(
        &mut self,
        packet: &Packet<Outer>,
        headers: &Headers,
        path: usize,
        line: &mut ReplayLine,
        write: &mut Write<'_>,
    ) -> Result<(), ReplayError> {
        let bytes = packet.bytes();
        let id = match Ipv4::new_checked(bytes) {
            Ok(view) if headers.version == 4 => view.id().into(),
            _ => {
                self.next_id = self.next_id.wrapping_add(1);
                self.next_id
            }
        };
        let mut pieces = match fragment::fragments(bytes, headers, id, path) {
            Ok(pieces) => pieces,
            Err(error) => {
                self.refused_in_part(line, error.into(), Some(Spi(packet.meta.spi)));
                return Ok(());
            }
        };
        let mut piece = self.pool.take();
        loop {
            piece.reset(engine::HEADROOM);
            match pieces.next_into(&mut piece) {
                None => break,
                Some(Ok(())) => {
                    self.written(line, ReplayVerdict::Protect, &packet.meta, piece.as_slice(), write)?;
                }
                Some(Err(error)) => {
                    self.refused_in_part(line, error.into(), Some(Spi(packet.meta.spi)));
                    break;
                }
            }
        }
        self.pool.put(piece);
        Ok(())
    }
}
