//! HTTP/1.1 by hand: reading one message from a socket and writing odd ones.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// Names and raw values in the order in which they arrived; names in lower case.
pub type Headers = Vec<(String, Vec<u8>)>;

/// The first value under `name`.
pub fn header<'a>(headers: &'a Headers, name: &str) -> Option<&'a [u8]> {
    headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
}

/// One HTTP/1.1 message as it came over the socket.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// Request line or status line, without its line end.
    pub start_line: String,
    /// The headers.
    pub headers: Headers,
    /// The body with its framing taken off.
    pub body: Vec<u8>,
    /// The trailers after a chunked body.
    pub trailers: Headers,
    /// Whether the body came whole; else `body` holds what came before the connection broke.
    pub complete: bool,
}

impl Message {
    /// The status code of a response's status line; 0 where there is none.
    pub fn status(&self) -> u16 {
        self.start_line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }
}

/// Reads a request; `None` when the peer closed the connection before the first byte.
pub async fn read_request(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Message>> {
    let Some(mut message) = read_head(stream).await? else { return Ok(None) };
    message.complete = read_framed_body(stream, &mut message).await.is_ok();
    Ok(Some(message))
}

/// Reads a response, interim ones (1xx) included; `None` when the peer closed the connection before the first byte.
pub async fn read_response(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Message>> {
    let Some(mut message) = read_head(stream).await? else { return Ok(None) };
    let bodiless = matches!(message.status(), 100..=199 | 204 | 304);
    message.complete = match read_framed_body(stream, &mut message).await {
        Ok(false) if !bodiless => stream.read_to_end(&mut message.body).await.is_ok(),
        framed => framed.is_ok(),
    };
    Ok(Some(message))
}

/// The head of a request, up to and with the empty line. Path and values are raw bytes.
pub fn request_head(method: &str, path: impl AsRef<[u8]>, headers: &[(&str, &[u8])]) -> Vec<u8> {
    let mut head = [method.as_bytes(), b" ", path.as_ref(), b" HTTP/1.1\r\nhost: provider.test\r\n"].concat();
    for (name, value) in headers {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// `body` in chunked framing, in chunks of `piece` bytes, followed by `trailers`.
pub fn chunked(body: &[u8], piece: usize, trailers: &[(&str, &str)]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(body.len() * 2);
    for chunk in body.chunks(piece.max(1)) {
        framed.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        framed.extend_from_slice(chunk);
        framed.extend_from_slice(b"\r\n");
    }
    framed.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        framed.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    framed.extend_from_slice(b"\r\n");
    framed
}

/// `body` as a gzip stream that stores it without compressing.
pub fn gzip(body: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    for block in body.chunks(usize::from(u16::MAX)) {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        stream.push(0);
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend([1, 0, 0, 0xff, 0xff]); // an empty last block
    let crc = !body.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    });
    stream.extend(crc.to_le_bytes());
    stream.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    stream
}

/// Reads the start line and the headers; `None` when the peer closed the connection before the first byte.
pub async fn read_head(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Message>> {
    let mut line = Vec::new();
    if stream.read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    let start_line = String::from_utf8_lossy(&line).trim_end().to_owned();
    let headers = read_headers(stream).await?;
    Ok(Some(Message { start_line, headers, ..Message::default() }))
}

/// Header lines up to and with the empty line.
async fn read_headers(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Headers> {
    let mut headers = Headers::new();
    loop {
        let mut line = Vec::new();
        if stream.read_until(b'\n', &mut line).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed within the headers"));
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(headers);
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        headers.push((name, value.strip_prefix(b":").unwrap_or(value).trim_ascii().to_vec()));
    }
}

/// Reads the body that the headers announce into `message`; `false` when they announce none.
pub async fn read_framed_body(stream: &mut (impl AsyncBufRead + Unpin), message: &mut Message) -> io::Result<bool> {
    if header(&message.headers, "transfer-encoding").is_some_and(|coding| coding.ends_with(b"chunked")) {
        read_chunks(stream, message).await?;
        return Ok(true);
    }
    let Some(length) = header(&message.headers, "content-length") else { return Ok(false) };
    let length = number(length, 10)?;
    read_exactly(stream, length, &mut message.body).await?;
    Ok(true)
}

async fn read_chunks(stream: &mut (impl AsyncBufRead + Unpin), message: &mut Message) -> io::Result<()> {
    loop {
        let mut line = Vec::new();
        stream.read_until(b'\n', &mut line).await?;
        let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let size = number(size.trim_ascii(), 16)?;
        if size == 0 {
            message.trailers = read_headers(stream).await?;
            return Ok(());
        }
        read_exactly(stream, size, &mut message.body).await?;
        stream.read_until(b'\n', &mut line).await?;
    }
}

/// Appends `length` bytes to `body`; what came before a failure stays there.
async fn read_exactly(stream: &mut (impl AsyncBufRead + Unpin), length: u64, body: &mut Vec<u8>) -> io::Result<()> {
    let read = stream.take(length).read_to_end(body).await?;
    if u64::try_from(read) == Ok(length) { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn number(digits: &[u8], radix: u32) -> io::Result<u64> {
    let text = String::from_utf8_lossy(digits);
    u64::from_str_radix(&text, radix)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("length {text:?}: {error}")))
}
