//! The daemon's own questions for names. They leave in clear, as the daemon's sockets are exempt from policy: a name is
//! no better than the answer.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, SystemTime};

use hickory_proto::rr::{Name, RecordType};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use super::answer::addresses;
use super::book::Reply;

/// What says which servers to ask, unless the configuration does.
const SYSTEM: &str = "/etc/resolv.conf";
/// What counts before any server, as it does for programs.
const HOSTS: &str = "/etc/hosts";

/// When the files were written.
type Written = [Option<SystemTime>; 2];

/// What a name's questions came to, for IPv4 and IPv6.
#[derive(Debug)]
pub struct ResolvedName {
    /// The name that was asked for.
    pub name: String,
    /// What the question for IPv4 addresses came to.
    pub v4: Reply,
    /// What the question for IPv6 addresses came to.
    pub v6: Reply,
}

/// Who asks: a thread of its own, started with the first question. What parses a stranger's answers has no capability.
pub struct Asker {
    questions: Option<Sender<String>>,
    servers: Vec<SocketAddr>,
    patience: Duration,
    told: Sender<ResolvedName>,
}

/// Questions that may wait for the thread; whoever asks more waits too.
const ROOM: usize = 64;

impl Asker {
    /// One that asks these servers, or those of the system where there are none, and waits so long for each answer.
    pub fn new(servers: &[SocketAddr], patience: Duration, told: Sender<ResolvedName>) -> Asker {
        Asker { questions: None, servers: servers.to_vec(), patience, told }
    }

    /// How long an answer is waited for.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Ask for both families; what comes of it is sent on.
    pub fn ask(&mut self, name: String) {
        let questions = match self.questions.take().filter(|questions| !questions.is_closed()) {
            Some(questions) => Ok(questions),
            None => self.start(),
        };
        match questions {
            Ok(questions) => {
                self.questions = Some(questions.clone());
                tokio::spawn(async move {
                    // The thread ends with the daemon.
                    let _ = questions.send(name).await;
                });
            }
            Err(error) => {
                let failed = Reply::Failed(format!("no thread to ask: {error}"));
                let told = self.told.clone();
                tokio::spawn(async move {
                    let _ = told.send(ResolvedName { name, v4: failed.clone(), v6: failed }).await;
                });
            }
        }
    }

    fn start(&self) -> std::io::Result<Sender<String>> {
        let (questions, asked) = channel(ROOM);
        let resolver = Resolver {
            servers: self.servers.clone(),
            patience: self.patience,
            told: self.told.clone(),
            resolver: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            control::privileges::give_up_all();
            runtime.block_on(resolver.serve(asked));
        };
        std::thread::Builder::new().name("rvl-names".to_owned()).spawn(run)?;
        Ok(questions)
    }
}

/// The state of the thread that asks.
struct Resolver {
    servers: Vec<SocketAddr>,
    patience: Duration,
    told: Sender<ResolvedName>,
    /// With the times of the system's files, so that a change is seen.
    resolver: Option<(Written, TokioResolver)>,
}

impl Resolver {
    /// Until nobody can ask any more.
    async fn serve(mut self, mut asked: Receiver<String>) {
        while let Some(name) = asked.recv().await {
            self.ask(name);
        }
    }

    fn ask(&mut self, name: String) {
        let resolver = self.resolver();
        let (patience, told) = (self.patience, self.told.clone());
        tokio::spawn(async move {
            let (v4, v6) = match (resolver, Name::from_ascii(format!("{name}."))) {
                (Ok(resolver), Ok(asked)) => tokio::join!(
                    question(&resolver, &asked, RecordType::A, patience),
                    question(&resolver, &asked, RecordType::AAAA, patience)
                ),
                (Err(text), _) => (Reply::Failed(text.clone()), Reply::Failed(text)),
                (_, Err(error)) => {
                    let text = error.to_string();
                    (Reply::Failed(text.clone()), Reply::Failed(text))
                }
            };
            // Nobody listens any more at the end of the daemon.
            let _ = told.send(ResolvedName { name, v4, v6 }).await;
        });
    }

    fn resolver(&mut self) -> Result<TokioResolver, String> {
        let written = |path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let changed = [written(SYSTEM), written(HOSTS)];
        if let Some((of, resolver)) = &self.resolver
            && *of == changed
        {
            return Ok(resolver.clone());
        }
        let resolver = build(&self.servers, self.patience)?;
        self.resolver = Some((changed, resolver.clone()));
        Ok(resolver)
    }
}

/// The servers that the system names.
pub fn system_servers() -> Result<Vec<IpAddr>, String> {
    let (config, _) = hickory_resolver::system_conf::read_system_conf()
        .map_err(|error| format!("{}: {error}", Path::new(SYSTEM).display()))?;
    Ok(config.name_servers().iter().map(|server| server.ip).collect())
}

fn build(servers: &[SocketAddr], patience: Duration) -> Result<TokioResolver, String> {
    let fail = |error: NetError| format!("no resolver: {error}; name servers in [names] resolvers");
    let mut builder = if servers.is_empty() {
        TokioResolver::builder_tokio().map_err(fail)?
    } else {
        let server = |at: &SocketAddr| {
            let via = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            let via = via.map(|mut connection| {
                connection.port = at.port();
                connection
            });
            NameServerConfig::new(at.ip(), true, via.to_vec())
        };
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect());
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let options = builder.options_mut();
    // The book remembers; an answer that somebody else asked for is not wanted.
    options.cache_size = 0;
    options.timeout = patience / 2;
    options.attempts = 1;
    options.edns0 = true;
    builder.build().map_err(fail)
}

async fn question(resolver: &TokioResolver, name: &Name, kind: RecordType, patience: Duration) -> Reply {
    match timeout(patience, resolver.lookup(name.clone(), kind)).await {
        Ok(Ok(lookup)) => {
            let mut found = addresses(name, lookup.answers());
            found.retain(|(addr, _)| addr.is_ipv4() == (kind == RecordType::A));
            if found.is_empty() { Reply::Nothing } else { Reply::Addresses(found) }
        }
        Ok(Err(NetError::Dns(DnsError::NoRecordsFound(none)))) if is_an_answer(none.response_code) => {
            Reply::Nothing
        }
        Ok(Err(error)) => Reply::Failed(error.to_string()),
        Err(_) => Reply::Failed(format!("no answer within {} s", patience.as_secs_f32())),
    }
}

fn is_an_answer(code: hickory_proto::op::ResponseCode) -> bool {
    use hickory_proto::op::ResponseCode::{NXDomain, NoError};
    matches!(code, NXDomain | NoError)
}
