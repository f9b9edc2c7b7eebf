//! What a packet costs the data thread: 1400 octets, batches of 16, a library in this process and in a worker.
//!
//! `cargo run --release -p cipher-worker --example cost -- MANIFEST...`; `make -C examples/ciphers` builds some. The
//! forms take turns, batch by batch, so that what else the machine does meets all of them alike; the fastest tenth and medians are printed.
//! Then the worker is ended a hundred times, and the time until packets go again is printed.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cipher_loader::{Request, Trial, Trust, examine, load};
use cipher_worker::{Isolated, Settings};
use crypto::custom::CustomCipher;
use crypto::{OpenOp, Provider, SealOp, Secret, SuiteId, Suites, Transform};
use crypto_std::CustomProvider;

/// Octets of a packet.
const LEN: usize = 1408;
/// Packets of a batch.
const BATCH: usize = 16;
/// Batches of each form.
const ROUNDS: usize = 3000;

/// One way to seal, with its next sequence number.
struct Form {
    name: &'static str,
    key: Box<dyn Transform>,
    /// The key of the receiver.
    other: Box<dyn Transform>,
    suite: SuiteId,
    next: u64,
    /// How far the number jumps behind a batch: beyond the ring, no key stream is there.
    jump: u64,
    times: Vec<Duration>,
    /// Opening what was sealed just before.
    opened: Vec<Duration>,
}

impl Form {
    fn new(
        name: &'static str,
        provider: &CustomProvider,
        suite: SuiteId,
        jump: u64,
    ) -> Result<Form, Box<dyn Error>> {
        let keymat = (0..suite.keymat_len()).map(|at| (at * 7 + 3) as u8).collect();
        let keymat = Secret::new(keymat);
        let key = provider.transform(suite, &keymat, false)?;
        let other = provider.transform(suite, &keymat, false)?;
        Ok(Form { name, key, suite, next: 1, jump, times: Vec::new(), opened: Vec::new(), other })
    }

    /// Whether a batch of one packet is sealed.
    fn goes(&mut self) -> bool {
        let (mut data, mut iv, mut icv) = ([0x5a; LEN], [0; 16], [0; 32]);
        let op = SealOp {
            sequence: self.next,
            header: &[0; 8],
            iv: &mut iv[..self.suite.iv_len()],
            data: &mut data,
            icv: &mut icv[..self.suite.icv_len()],
        };
        self.next += 1;
        self.key.seal(op).is_ok()
    }

    fn batch(&mut self) {
        let header = [0; 8];
        let mut data = [[0x5a; LEN]; BATCH];
        let mut ivs = [[0; 16]; BATCH];
        let mut icvs = [[0; 32]; BATCH];
        let parts = data.iter_mut().zip(&mut ivs).zip(&mut icvs);
        let (iv_len, icv_len) = (self.suite.iv_len(), self.suite.icv_len());
        let mut ops: Vec<SealOp<'_>> = parts
            .zip(self.next..)
            .map(|(((data, iv), icv), sequence)| SealOp {
                sequence,
                header: &header,
                iv: &mut iv[..iv_len],
                data,
                icv: &mut icv[..icv_len],
            })
            .collect();
        let begin = Instant::now();
        // Where others have the processors a worker is late now and then. The report says how often.
        match self.key.seal_batch(&mut ops) {
            Ok(()) => self.times.push(begin.elapsed()),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
        drop(ops);
        let parts = data.iter_mut().zip(&ivs).zip(&icvs).zip(self.next..);
        let mut ops: Vec<OpenOp<'_>> = parts
            .map(|(((data, iv), icv), sequence)| OpenOp {
                sequence,
                header: &header,
                iv: &iv[..iv_len],
                data,
                icv: &icv[..icv_len],
                ok: false,
            })
            .collect();
        let begin = Instant::now();
        if self.other.open_batch(&mut ops).is_ok() && ops.iter().all(|op| op.ok) {
            self.opened.push(begin.elapsed());
        }
        self.next += BATCH as u64 + self.jump;
    }

    /// Nanoseconds a packet: the tenth part of the batches that is fastest, and the median.
    fn figures(&mut self) -> [f64; 4] {
        let of = |times: &mut Vec<Duration>| {
            times.sort_unstable();
            [10, 2].map(|part| {
                let at = times.get(times.len() / part).copied().unwrap_or_default();
                at.as_nanos() as f64 / BATCH as f64
            })
        };
        let ([a, b], [c, d]) = (of(&mut self.times), of(&mut self.opened));
        [a, b, c, d]
    }
}

fn provider(cipher: Arc<dyn CustomCipher>) -> Result<(CustomProvider, Suites), Box<dyn Error>> {
    let mut suites = Suites::standard();
    suites.register(cipher.description(), 61_000, true)?;
    Ok((CustomProvider::new(cipher, &suites)?, suites))
}

fn measure(manifest: &Path) -> Result<(), Box<dyn Error>> {
    let own = |word: &str| Trial::own([word]);
    let request =
        Request { manifest: manifest.to_owned(), sha256: None, trust: Trust::Caller, trial: own("trial") };
    let loaded = load(&request)?;
    let examined = examine(manifest, None, Trust::Caller)?;
    let worker = Arc::new(Isolated::start(&own("worker"), &examined, Settings::default(), |event| {
        eprintln!("{event:?}");
    })?);
    let (here, suites) = provider(loaded.cipher)?;
    let (there, _) = provider(worker.clone())?;
    let name = &worker.description().name;
    for mode in ["ctr-sha256", "-sha256", "cbc-sha256", ""] {
        let Ok(suite) = suites.find(&format!("{name}{mode}")) else { continue };
        let ahead = matches!(mode, "ctr-sha256" | "-sha256");
        let mut forms = vec![Form::new("in process", &here, suite, 0)?];
        if ahead {
            forms.push(Form::new("ahead", &there, suite, 0)?);
        }
        forms.push(Form::new("call", &there, suite, 10_000)?);
        let before = worker.report();
        for _ in 0..ROUNDS {
            for form in &mut forms {
                form.batch();
            }
        }
        let report = worker.report();
        println!("{suite}, {LEN} octets, batches of {BATCH}, ns a packet:");
        let base = forms.first_mut().map_or([0.0; 4], Form::figures);
        for form in &mut forms {
            print!("  {:<12}", form.name);
            for (name, (figure, base)) in
                ["sealed: fastest tenth", "median", "opened: fastest tenth", "median"]
                    .iter()
                    .zip(form.figures().iter().zip(base))
            {
                print!("{name} {figure:>6.0} {:>5.2} {:>+6.0}  ", figure / base, figure - base);
            }
            println!();
        }
        for form in forms.iter_mut().skip(1) {
            let [_, median, ..] = form.figures();
            match form.name {
                "ahead" => println!("figure worker.{suite}.ahead.ratio {:.3} ratio", median / base[1]),
                name => println!("figure worker.{suite}.{name}.ns {:.0} ns", median - base[1]),
            }
        }
        let (ahead, called) = (report.ahead - before.ahead, report.called - before.called);
        println!("  of the worker's packets {ahead} were ahead, {called} by key stream called; {report:?}");
    }
    Ok(())
}

/// The time until packets go again behind the end of a worker.
fn recovery(manifest: &Path) -> Result<(), Box<dyn Error>> {
    const KILLS: usize = 100;
    let examined = examine(manifest, None, Trust::Caller)?;
    // Each counts as one that works at once, so that the pause is always the shortest, as for one that failed by chance.
    let settings = Settings { settled: Duration::ZERO, ..Settings::default() };
    let worker = Arc::new(Isolated::start(&Trial::own(["worker"]), &examined, settings, |_| ())?);
    let (there, suites) = provider(worker.clone())?;
    let suite = suites.all().find(|suite| suite.custom().is_some()).ok_or("the cipher makes no suite")?;
    let mut form = Form::new("recovery", &there, suite, 0)?;
    let mut times = Vec::new();
    for _ in 0..KILLS {
        while !form.goes() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let pid = worker.report().pid;
        let process = pid.and_then(|pid| rustix::process::Pid::from_raw(pid.try_into().ok()?));
        rustix::process::kill_process(process.ok_or("no process")?, rustix::process::Signal::KILL)?;
        let begin = Instant::now();
        while worker.report().pid == pid || !form.goes() {
            std::thread::sleep(Duration::from_micros(200));
        }
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    let median = times.get(KILLS / 2).copied().unwrap_or_default();
    let most = times.last().copied().unwrap_or_default();
    println!("{KILLS} kills: packets went again after {median:?} (median), {most:?} (most)");
    println!("figure worker.recovery.ms {:.2} ms", median.as_secs_f64() * 1e3);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    match arguments.peek().and_then(|word| word.to_str()) {
        Some("trial") => cipher_loader::trial::child_main(),
        Some("worker") => cipher_worker::child_main(),
        Some(_) => arguments.try_for_each(|manifest| {
            measure(Path::new(&manifest))?;
            recovery(Path::new(&manifest))
        }),
        None => Err("give manifests of ciphers; `make -C examples/ciphers` builds some".into()),
    }
}
