//! DEFLATE with state that is used again: tables and output are allocated once, with the first packet.

use super::backoff::Backoff;
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use wire::DropReason;

/// The longest payload that comes out, in octets. There is no other limit: zeros become a thousand times shorter, which
/// is what compression is for, and the longest packet of them is made in some ten microseconds.
const LONGEST: usize = u16::MAX as usize;
/// The compression level of zlib: fast.
const LEVEL: i32 = 1;
/// Raw DEFLATE, no zlib header (RFC 2394 section 2).
const RAW: i32 = -15;

/// What one thread compresses and decompresses with. Costs nothing before its first packet.
#[derive(Default)]
pub struct Codec {
    pub(super) backoff: Backoff,
    tables: Option<Box<Tables>>,
}

struct Tables {
    deflate: CompressorOxide,
    inflate: DecompressorOxide,
    output: Vec<u8>,
}

impl Codec {
    fn tables(&mut self) -> &mut Tables {
        self.tables.get_or_insert_with(|| {
            Box::new(Tables {
                deflate: CompressorOxide::new(create_comp_flags_from_zip_params(LEVEL, RAW, 0)),
                inflate: DecompressorOxide::new(),
                output: vec![0; LONGEST],
            })
        })
    }

    /// The first octets of the last result.
    pub(super) fn output(&self, len: usize) -> &[u8] {
        self.tables.as_ref().and_then(|tables| tables.output.get(..len)).unwrap_or_default()
    }

    /// Compress; `None` if the result would be longer than `limit`.
    pub(super) fn deflate(&mut self, input: &[u8], limit: usize) -> Option<usize> {
        let Tables { deflate, output, .. } = self.tables();
        deflate.reset();
        let output = output.get_mut(..limit)?;
        let (status, taken, len) = compress(deflate, input, output, TDEFLFlush::Finish);
        (status == TDEFLStatus::Done && taken == input.len()).then_some(len)
    }

    /// Decompress a whole payload.
    pub(super) fn inflate(&mut self, input: &[u8], longest: usize) -> Result<usize, DropReason> {
        let limit = longest.min(LONGEST);
        let Tables { inflate, output, .. } = self.tables();
        inflate.init();
        let output = output.get_mut(..limit).ok_or(DropReason::IpCompBomb)?;
        let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, taken, len) = decompress(inflate, input, output, 0, flags);
        match status {
            TINFLStatus::Done if taken == input.len() && len > 0 => Ok(len),
            TINFLStatus::HasMoreOutput => Err(DropReason::IpCompBomb),
            _ => Err(DropReason::IpCompCorrupt),
        }
    }
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Codec")
    }
}
