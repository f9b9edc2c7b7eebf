//! `ravelin policy lsp`: a language server on standard input and output (LSP 3.17).
//!
//! What enters: messages of an editor. What leaves: answers, and diagnostics that are those of `ravelin policy check`. The
//! policy room does the thinking. Of the daemon only the list of live flows is asked, for the policy as it is in
//! the editor; without a daemon everything else stays. Whatever a client sends, it gets an error of the protocol at worst.

mod answers;
mod document;
mod transport;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use clap::Args;
use crypto::Suites;
use lsp_server::{ErrorCode, Message, Notification, Request, Response};
use lsp_types as lsp;
use qos::graph::Aggregates;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalogue::Catalogue;
use crate::client::Connect;
use crate::exit::{Failure, Kind};
use document::{Document, Encoding, MAX_DOCUMENT, Text};
use transport::Incoming;

/// The most documents that are open at a time.
const MAX_DOCUMENTS: usize = 64;
/// The longest name of a document, in octets.
const MAX_NAME: usize = 4096;
/// Messages that may wait; a client that sends more is read more slowly.
const QUEUE: usize = 64;
/// How long a daemon may take to list its flows.
const PATIENCE: Duration = Duration::from_secs(1);

/// Serve an editor on standard input and output (Language Server Protocol).
#[derive(Debug, Args)]
pub struct Lsp {
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    catalogue: Catalogue,
}

impl Lsp {
    pub fn execute(self) -> anyhow::Result<()> {
        let (sender, incoming) = sync_channel(QUEUE);
        std::thread::Builder::new().name("rvl-lsp-reader".into()).spawn(move || {
            let mut input = io::stdin().lock();
            while let Ok(Some(message)) = transport::read(&mut input) {
                let last = matches!(message, Incoming::Lost(_));
                if sender.send(message).is_err() || last {
                    break;
                }
            }
        })?;
        let mut server = Server {
            output: io::stdout(),
            connect: self.connect,
            suites: self.catalogue.suites()?,
            classes: self.catalogue.aggregates(),
            encoding: Encoding::Utf16,
            state: State::New,
            documents: BTreeMap::new(),
        };
        if server.run(&incoming)? { Ok(()) } else { Err(Failure::silent(Kind::Failed)) }
    }
}

/// Where the client is in the life of the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Ready,
    /// The client asked to shut down: only `exit` is left.
    Done,
}

/// Why a request gets no answer.
struct Fault {
    code: ErrorCode,
    message: String,
}

impl Fault {
    fn new(code: ErrorCode, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into() }
    }
}

type Answered = Result<Value, Fault>;

struct Server<W> {
    output: W,
    connect: Connect,
    /// The suites that a policy may name, as of the start.
    suites: Suites,
    /// The classes that it may name, as of the start.
    classes: Aggregates,
    encoding: Encoding,
    state: State,
    /// The open documents, by their URIs as the client wrote them.
    documents: BTreeMap<String, Document>,
}

impl<W: Write> Server<W> {
    /// Serve until the client leaves. The answer is whether it did so in good order.
    fn run(&mut self, incoming: &Receiver<Incoming>) -> io::Result<bool> {
        let mut since = 0;
        loop {
            let next = match incoming.try_recv() {
                Ok(next) if since < QUEUE => Some(next),
                // An editor sends every letter: diagnostics are for the text it comes to rest with.
                Ok(next) => {
                    self.publish()?;
                    since = 0;
                    Some(next)
                }
                Err(TryRecvError::Empty) => {
                    self.publish()?;
                    since = 0;
                    incoming.recv().ok()
                }
                Err(TryRecvError::Disconnected) => None,
            };
            since += 1;
            match next {
                None => return Ok(false),
                Some(Incoming::Broken(code, text)) => transport::write_error(&mut self.output, code, &text)?,
                Some(Incoming::Lost(text)) => {
                    transport::write_error(&mut self.output, ErrorCode::ParseError, &text)?;
                    return Ok(false);
                }
                Some(Incoming::Message(Message::Request(request))) => self.request(request)?,
                Some(Incoming::Message(Message::Notification(told))) if told.method == "exit" => {
                    return Ok(self.state == State::Done);
                }
                Some(Incoming::Message(Message::Notification(told))) => self.told(told)?,
                // Nothing is asked of the client.
                Some(Incoming::Message(Message::Response(_))) => {}
            }
        }
    }

    fn send(&mut self, message: Message) -> io::Result<()> {
        message.write(&mut self.output)
    }

    fn request(&mut self, request: Request) -> io::Result<()> {
        let Request { id, method, params } = request;
        let answer = match (self.state, method.as_str()) {
            (State::New, "initialize") => self.initialize(params),
            (State::New, _) => {
                Err(Fault::new(ErrorCode::ServerNotInitialized, "`initialize` is the first request"))
            }
            (State::Ready, "shutdown") => {
                self.state = State::Done;
                Ok(Value::Null)
            }
            (State::Ready, _) => self.answer(&method, params),
            (State::Done, _) => Err(Fault::new(ErrorCode::InvalidRequest, "only `exit` follows `shutdown`")),
        };
        self.send(Message::Response(match answer {
            Ok(value) => Response::new_ok(id, value),
            Err(fault) => Response::new_err(id, fault.code as i32, fault.message),
        }))
    }

    fn initialize(&mut self, params: Value) -> Answered {
        let params: lsp::InitializeParams = read(params)?;
        let offered = params.capabilities.general.and_then(|general| general.position_encodings);
        let octets = offered.is_some_and(|list| list.contains(&lsp::PositionEncodingKind::UTF8));
        self.encoding = if octets { Encoding::Utf8 } else { Encoding::Utf16 };
        self.state = State::Ready;
        let encoding =
            if octets { lsp::PositionEncodingKind::UTF8 } else { lsp::PositionEncodingKind::UTF16 };
        write(lsp::InitializeResult {
            capabilities: lsp::ServerCapabilities {
                position_encoding: Some(encoding),
                text_document_sync: Some(lsp::TextDocumentSyncKind::INCREMENTAL.into()),
                hover_provider: Some(true.into()),
                definition_provider: Some(lsp::OneOf::Left(true)),
                references_provider: Some(lsp::OneOf::Left(true)),
                document_symbol_provider: Some(lsp::OneOf::Left(true)),
                document_formatting_provider: Some(lsp::OneOf::Left(true)),
                code_action_provider: Some(true.into()),
                completion_provider: Some(lsp::CompletionOptions {
                    trigger_characters: Some(vec!["=".into(), ",".into()]),
                    ..lsp::CompletionOptions::default()
                }),
                ..lsp::ServerCapabilities::default()
            },
            server_info: Some(lsp::ServerInfo {
                name: "ravelin".into(),
                version: Some(env!("CARGO_PKG_VERSION").into()),
            }),
        })
    }

    fn answer(&mut self, method: &str, params: Value) -> Answered {
        match method {
            "textDocument/hover" => {
                let at = read::<lsp::HoverParams>(params)?.text_document_position_params;
                let connect = self.connect.clone();
                let (text, analysis) = self.opened(&at.text_document.uri)?;
                let offset = text.offset(at.position);
                let live = |meaning: &policy::Meaning| live(&connect, &analysis.compiled, meaning);
                write(answers::hover(text, analysis, offset, live))
            }
            "textDocument/definition" => {
                let at = read::<lsp::GotoDefinitionParams>(params)?.text_document_position_params;
                let (text, analysis) = self.opened(&at.text_document.uri)?;
                let offset = text.offset(at.position);
                let found = answers::definition(&analysis.parsed.tree, &analysis.parsed.text, offset);
                let uri = at.text_document.uri;
                write(found.map(|span| lsp::Location { uri, range: text.range(span) }))
            }
            "textDocument/references" => {
                let asked: lsp::ReferenceParams = read(params)?;
                let at = asked.text_document_position;
                let (text, analysis) = self.opened(&at.text_document.uri)?;
                let offset = text.offset(at.position);
                let with = asked.context.include_declaration;
                let found = answers::references(&analysis.parsed.tree, &analysis.parsed.text, offset, with);
                let place =
                    |span| lsp::Location { uri: at.text_document.uri.clone(), range: text.range(span) };
                write(found.into_iter().map(place).collect::<Vec<_>>())
            }
            "textDocument/documentSymbol" => {
                let asked: lsp::DocumentSymbolParams = read(params)?;
                let (text, analysis) = self.opened(&asked.text_document.uri)?;
                write(answers::symbols(&analysis.parsed.tree, text))
            }
            "textDocument/formatting" => {
                let asked: lsp::DocumentFormattingParams = read(params)?;
                let (text, _) = self.opened(&asked.text_document.uri)?;
                write(answers::formatting(text))
            }
            "textDocument/codeAction" => {
                let asked: lsp::CodeActionParams = read(params)?;
                let uri = asked.text_document.uri;
                let (text, analysis) = self.opened(&uri)?;
                write(answers::fixes(&uri, text, analysis, asked.range))
            }
            "textDocument/completion" => {
                let at = read::<lsp::CompletionParams>(params)?.text_document_position;
                let (text, analysis) = self.opened(&at.text_document.uri)?;
                let offset = text.offset(at.position);
                write(answers::completions(analysis, offset))
            }
            _ => Err(Fault::new(ErrorCode::MethodNotFound, "this server does not do that")),
        }
    }

    /// An open document and what is said of it.
    fn opened(&mut self, uri: &lsp::Uri) -> Result<(&Text, &document::Analysis), Fault> {
        let unknown = || Fault::new(ErrorCode::InvalidParams, "no such document is open");
        let lost = || Fault::new(ErrorCode::InvalidParams, too_long());
        self.documents
            .get_mut(uri.as_str())
            .ok_or_else(unknown)?
            .analysed(uri.as_str(), &self.suites, &self.classes)
            .ok_or_else(lost)
    }

    fn told(&mut self, told: Notification) -> io::Result<()> {
        if self.state != State::Ready {
            return Ok(());
        }
        let done = match told.method.as_str() {
            "textDocument/didOpen" => read(told.params).and_then(|params| self.open(params)),
            "textDocument/didChange" => read(told.params).and_then(|params| self.change(params)),
            "textDocument/didClose" => read(told.params).map(|params: lsp::DidCloseTextDocumentParams| {
                self.documents.remove(params.text_document.uri.as_str());
                // A closed document has no problems to show.
                Some((params.text_document.uri, None, Vec::new()))
            }),
            _ => Ok(None),
        };
        match done {
            Ok(Some((uri, version, list))) => self.show(uri, version, list),
            Ok(None) => Ok(()),
            // A notification has no answer; the client's log has room for it.
            Err(fault) => {
                let message =
                    format!("{}: {}", told.method.chars().take(64).collect::<String>(), fault.message);
                let params = lsp::LogMessageParams { typ: lsp::MessageType::ERROR, message };
                self.send(Message::Notification(Notification::new("window/logMessage".into(), params)))
            }
        }
    }

    fn open(
        &mut self,
        params: lsp::DidOpenTextDocumentParams,
    ) -> Result<Option<PublishedDiagnostics>, Fault> {
        let document = params.text_document;
        let name = document.uri.as_str();
        if name.len() > MAX_NAME {
            return Err(Fault::new(ErrorCode::InvalidParams, "the document's name is too long"));
        }
        if self.documents.len() >= MAX_DOCUMENTS && !self.documents.contains_key(name) {
            let message = format!("{MAX_DOCUMENTS} documents are open; close one");
            return Err(Fault::new(ErrorCode::InvalidParams, message));
        }
        let fits = document.text.len() <= MAX_DOCUMENT;
        let text = fits.then(|| Text::new(document.text, self.encoding));
        self.documents.insert(name.into(), Document::new(document.version, text));
        if fits { Ok(None) } else { Err(Fault::new(ErrorCode::InvalidParams, too_long())) }
    }

    fn change(
        &mut self,
        params: lsp::DidChangeTextDocumentParams,
    ) -> Result<Option<PublishedDiagnostics>, Fault> {
        let (uri, version) = (params.text_document.uri, params.text_document.version);
        let encoding = self.encoding;
        let Some(document) = self.documents.get_mut(uri.as_str()) else {
            return Err(Fault::new(ErrorCode::InvalidParams, "no such document is open"));
        };
        let mut changes = params.content_changes;
        // All that is in front of the last whole text is without effect.
        if let Some(whole) = changes.iter().rposition(|change| change.range.is_none()) {
            changes.drain(..whole);
        }
        let fresh = changes.first().is_some_and(|change| change.range.is_none());
        let text = match (&document.text, fresh) {
            (_, true) => Text::new(String::new(), encoding).edited(changes),
            (Some(_), false) if changes.is_empty() => return Ok(None),
            (Some(text), false) => text.edited(changes),
            (None, false) => None,
        };
        let fits = text.is_some();
        *document = Document::new(version, text);
        if fits { Ok(None) } else { Err(Fault::new(ErrorCode::InvalidParams, too_long())) }
    }

    /// Send the diagnostics of documents that changed.
    fn publish(&mut self) -> io::Result<()> {
        let mut shown = Vec::new();
        for (name, document) in &mut self.documents {
            if !std::mem::take(&mut document.dirty) {
                continue;
            }
            let Ok(uri) = name.parse::<lsp::Uri>() else { continue };
            let version = document.version;
            let list = document
                .analysed(name, &self.suites, &self.classes)
                .map(|(text, analysis)| answers::diagnostics(&uri, text, analysis));
            shown.push((uri, Some(version), list.unwrap_or_default()));
        }
        shown.into_iter().try_for_each(|(uri, version, list)| self.show(uri, version, list))
    }

    fn show(&mut self, uri: lsp::Uri, version: Option<i32>, list: Vec<lsp::Diagnostic>) -> io::Result<()> {
        let params = lsp::PublishDiagnosticsParams::new(uri, list, version);
        let method = "textDocument/publishDiagnostics".to_owned();
        self.send(Message::Notification(Notification::new(method, params)))
    }
}

/// Diagnostics of a document and the version of it that they are about.
type PublishedDiagnostics = (lsp::Uri, Option<i32>, Vec<lsp::Diagnostic>);

fn too_long() -> String {
    format!(
        "the document is longer than {MAX_DOCUMENT} octets; it is followed again when all of it is sent shorter"
    )
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Fault> {
    serde_json::from_value(params).map_err(|error| Fault::new(ErrorCode::InvalidParams, error.to_string()))
}

fn write<T: Serialize>(result: T) -> Answered {
    serde_json::to_value(result).map_err(|error| Fault::new(ErrorCode::InternalError, error.to_string()))
}

/// How many live flows a statement decides; `None`: no daemon tells.
fn live(connect: &Connect, compiled: &policy::Compiled, meaning: &policy::Meaning) -> Option<usize> {
    let flows: api::Flows = connect.get_within(api::path::FLOWS, PATIENCE).ok()?;
    let decided = |live: &&api::LiveFlow| {
        let flow = wire::Flow {
            opaque: false,
            local: live.local.ip(),
            remote: live.remote.ip(),
            local_port: live.local.port(),
            remote_port: live.remote.port(),
            protocol: live.protocol,
        };
        meaning.decides(compiled, &live.application, &flow)
    };
    Some(flows.flows.iter().filter(decided).count())
}
