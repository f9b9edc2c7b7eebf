//! Messages on a pair of pipes: `Content-Length`, an empty line, JSON (LSP 3.17, "Base Protocol").

use std::io::{self, BufRead, Read, Write};

use lsp_server::{ErrorCode, Message};
use serde_json::{Value, json};

/// The longest message that is read, in octets: a policy of the greatest length with every character escaped.
pub const MAX_MESSAGE: usize = 32 << 20;
/// The longest header line, and how many a message may have.
const MAX_HEADER: u64 = 4096;
const MAX_HEADERS: usize = 32;

/// What was read from the client.
pub enum Incoming {
    /// A message of the protocol.
    Message(Message),
    /// No message, but the next one may be; what the client is told.
    Broken(ErrorCode, String),
    /// Where the next message starts cannot be known.
    Lost(String),
}

/// The next message; `None`: the client closed its end.
pub fn read(input: &mut dyn BufRead) -> io::Result<Option<Incoming>> {
    let length = match headers(input)? {
        Headers::End => return Ok(None),
        Headers::Bad(why) => return Ok(Some(Incoming::Lost(why.into()))),
        Headers::Length(length) => length,
    };
    if length > MAX_MESSAGE as u64 {
        let skipped = io::copy(&mut input.take(length), &mut io::sink())?;
        if skipped < length {
            return Ok(None);
        }
        let text = format!("a message of {length} octets: at most {MAX_MESSAGE} are read");
        return Ok(Some(Incoming::Broken(ErrorCode::InvalidRequest, text)));
    }
    // As it comes, whatever the header promises.
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body)?;
    if (body.len() as u64) < length {
        return Ok(None);
    }
    Ok(Some(match serde_json::from_slice(&body) {
        Ok(message) => Incoming::Message(message),
        Err(error) if error.is_data() => Incoming::Broken(ErrorCode::InvalidRequest, error.to_string()),
        Err(error) => Incoming::Broken(ErrorCode::ParseError, error.to_string()),
    }))
}

enum Headers {
    Length(u64),
    End,
    Bad(&'static str),
}

fn headers(input: &mut dyn BufRead) -> io::Result<Headers> {
    let mut length = None;
    for count in 0..=MAX_HEADERS {
        let mut line = Vec::new();
        input.take(MAX_HEADER).read_until(b'\n', &mut line)?;
        if line.is_empty() && count == 0 {
            return Ok(Headers::End);
        }
        let Some(line) = line.strip_suffix(b"\n") else {
            return Ok(Headers::Bad("a header line without end"));
        };
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        if line.is_empty() {
            return Ok(length.map_or(Headers::Bad("a message without Content-Length"), Headers::Length));
        }
        let Some((name, value)) = line.split_once(':') else {
            return Ok(Headers::Bad("a header line without a colon"));
        };
        if name.eq_ignore_ascii_case("content-length") {
            match value.trim().parse() {
                Ok(octets) => length = Some(octets),
                Err(_) => return Ok(Headers::Bad("a Content-Length that is no number")),
            }
        }
    }
    Ok(Headers::Bad("too many header lines"))
}

/// The answer to something that has no number.
pub fn write_error(output: &mut dyn Write, code: ErrorCode, message: &str) -> io::Result<()> {
    let body: Value =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code as i32, "message": message } });
    let body = body.to_string();
    write!(output, "Content-Length: {}\r\n\r\n{body}", body.len())?;
    output.flush()
}
