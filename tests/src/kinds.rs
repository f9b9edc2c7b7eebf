//! Tables of kinds of traffic (docs/design/0005): each row drives one kind with a real program, and passes only if nothing of it
//! was in clear on the wire, something of it was under protection, and it was of that kind.
//!
//! ```text
//! alice: app (client.py KIND) -- rvl0 [Inside] -- engine -- eth0 [the wire's eavesdropper] eth0 -- engine -- rvl0 [Inside] -- app (server.py) :bob
//! ```
//! `app` is a copy of Python that both policies name; `plain` is the system's, which they do not. Alice has a second address
//! of each family ([`second`]). Daemons are debug builds: with `SOCKMON_TEST_OMIT=PROGRAM` in the environment they leave that program
//! of the kernel half out, and a row must fail (`cargo xtask omit`).

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use lab::rig::{Pair, Rig, RigOptions};
use lab::{Capture, CaptureOptions, Program, Running, Side};

use crate::inside::{Inner, Inside};
use crate::sites::sh;
use crate::{PATIENCE, Scratch, binary, copy_of_python, program, try_wait_until};

/// The first port of the server: TCP and UDP; behind it MPTCP, and TCP that is never read.
pub const PORT: u16 = 7100;

const CLIENT: &str = concat!(
    include_str!("../programs/client.py"),
    include_str!("../programs/ring.py"),
    include_str!("../programs/hands.py"),
    include_str!("../programs/main.py")
);
const SERVER: &str = include_str!("../programs/server.py");

/// The family of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The row is about IPv4.
    V4,
    /// The row is about IPv6.
    V6,
}

impl Over {
    /// Both families, IPv4 first.
    pub const BOTH: [Over; 2] = [Over::V4, Over::V6];

    /// A host's first address.
    pub fn address(self, side: Side) -> IpAddr {
        match self {
            Over::V4 => side.v4().into(),
            Over::V6 => side.v6().into(),
        }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Over::V4 { "IPv4" } else { "IPv6" })
    }
}

/// The second address of alice, in that family.
pub fn second(over: Over) -> IpAddr {
    let text = if over == Over::V4 { "198.51.100.11" } else { "2001:db8:51::11" };
    text.parse().expect("an address")
}

/// This kernel cannot do what a row is about; the evidence.
#[derive(Debug)]
pub struct Impossible(pub String);

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Impossible {}

/// Two hosts on which `app` is protected, with everything that a row needs.
pub struct Stage {
    /// The two hosts, with their daemons once these run.
    pub rig: Rig,
    /// The eavesdropper on the wire between the hosts.
    pub wire: Capture,
    /// The TUNs, by side; empty until there are daemons.
    pub inside: Vec<Inside>,
    /// The path of the protected program.
    pub app: PathBuf,
    /// The path of a program that no policy names.
    pub plain: PathBuf,
    script: PathBuf,
    servers: Vec<Running>,
    scratch: Scratch,
}

impl Stage {
    /// Build it, with daemons, keys and servers.
    ///
    /// # Errors
    /// If a part cannot be built.
    pub fn build(name: &str) -> anyhow::Result<Stage> {
        let mut stage = Stage::without_daemons(name)?;
        stage.start_daemons()?;
        let app = stage.app.clone();
        stage.serve(&app, PORT)?;
        Ok(stage)
    }

    /// The same stage as [`Stage::build`] makes, but no daemon runs, and no server.
    ///
    /// # Errors
    /// If a part cannot be built.
    pub fn without_daemons(name: &str) -> anyhow::Result<Stage> {
        let scratch = Scratch::new(name);
        let app = copy_of_python(&scratch, "app");
        let script = scratch.join("client.py");
        std::fs::write(&script, CLIENT)?;
        let options =
            RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
        let rig = Rig::build(&options)?;
        for side in Side::BOTH {
            let more = if side == Side::Alice {
                format!(
                    "ip addr add {}/24 dev eth0; ip -6 addr add {}/64 dev eth0 nodad; ",
                    second(Over::V4),
                    second(Over::V6)
                )
            } else {
                String::new()
            };
            // Ping sockets and fast open are for everybody, both roles.
            let script = format!(
                "{more}ip link set lo up; \
                 sysctl -qw net.ipv4.ping_group_range='0 2147483647' net.ipv4.tcp_fastopen=3 net.ipv4.icmp_ratelimit=0"
            );
            sh(rig.lab.host(side).netns(), &script)?;
            rig.set_policy(side, &policy(&app))?;
        }
        let wire = rig.lab.capture(CaptureOptions { keep: 16 << 20, watch: Vec::new() })?;
        let plain = program("python3");
        Ok(Stage { rig, wire, inside: Vec::new(), app, plain, script, servers: Vec::new(), scratch })
    }

    /// Start both daemons, give them keys, and listen to their TUNs.
    ///
    /// # Errors
    /// If one does not start.
    pub fn start_daemons(&mut self) -> anyhow::Result<()> {
        self.rig.start_both()?;
        self.associate()?;
        self.listen()
    }

    /// Listen to the TUNs as they are now.
    ///
    /// # Errors
    /// If there is none.
    pub fn listen(&mut self) -> anyhow::Result<()> {
        self.inside =
            Side::BOTH.into_iter().map(|side| Inside::listen(&self.rig, side)).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Fresh keys: a tunnel for each family that carries every address of the two hosts.
    ///
    /// # Errors
    /// If a daemon refuses.
    pub fn associate(&self) -> anyhow::Result<()> {
        for (v6, network, suite) in
            [(false, "198.51.100.0/24", "aes128gcm"), (true, "2001:db8:51::/64", "chacha20poly1305")]
        {
            let args = ["--selector-local", network, "--selector-remote", network];
            let args = args.map(str::to_owned).to_vec();
            self.rig.associate(&Pair { v6, mode: "tunnel", suite, alice: args.clone(), bob: args })?;
        }
        Ok(())
    }

    /// Start a server on bob (its ports from `port` on), which is ready.
    ///
    /// # Errors
    /// If it does not start.
    pub fn serve(&mut self, python: &std::path::Path, port: u16) -> anyhow::Result<()> {
        let server = Program::new(python).args(["-c", SERVER, &port.to_string()]);
        let server = self.rig.lab.bob().spawn(server)?;
        server.wait_for_output("ready", PATIENCE)?;
        self.servers.push(server);
        Ok(())
    }

    /// A folder for files of the test.
    pub fn folder(&self) -> &std::path::Path {
        &self.scratch
    }

    /// A client of that kind, run by `python`, with further arguments.
    pub fn client(
        &self,
        python: &std::path::Path,
        kind: &str,
        over: Over,
        port: u16,
        more: &[&str],
    ) -> Program {
        let (peer, own) = (over.address(Side::Bob).to_string(), second(over).to_string());
        Program::new(python)
            .arg(&self.script)
            .args([kind, &peer, &port.to_string(), &own])
            .args(more)
            .env("APP", &self.app)
            .env("PLAIN", &self.plain)
    }

    /// Start the protected client of that kind on alice.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(&self, kind: &str, over: Over) -> anyhow::Result<Running> {
        Ok(self.rig.lab.alice().spawn(self.client(&self.app, kind, over, PORT, &[]))?)
    }

    /// Run it to its end.
    ///
    /// # Errors
    /// If it says anything but `done`; [`Impossible`] if this kernel cannot do it.
    pub fn run(&self, kind: &str, over: Over) -> anyhow::Result<()> {
        finish(self.spawn(kind, over)?)
    }

    /// Run it while bob's packet filter drops what `rule` matches, until alice's TUN has shown what is waited for; then all passes.
    ///
    /// # Errors
    /// As [`Stage::run`], or if that is never seen.
    pub fn lossy(
        &self,
        kind: &str,
        over: Over,
        rule: &str,
        seen: impl Fn(&[Inner]) -> bool,
    ) -> anyhow::Result<()> {
        let bob = self.rig.lab.bob().netns();
        let rule = rule.replace("PORT", &PORT.to_string());
        sh(
            bob,
            &format!(
                "nft 'add table inet rows; add chain inet rows input {{ type filter hook input priority 0; }}; \
                 add rule inet rows input iifname rvl0 {rule} counter drop'"
            ),
        )?;
        let client = self.spawn(kind, over);
        let shown =
            try_wait_until(&format!("{kind} on the TUN"), PATIENCE, || Ok(seen(&self.inside[0].look())));
        let dropped = sh(bob, "nft list table inet rows; nft delete table inet rows")?;
        finish(client?)?;
        shown?;
        ensure!(!dropped.contains("counter packets 0 "), "the filter dropped nothing: {dropped}");
        Ok(())
    }

    /// Wait until a packet on a TUN passes.
    ///
    /// # Errors
    /// If none does.
    pub fn seen(&self, side: Side, what: &str, is: impl Fn(&Inner) -> bool) -> anyhow::Result<()> {
        let inside = self.inside.get(side as usize).context("nobody listens")?;
        let waited = try_wait_until(what, PATIENCE, || Ok(inside.look().iter().any(&is)));
        waited
            .with_context(|| format!("on {}'s TUN, where {} packets were", side.name(), inside.look().len()))
    }

    /// Forget what the wire and the TUNs have shown.
    ///
    /// # Errors
    /// If the capture broke.
    pub fn forget(&self) -> anyhow::Result<()> {
        self.inside.iter().for_each(Inside::forget);
        Ok(self.wire.clear()?)
    }

    /// What is wrong with what the wire showed since [`Stage::forget`]: clear packets (but those of `allowed`), none protected, or
    /// frames that were missed. On a busy machine the eavesdropper reads a frame later than its receiver; it is waited for.
    ///
    /// # Errors
    /// If the capture broke.
    pub fn complaint(&self, allowed: impl Fn(&wire::Flow) -> bool) -> anyhow::Result<Option<String>> {
        let shown =
            try_wait_until("a protected packet", PATIENCE, || Ok(self.wire.look(|wire| wire.esp > 0)?));
        Ok(self.wire.look(|wire| {
            let all = wire.all_clear();
            // Of frames under protection not all are kept; they are judged all the same.
            let unknown = wire.clear - all.len() as u64;
            let clear: Vec<_> =
                all.into_iter().filter(|seen| !seen.flow.as_ref().is_some_and(&allowed)).collect();
            match clear.first() {
                Some(first) => Some(format!("{} CLEAR PACKETS, the first: {first}", clear.len())),
                None if unknown > 0 || !wire.is_complete() => {
                    Some(format!("the eavesdropper lost {} frames, and {unknown} clear ones", wire.lost))
                }
                None => shown.err().map(|_| "nothing was protected".to_owned()),
            }
        })?)
    }
}

/// The policy of both hosts: all that `app` does with the lab's networks.
fn policy(app: &std::path::Path) -> String {
    format!(
        "application \"{}\" {{\n  network 198.51.100.0/24 protected P;\n  network 2001:db8:51::/64 protected P;\n  \
         protection P {{ localport=any remoteport=any encryption mandatory; }}\n}}\n",
        app.display()
    )
}

/// Wait for a client's end.
///
/// # Errors
/// If it did not say `done`; [`Impossible`] if it said that.
pub fn finish(client: Running) -> anyhow::Result<()> {
    let done = client.finish(PATIENCE * 2)?;
    let said = done.out();
    if let Some(why) = said.lines().find_map(|line| line.strip_prefix("impossible: ")) {
        return Err(Impossible(why.to_owned()).into());
    }
    if !said.lines().any(|line| line == "done") {
        let fault = done.err();
        bail!("the client: {said}{}", fault.lines().last().unwrap_or_default());
    }
    Ok(())
}

/// How a row ended.
enum Outcome {
    Protected,
    Impossible(String),
    Failed(String),
}

/// The rows of one theme and what became of them. [`Table::close`] must be called.
pub struct Table {
    theme: &'static str,
    rows: Vec<(String, Outcome)>,
}

impl Table {
    /// A table without rows.
    pub fn new(theme: &'static str) -> Table {
        Table { theme, rows: Vec::new() }
    }

    /// Add a row: `act` does it and shows that it was of its kind; the wire must have shown nothing of it.
    pub fn row(&mut self, stage: &Stage, kind: &str, over: Over, act: impl FnOnce() -> anyhow::Result<()>) {
        self.row_beside(stage, kind, over, |_| false, act);
    }

    /// Add a row like [`Table::row`], where clear packets of the flows in `allowed` belong to programs without policy.
    pub fn row_beside(
        &mut self,
        stage: &Stage,
        kind: &str,
        over: Over,
        allowed: impl Fn(&wire::Flow) -> bool,
        act: impl FnOnce() -> anyhow::Result<()>,
    ) {
        let done = stage.forget().and_then(|()| act());
        self.judge(stage, kind, over, allowed, done);
    }

    /// A row that was done since [`Stage::forget`].
    ///
    /// # Panics
    /// If it failed and `RAVELIN_FIRST_FAILURE` is in the environment.
    pub fn judge(
        &mut self,
        stage: &Stage,
        kind: &str,
        over: Over,
        allowed: impl Fn(&wire::Flow) -> bool,
        done: anyhow::Result<()>,
    ) {
        let name = format!("{kind}, {over}");
        let outcome = match (done, stage.complaint(allowed)) {
            (Err(error), _) if error.is::<Impossible>() => Outcome::Impossible(format!("{error:#}")),
            (done, Ok(Some(complaint))) => Outcome::Failed(format!(
                "{complaint}{}",
                done.err().map(|e| format!("; {e:#}")).unwrap_or_default()
            )),
            (Err(error), _) | (_, Err(error)) => Outcome::Failed(format!("{error:#}")),
            (Ok(()), Ok(None)) => Outcome::Protected,
        };
        let said = match &outcome {
            Outcome::Protected => "protected",
            Outcome::Impossible(_) => "IMPOSSIBLE",
            Outcome::Failed(why) => &format!("FAILED: {why}"),
        };
        println!("{:<10} {name:<44} {said}", self.theme);
        let failed = matches!(outcome, Outcome::Failed(_));
        self.rows.push((name, outcome));
        assert!(!(failed && std::env::var_os("RAVELIN_FIRST_FAILURE").is_some()), "one row failed: enough");
    }

    /// Count the rows, and end the test.
    ///
    /// # Panics
    /// If a row failed.
    pub fn close(self) {
        let failed: Vec<String> = self
            .rows
            .iter()
            .filter_map(|(name, outcome)| match outcome {
                Outcome::Failed(why) => Some(format!("\n  {}: {name}: {why}", self.theme)),
                _ => None,
            })
            .collect();
        for (name, outcome) in &self.rows {
            if let Outcome::Impossible(why) = outcome {
                // The suite counts such lines and shows them in its summary.
                println!("skipped: {}: {name}: this kernel cannot do it: {why}", self.theme);
            }
        }
        println!("{}: {} rows, {} failed", self.theme, self.rows.len(), failed.len());
        assert!(failed.is_empty(), "{} of {} rows failed:{}", failed.len(), self.rows.len(), failed.concat());
    }
}
