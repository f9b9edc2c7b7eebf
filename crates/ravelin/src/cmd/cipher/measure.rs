//! `ravelin cipher bench`: what a cipher costs on this machine.

use std::ffi::OsString;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use api::{CipherLength, CipherMeasured, CipherMix};
use cipher_loader::{Request, Trial, Trust};
use clap::Args;
use crypto::custom::{AeadOp, CtrOp, CustomCipher, CustomKey, NONCE_LEN, StreamOp};
use crypto::{OpenOp, Provider, SealOp, Secret, SuiteId, Suites, Transform};
use crypto_std::CustomProvider;

use crate::exit::{Failure, Kind};
use crate::output;

/// Measure a cipher: a key, and packets of 64 to 8192 octets, the cipher alone and whole packets of a suite.
///
/// Each figure is the median of seven turns; what else runs on the machine is in it.
#[derive(Debug, Args)]
pub struct Bench {
    /// The manifest of the cipher, or `maes512` for the one that is compiled in.
    manifest: PathBuf,
    /// The suite whose packets are measured [default: counter mode, key stream or combined mode with SHA2-256].
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,
    /// A capture whose packets' lengths are the mix of a gateway.
    #[arg(long, value_name = "CAPTURE")]
    mix: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

const LENGTHS: [usize; 6] = [64, 256, 576, 1400, 4096, 8192];
/// Packets of a batch, as in the daemon.
const BATCH: usize = 16;
const TURNS: usize = 7;
/// Octets that a turn works on, about.
const OCTETS: usize = 2_000_000;

impl Bench {
    pub fn execute(self) -> anyhow::Result<()> {
        let (cipher, transform_id, isolation) = cipher(&self.manifest)?;
        let mut suites = Suites::standard();
        let registered = suites.register(cipher.description(), transform_id, true);
        registered.map_err(|error| Failure::bad_input(error.to_string()))?;
        let suite = match &self.suite {
            Some(name) => suites.find(name).map_err(|error| Failure::bad_input(error.to_string()))?,
            None => usual(&suites).ok_or_else(|| Failure::bad_input("the cipher makes no suite"))?,
        };
        let failed = |error: String| Failure::of(Kind::Failed, error);
        let provider =
            CustomProvider::new(Arc::clone(&cipher), &suites).map_err(|error| failed(error.to_string()))?;
        let keymat = Secret::new((0..suite.keymat_len()).map(|octet| octet as u8 ^ 0x5a).collect());
        let key = || provider.transform(suite, &keymat, false).map_err(|error| failed(error.to_string()));
        let transform = key()?;
        let secret: Vec<u8> = (0..cipher.description().key_len).map(|octet| octet as u8 ^ 0x5a).collect();
        let bare = cipher.set_key(&secret).map_err(|error| failed(error.to_string()))?;
        let mut lengths = Vec::new();
        for octets in LENGTHS {
            lengths.push(CipherLength {
                octets,
                cipher_ns: alone(&bare, octets),
                seal_ns: seal(transform.as_ref(), suite, octets),
                open_ns: open(transform.as_ref(), suite, octets),
            });
        }
        let measured = CipherMeasured {
            cipher: cipher.description().name.clone(),
            suite: suite.to_string(),
            isolation: isolation.to_owned(),
            setkey_ns: median(|| time(64, || drop(black_box(key())))),
            mix: self.mix.as_deref().map(|capture| mix(capture, &lengths)).transpose()?,
            lengths,
        };
        if self.json { output::json(&measured) } else { output::text(&text(&measured)) }
    }
}

/// A cipher, the first of its transform ids, and where its code runs.
fn cipher(manifest: &Path) -> anyhow::Result<(Arc<dyn CustomCipher>, u16, &'static str)> {
    if manifest == Path::new(crypto_maes::Maes512::NAME) {
        return Ok((Arc::new(crypto_maes::Maes512::new()), crypto_maes::TRANSFORM_ID, "compiled in"));
    }
    let request = Request {
        manifest: manifest.to_owned(),
        sha256: None,
        trust: Trust::Caller,
        trial: Trial::own([OsString::from(documents::ciphers::TRIAL_COMMAND)]),
    };
    let loaded = cipher_loader::load(&request)
        .map_err(|error| Failure::bad_input(format!("{error}; {}", error.remedy())))?;
    Ok((loaded.cipher, loaded.manifest.transform_id, "in process"))
}

/// The suite that is measured unless another one is asked for.
fn usual(suites: &Suites) -> Option<SuiteId> {
    let own = || suites.all().filter(|suite| suite.custom().is_some());
    let name = |suite: &SuiteId| suite.to_string();
    own().find(|suite| name(suite).ends_with("-sha256")).or_else(|| own().next())
}

/// Nanoseconds of a call, in turns.
fn median(mut turn: impl FnMut() -> f64) -> f64 {
    let mut turns: Vec<f64> = (0..TURNS).map(|_| turn()).collect();
    turns.sort_by(f64::total_cmp);
    turns.get(TURNS / 2).copied().unwrap_or_default()
}

/// Nanoseconds of one of `count` calls.
fn time(count: usize, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..count).for_each(|_| call());
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Batches of a turn with packets of this length.
fn batches(octets: usize) -> usize {
    (OCTETS / (octets + 200) / BATCH).max(1)
}

/// Nanoseconds of the cipher alone for a packet.
fn alone(key: &CustomKey, octets: usize) -> f64 {
    let mut data = vec![vec![0; octets]; BATCH];
    let nonce = [7; NONCE_LEN];
    let mut call = || {
        // A failure of a unit would be seen in its packets, which are measured beside this.
        let _ = match key {
            CustomKey::Block(key) => {
                let mut ops: Vec<_> = data.iter_mut().map(|data| CtrOp { counter: [1; 16], data }).collect();
                key.ctr_xor_batch(&mut ops)
            }
            CustomKey::Stream(key) => {
                let mut ops: Vec<_> =
                    data.iter_mut().map(|data| StreamOp { nonce: &nonce, offset: 0, data }).collect();
                key.xor_batch(&mut ops)
            }
            CustomKey::Aead(key) => {
                let mut tags = [[0; 16]; BATCH];
                let mut ops: Vec<_> = data
                    .iter_mut()
                    .zip(&mut tags)
                    .map(|(data, tag)| AeadOp { nonce: &nonce, aad: &nonce, data, tag, ok: false })
                    .collect();
                key.seal_batch(&mut ops)
            }
        };
    };
    median(|| time(batches(octets), &mut call) / BATCH as f64)
}

/// The parts of a batch of packets.
struct Packets {
    headers: Vec<[u8; 8]>,
    ivs: Vec<Vec<u8>>,
    data: Vec<Vec<u8>>,
    icvs: Vec<Vec<u8>>,
}

impl Packets {
    fn new(suite: SuiteId, octets: usize) -> Packets {
        let octets = octets.next_multiple_of(suite.block_len());
        Packets {
            headers: vec![[0; 8]; BATCH],
            ivs: vec![vec![0; suite.iv_len()]; BATCH],
            data: vec![vec![0; octets]; BATCH],
            icvs: vec![vec![0; suite.icv_len()]; BATCH],
        }
    }

    /// Seal them under numbers from `first` on.
    fn seal(&mut self, key: &dyn Transform, first: u64) {
        let parts = self.headers.iter().zip(&mut self.ivs).zip(&mut self.data).zip(&mut self.icvs);
        let mut ops: Vec<SealOp<'_>> = (first..)
            .zip(parts)
            .map(|(sequence, (((header, iv), data), icv))| SealOp { sequence, header, iv, data, icv })
            .collect();
        let _ = key.seal_batch(&mut ops);
    }
}

fn seal(key: &dyn Transform, suite: SuiteId, octets: usize) -> f64 {
    let mut packets = Packets::new(suite, octets);
    let mut sequence = 1;
    let call = || {
        packets.seal(key, sequence);
        sequence += BATCH as u64;
    };
    let mut call = call;
    median(|| time(batches(octets), &mut call) / BATCH as f64)
}

fn open(key: &dyn Transform, suite: SuiteId, octets: usize) -> f64 {
    let mut packets = Packets::new(suite, octets);
    packets.seal(key, 1);
    let mut call = || {
        // What is opened is no ciphertext any more, and must be that again.
        let mut data = packets.data.clone();
        let parts = packets.headers.iter().zip(&packets.ivs).zip(&mut data).zip(&packets.icvs);
        let mut ops: Vec<OpenOp<'_>> = (1..)
            .zip(parts)
            .map(|(sequence, (((header, iv), data), icv))| OpenOp {
                sequence,
                header,
                iv,
                data,
                icv,
                ok: false,
            })
            .collect();
        let _ = key.open_batch(&mut ops);
        assert!(ops.iter().all(|op| op.ok));
    };
    let copy = median(|| time(batches(octets), || drop(black_box(packets_copy(suite, octets)))));
    let whole = median(|| time(batches(octets), &mut call));
    (whole - copy).max(0.0) / BATCH as f64
}

/// The copy that each turn of [`open`] makes.
fn packets_copy(suite: SuiteId, octets: usize) -> Vec<Vec<u8>> {
    vec![vec![0; octets.next_multiple_of(suite.block_len())]; BATCH].clone()
}

/// What a processor carries of the packets in a capture: between two measured lengths, costs grow in proportion.
fn mix(capture: &Path, lengths: &[CipherLength]) -> anyhow::Result<CipherMix> {
    let bad = |error: netio::Error| Failure::bad_input(format!("{}: {error}", capture.display()));
    let mut reader = netio::pcap::Reader::open(capture).map_err(bad)?;
    let (mut packets, mut octets, mut seal, mut open) = (0_u64, 0.0, 0.0, 0.0);
    while let Some(frame) = reader.next_frame().map_err(bad)? {
        let len = f64::from(frame.original_len);
        packets += 1;
        octets += len;
        seal += cost(lengths, len, |length| length.seal_ns);
        open += cost(lengths, len, |length| length.open_ns);
    }
    if packets == 0 {
        return Err(Failure::bad_input(format!("{}: there is no packet in it", capture.display())));
    }
    Ok(CipherMix {
        capture: capture.display().to_string(),
        packets,
        mean_octets: octets / packets as f64,
        seal_gbit: octets * 8.0 / seal,
        open_gbit: octets * 8.0 / open,
    })
}

/// Nanoseconds of a packet of this length, from those of the measured lengths around it.
fn cost(lengths: &[CipherLength], len: f64, of: impl Fn(&CipherLength) -> f64) -> f64 {
    let pairs = lengths.windows(2);
    let around = pairs.clone().find(|pair| len <= pair[1].octets as f64).or_else(|| pairs.last());
    let Some([low, high]) = around else { return 0.0 };
    let slope = (of(high) - of(low)) / (high.octets - low.octets) as f64;
    (of(low) + slope * (len - low.octets as f64)).max(1.0)
}

fn text(measured: &CipherMeasured) -> String {
    let rows: Vec<Vec<String>> = measured
        .lengths
        .iter()
        .map(|length| {
            let gbit = |ns: f64| format!("{:.2}", length.octets as f64 * 8.0 / ns);
            vec![
                length.octets.to_string(),
                format!("{:.0}", length.cipher_ns),
                format!("{:.0}", length.seal_ns),
                format!("{:.0}", length.open_ns),
                gbit(length.seal_ns),
                gbit(length.open_ns),
            ]
        })
        .collect();
    let head = ["OCTETS", "CIPHER NS", "SEAL NS", "OPEN NS", "SEAL GBIT/S", "OPEN GBIT/S"];
    let mut out = format!(
        "{} ({}), suite {}; setkey {:.0} ns; one processor, batches of {BATCH}\n{}",
        measured.cipher,
        measured.isolation,
        measured.suite,
        measured.setkey_ns,
        output::table(&head, &rows)
    );
    if let Some(mix) = &measured.mix {
        out.push_str(&format!(
            "{}: {} packets of {:.0} octets on average: one processor seals {:.2} Gbit/s and opens {:.2} Gbit/s\n",
            mix.capture, mix.packets, mix.mean_octets, mix.seal_gbit, mix.open_gbit
        ));
    }
    out
}
