//! The client of the control API: one request over the daemon's Unix socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::schema::Document;
use api::{CaptureRequest, Refusal, VERSION, Versioned, path};
use clap::Args;
use clap_complete::ArgValueCandidates;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use zeroize::Zeroizing;

use crate::complete;
use crate::exit::{Failure, Kind};
use crate::output;

/// The longest answer that is read.
const MAX_ANSWER: usize = 64 << 20;
/// How long a daemon may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// Which daemon to ask.
#[derive(Clone, Debug, Args)]
pub struct Connect {
    /// The instance of the daemon that is asked.
    #[arg(long, value_name = "NAME", default_value = config::INSTANCE, value_parser = instance,
        add = ArgValueCandidates::new(complete::instances))]
    pub instance: String,
    /// The daemon's control socket [default: /run/ravelin/INSTANCE/control.sock].
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// Which daemon to ask, and how to show its answer.
#[derive(Clone, Debug, Args)]
pub struct Ask {
    #[command(flatten)]
    pub connect: Connect,
    /// Print JSON, for programs.
    #[arg(long)]
    pub json: bool,
}

impl Ask {
    /// Show a document, or what people read of it.
    pub fn show<T: Document>(&self, document: &T, text: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
        if self.json { output::json(document) } else { output::text(&text(document)) }
    }
}

/// An instance's name, as an argument.
pub fn instance(name: &str) -> Result<String, String> {
    if config::instance_is_valid(name) {
        return Ok(name.to_owned());
    }
    Err("an instance's name has 1 to 32 letters, digits, `-` or `_`, not starting with `-`".to_owned())
}

impl Connect {
    /// The path of the socket where the daemon listens.
    pub fn socket(&self) -> PathBuf {
        self.control.clone().unwrap_or_else(|| config::default_control_socket(&self.instance))
    }

    /// GET a document from the daemon.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.call(Method::GET, path, Bytes::new())
    }

    /// GET a document from a daemon that is given this long.
    pub fn get_within<T: DeserializeOwned>(&self, path: &str, patience: Duration) -> anyhow::Result<T> {
        self.call_within(Method::GET, path, Bytes::new(), patience)
    }

    /// GET a document for somebody who goes on without it: no daemon, no right, no time are all the same.
    pub fn get_quietly<T: DeserializeOwned>(&self, path: &str, patience: Duration) -> Option<T> {
        let socket = self.socket();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let answered = async {
            let stream = UnixStream::connect(&socket).await.ok()?;
            let sent = send_over(stream, &socket, Method::GET, path, Bytes::new()).await.ok()?;
            let (status, bytes) = whole(sent, &socket).await.ok()?;
            decode(status, &bytes, &socket).ok()
        };
        runtime.block_on(async { tokio::time::timeout(patience, answered).await.ok().flatten() })
    }

    /// POST a document that holds no secret.
    pub fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> anyhow::Result<T> {
        self.call(Method::POST, path, serde_json::to_vec(body)?.into())
    }

    /// PATCH with a document.
    pub fn patch<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> anyhow::Result<T> {
        self.call(Method::PATCH, path, serde_json::to_vec(body)?.into())
    }

    /// POST a document with a secret; its octets are wiped when the request has been sent.
    pub fn post_secret<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: B) -> anyhow::Result<T> {
        // Room enough from the start: a vector that grows leaves copies of the key behind.
        let mut octets = Zeroizing::new(Vec::with_capacity(16 << 10));
        serde_json::to_writer(&mut *octets, &body)?;
        drop(body);
        self.call(Method::POST, path, Bytes::from_owner(octets))
    }

    /// GET octets that are no document, into memory that is wiped.
    pub fn get_secret(&self, path: &str) -> anyhow::Result<Zeroizing<Vec<u8>>> {
        let mut octets = Zeroizing::new(Vec::with_capacity(1 << 20));
        self.receive(Method::GET, path, Bytes::new(), &mut |chunk| {
            if octets.len() + chunk.len() > octets.capacity() {
                let mut longer = Zeroizing::new(Vec::with_capacity(2 * octets.capacity() + chunk.len()));
                longer.extend_from_slice(&octets);
                octets = longer;
            }
            octets.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(octets)
    }

    /// The octets of an answer that is no document, as they come; a refusal is an error.
    fn receive(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let socket = self.socket();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let response = accepted(send(&socket, method, path, body).await?, &socket).await?;
            let mut body = response.into_body();
            while let Some(frame) = body.frame().await {
                if let Ok(data) = frame.map_err(|error| broke_off(&socket, &error))?.into_data() {
                    take(&data)?;
                }
            }
            Ok(())
        })
    }

    /// Run a capture: its octets go to `take` as they come. SIGINT or SIGTERM have the daemon end it, and what comes until then
    /// is still taken. Its number.
    pub fn capture(
        &self,
        request: &CaptureRequest,
        take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let socket = self.socket();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            let body = serde_json::to_vec(request)?.into();
            let response = send(&socket, Method::POST, path::CAPTURE, body).await?;
            let response = accepted(response, &socket).await?;
            let id =
                response.headers().get(path::CAPTURE_HEADER).and_then(|id| id.to_str().ok()?.parse().ok());
            let id: u64 = id.unwrap_or_default();
            let mut body = response.into_body();
            let mut told = false;
            loop {
                tokio::select! {
                    frame = body.frame() => match frame {
                        None => return Ok(id),
                        Some(frame) => {
                            if let Ok(data) = frame.map_err(|error| broke_off(&socket, &error))?.into_data() {
                                take(&data)?;
                            }
                        }
                    },
                    Some(()) = interrupt.recv(), if !told => told = end(&socket, id).await,
                    Some(()) = terminate.recv(), if !told => told = end(&socket, id).await,
                }
            }
        })
    }

    /// DELETE what the daemon has at this path; the answer is a document.
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.call(Method::DELETE, path, Bytes::new())
    }

    /// GET an answer without end, line by line, until the daemon ends it.
    pub fn stream(
        &self,
        path: &str,
        line: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let socket = self.socket();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(follow(&socket, path, line))
    }

    /// Any JSON answer, also of HTTP status 503 (`health`), is an answer if it is a `T`.
    fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<T> {
        self.call_within(method, path, body, PATIENCE)
    }

    fn call_within<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        patience: Duration,
    ) -> anyhow::Result<T> {
        let socket = self.socket();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answered = runtime
            .block_on(async { tokio::time::timeout(patience, exchange(&socket, method, path, body)).await });
        let (status, bytes) = answered.map_err(|_| {
            let text = format!(
                "the daemon at {} does not answer within {} s; see its log",
                socket.display(),
                patience.as_secs()
            );
            Failure::of(Kind::Unreachable, text)
        })??;
        decode(status, &bytes, &socket)
    }
}

/// The answer, unless it is a refusal.
async fn accepted(
    response: hyper::Response<hyper::body::Incoming>,
    socket: &Path,
) -> anyhow::Result<hyper::Response<hyper::body::Incoming>> {
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(response);
    }
    let answer = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let answer = answer.map_err(|error| broke_off(socket, &error))?.to_bytes();
    match decode::<serde_json::Value>(status, &answer, socket) {
        Err(error) => Err(error),
        Ok(_) => Err(broke_off(socket, &status)),
    }
}

/// Have the daemon end a capture; always true.
async fn end(socket: &Path, id: u64) -> bool {
    let at = path::CAPTURE_ONE.replace("{id}", &id.to_string());
    // A daemon that does not answer ends it by going.
    let _ = exchange(socket, Method::DELETE, &at, Bytes::new()).await;
    true
}

async fn follow(
    socket: &Path,
    path: &str,
    line: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let response = send(socket, Method::GET, path, Bytes::new()).await?;
    let status = response.status();
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|error| broke_off(socket, &error))?.into_data() {
            text.extend_from_slice(&data);
        }
        if status != StatusCode::OK {
            continue;
        }
        while let Some(end) = text.iter().position(|octet| *octet == b'\n') {
            line(&text[..end])?;
            text.drain(..=end);
        }
        if text.len() > MAX_ANSWER {
            return Err(Failure::of(
                Kind::Unreachable,
                format!("{} sends a line without end", socket.display()),
            ));
        }
    }
    if status != StatusCode::OK {
        return decode::<serde_json::Value>(status, &text, socket).map(drop);
    }
    Ok(())
}

fn broke_off(socket: &Path, error: &dyn std::fmt::Display) -> anyhow::Error {
    Failure::of(Kind::Unreachable, format!("the daemon at {} broke off: {error}", socket.display()))
}

async fn exchange(
    socket: &Path,
    method: Method,
    path: &str,
    body: Bytes,
) -> anyhow::Result<(StatusCode, Bytes)> {
    whole(send(socket, method, path, body).await?, socket).await
}

/// An answer to its end.
async fn whole(
    response: hyper::Response<hyper::body::Incoming>,
    socket: &Path,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let status = response.status();
    let answer = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let answer = answer.map_err(|error| broke_off(socket, &error))?;
    Ok((status, answer.to_bytes()))
}

/// Send a request over a connection of its own.
async fn send(
    socket: &Path,
    method: Method,
    path: &str,
    body: Bytes,
) -> anyhow::Result<hyper::Response<hyper::body::Incoming>> {
    let stream = UnixStream::connect(socket).await.map_err(|error| unreachable(socket, &error))?;
    send_over(stream, socket, method, path, body).await
}

/// Send a request; the connection lives in a task of its own until the answer was read.
async fn send_over(
    stream: UnixStream,
    socket: &Path,
    method: Method,
    path: &str,
    body: Bytes,
) -> anyhow::Result<hyper::Response<hyper::body::Incoming>> {
    let broken = |error: hyper::Error| broke_off(socket, &error);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "ravelin")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))?;
    sender.send_request(request).await.map_err(broken)
}

/// Whom the kernel half of an instance keeps closed without a daemon, as its pins say; empty: there are none.
fn kept_closed(socket: &Path) -> String {
    let folder = socket.parent().unwrap_or(Path::new("/"));
    let instance = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let closed = daemon::policy_store::closed(&instance);
    match closed.is_empty() {
        true => String::new(),
        false => format!(
            "; the host is closed meanwhile, what must be protected is refused: {}",
            closed.join(", ")
        ),
    }
}

fn unreachable(socket: &Path, error: &std::io::Error) -> anyhow::Error {
    let at = socket.display();
    match error.kind() {
        std::io::ErrorKind::NotFound => Failure::with_remedy(
            Kind::Unreachable,
            format!("no daemon listens at {at}{}", kept_closed(socket)),
            "start one with `ravelin run --config FILE`, or give --instance or --control",
        ),
        std::io::ErrorKind::ConnectionRefused => Failure::with_remedy(
            Kind::Unreachable,
            format!("the daemon of {at} has ended{}", kept_closed(socket)),
            "its protected traffic stays refused until `ravelin run` starts it again",
        ),
        std::io::ErrorKind::PermissionDenied => Failure::with_remedy(
            Kind::NotAllowed,
            format!("{at}: permission denied"),
            "only root may ask the daemon",
        ),
        _ => Failure::of(Kind::Unreachable, format!("{at}: {error}")),
    }
}

fn decode<T: DeserializeOwned>(status: StatusCode, bytes: &[u8], socket: &Path) -> anyhow::Result<T> {
    if let Ok(Versioned { body: Refusal { error }, .. }) = serde_json::from_slice::<Versioned<Refusal>>(bytes)
    {
        return Err(Failure::refused(error));
    }
    let answer: Versioned<T> = serde_json::from_slice(bytes).map_err(|error| {
        let text =
            format!("{} is not a ravelin daemon, or an older one ({status}: {error})", socket.display());
        Failure::of(Kind::Unreachable, text)
    })?;
    if answer.api != VERSION {
        let text = format!(
            "the daemon speaks API {}, this command {VERSION}; use the daemon's own version",
            answer.api
        );
        return Err(Failure::of(Kind::Failed, text));
    }
    Ok(answer.body)
}

/// Fields of a question that have a value, as a query string.
pub fn query<'n>(fields: impl IntoIterator<Item = (&'n str, Option<String>)>) -> String {
    let pairs = fields.into_iter().filter_map(|(name, text)| Some((name, text?)));
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}
