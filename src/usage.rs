//! What a provider reports of a prompt, read out of its response while that streams through: a few hundred bytes of state,
//! whatever the response, and no byte is kept back.
//!
//! The names are those of the formats' own documents; they differ so much that one set serves all of them:
//!
//! | format | input | of it from the cache | of it written to the cache |
//! |---|---|---|---|
//! | Chat Completions and its relatives | `usage.prompt_tokens` (Groq `x_groq.usage`) | `prompt_tokens_details.cached_tokens`, `prompt_cache_hit_tokens`, `cached_tokens`, `cached_prompt_text_tokens` | `prompt_tokens_details.cache_write_tokens` |
//! | Responses | `usage.input_tokens`, in streams `response.usage` | `input_tokens_details.cached_tokens` | `input_tokens_details.cache_write_tokens` |
//! | Messages | the sum of `usage.input_tokens` and the two beside it, in streams `message.usage` too | `cache_read_input_tokens` | `cache_creation_input_tokens` |
//! | Gemini | `usageMetadata.promptTokenCount` | `cachedContentTokenCount` | |
//! | Converse | the sum of `usage.inputTokens` and the two beside it | `cacheReadInputTokens` | `cacheWriteInputTokens` |
//! | Cohere | `usage.tokens.input_tokens`, in streams `delta.usage` | `usage.cached_tokens` | |
//! | Ollama | `prompt_eval_count` | | |
//!
//! Gateways that speak Chat Completions for Claude put the counts of Messages beside `prompt_tokens`, which holds them already.
//! Where a provider calls its own tools, the counts at the end are sums over those calls: in a stream the first ones count, and
//! a response in one piece counts for nothing.

use memchr::memchr2;

/// What one response says about its prompt, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// All input, what came from the cache and what was written to it included.
    pub input: u64,
    /// What came from the provider's cache; `None` where the response does not say.
    pub cached: Option<u64>,
    /// What was written to the provider's cache.
    pub written: Option<u64>,
}

/// Reads one response.
#[derive(Debug)]
pub struct Reader {
    framing: Framing,
    scanner: Scanner,
}

#[derive(Debug)]
enum Framing {
    /// JSON values, one after another.
    Json,
    /// Server-sent events: JSON behind `data:`.
    Events(Line),
    /// Amazon's event stream: JSON in binary messages.
    Messages(Part),
}

/// Where in a line of an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// So many bytes of the field's name are read, and are those of `data:`.
    Field(usize),
    Data,
    Other,
}

/// Where in a message of Amazon's event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Total length, length of the headers and a checksum, four bytes each.
    Prelude {
        bytes: [u8; PRELUDE],
        read: usize,
    },
    Headers {
        left: usize,
        payload: usize,
    },
    Payload {
        left: usize,
    },
    Checksum {
        left: usize,
    },
    /// No such stream.
    Broken,
}

const PRELUDE: usize = 12;
const CHECKSUM: usize = 4;
/// The format allows 16 MiB for a payload and 128 KiB for headers; more is no message.
const LONGEST_MESSAGE: usize = 24 * 1024 * 1024;
const DATA: &[u8] = b"data:";

impl Reader {
    /// A reader for a response with this status and these headers; none where it is an error, compressed or of no known kind.
    pub fn new(status: u16, content_type: &str, content_encoding: &str) -> Option<Self> {
        if !(200..300).contains(&status)
            || !matches!(content_encoding.trim().to_ascii_lowercase().as_str(), "" | "identity")
        {
            return None;
        }
        let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let framing = match media_type.as_str() {
            "text/event-stream" => Framing::Events(Line::Field(0)),
            "application/vnd.amazon.eventstream" => Framing::Messages(Part::start()),
            "application/json" | "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Framing::Json,
            other if other.ends_with("+json") => Framing::Json,
            _ => return None,
        };
        Some(Self { framing, scanner: Scanner::default() })
    }

    /// Reads the next bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match &mut self.framing {
                Framing::Json => {
                    self.scanner.feed(bytes);
                    &[]
                }
                Framing::Events(line) => line.feed(&mut self.scanner, bytes),
                Framing::Messages(part) => part.feed(&mut self.scanner, bytes),
            };
        }
    }

    /// What was reported so far.
    pub fn usage(&self) -> Option<Usage> {
        self.scanner.found.usage()
    }
}

impl Line {
    /// Reads up to the end of the line at most, and gives back what is left.
    fn feed<'a>(&mut self, scanner: &mut Scanner, bytes: &'a [u8]) -> &'a [u8] {
        let end = memchr2(b'\n', b'\r', bytes);
        let (line, rest) = bytes.split_at_checked(end.unwrap_or(bytes.len())).unwrap_or_default();
        let mut data = line;
        if let Self::Field(read) = *self {
            let wanted = DATA.get(read..).unwrap_or_default();
            let common = line.iter().zip(wanted).take_while(|(byte, wanted)| byte == wanted).count();
            data = line.get(common..).unwrap_or_default();
            *self = match read.saturating_add(common) {
                read if read == DATA.len() => Self::Data,
                read if data.is_empty() => Self::Field(read),
                _ => Self::Other,
            };
        }
        if *self == Self::Data {
            scanner.feed(data);
        }
        if end.is_none() {
            return &[];
        }
        // An empty line ends an event; whatever is open then never closes.
        if *self == Self::Field(0) {
            scanner.restart();
        }
        *self = Self::Field(0);
        match rest {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => &[],
        }
    }
}

impl Part {
    const fn start() -> Self {
        Self::Prelude { bytes: [0; PRELUDE], read: 0 }
    }

    /// Reads up to the end of the part at most, and gives back what is left.
    fn feed<'a>(&mut self, scanner: &mut Scanner, bytes: &'a [u8]) -> &'a [u8] {
        let split = |left: usize| bytes.split_at_checked(left).unwrap_or((bytes, &[]));
        match *self {
            Self::Prelude { bytes: mut prelude, read } => {
                let (taken, rest) = split(PRELUDE.saturating_sub(read));
                for (place, byte) in prelude.iter_mut().skip(read).zip(taken) {
                    *place = *byte;
                }
                let read = read.saturating_add(taken.len());
                *self = if read == PRELUDE { Self::after(&prelude) } else { Self::Prelude { bytes: prelude, read } };
                rest
            }
            Self::Headers { left, payload } => {
                let (taken, rest) = split(left);
                *self = match left.saturating_sub(taken.len()) {
                    0 => Self::payload(payload),
                    left => Self::Headers { left, payload },
                };
                rest
            }
            Self::Payload { left } => {
                let (taken, rest) = split(left);
                scanner.feed(taken);
                *self = Self::payload(left.saturating_sub(taken.len()));
                rest
            }
            Self::Checksum { left } => {
                let (taken, rest) = split(left);
                *self = match left.saturating_sub(taken.len()) {
                    0 => {
                        scanner.restart();
                        Self::start()
                    }
                    left => Self::Checksum { left },
                };
                rest
            }
            Self::Broken => &[],
        }
    }

    fn payload(left: usize) -> Self {
        if left == 0 { Self::Checksum { left: CHECKSUM } } else { Self::Payload { left } }
    }

    fn after(prelude: &[u8; PRELUDE]) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *prelude;
        let [total, headers] =
            [[a, b, c, d], [e, f, g, h]].map(|n| usize::try_from(u32::from_be_bytes(n)).unwrap_or(0));
        let around = headers.saturating_add(PRELUDE).saturating_add(CHECKSUM);
        match total.checked_sub(around).filter(|_| total <= LONGEST_MESSAGE) {
            None => Self::Broken,
            Some(payload) if headers == 0 => Self::payload(payload),
            Some(payload) => Self::Headers { left: headers, payload },
        }
    }
}

/// Counts under their names.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    /// All of it.
    prompt: Option<u64>,
    /// What is neither read from the cache nor written to it, where those stand beside it; else all of it.
    input: Option<u64>,
    /// Part of the one or the other.
    cached: Option<u64>,
    written: Option<u64>,
    /// Beside `input`.
    read_beside: Option<u64>,
    written_beside: Option<u64>,
    /// The beginning of a stream of Messages has said it all: later counts are sums over the calls that the provider made
    /// by itself.
    settled: bool,
    /// The provider called tools by itself.
    served: bool,
}

impl Found {
    fn usage(&self) -> Option<Usage> {
        let beside = self.read_beside.unwrap_or(0).saturating_add(self.written_beside.unwrap_or(0));
        let input = self.prompt.or_else(|| Some(self.input?.saturating_add(beside)))?;
        // A sum over several calls is nobody's prompt.
        (input > 0 && (self.settled || !self.served)).then(|| Usage {
            input,
            cached: self.cached.or(self.read_beside),
            written: self.written.or(self.written_beside),
        })
    }

    /// Takes a number that stands at `path`. Counts add up as a stream goes on, so a later one replaces an earlier one; a
    /// zero in between says nothing.
    fn take(&mut self, path: &[Key], value: u64) {
        let inside = match path {
            [Key::Response | Key::Message | Key::Delta | Key::Groq | Key::Item, inside @ ..] => inside,
            [Key::PromptEvalCount] => return later(&mut self.prompt, value),
            inside => inside,
        };
        let first = path.first() == Some(&Key::Message);
        if self.settled && !first {
            return;
        }
        let field = match inside {
            [Key::Usage | Key::UsageMetadata, Key::Prompt] => &mut self.prompt,
            [Key::Usage, Key::Input] | [Key::Usage, Key::Tokens, Key::Input] => {
                self.settled |= first && value > 0;
                &mut self.input
            }
            [Key::Usage, Key::ServerTools, _] => {
                self.served |= value > 0;
                return;
            }
            [Key::Usage | Key::UsageMetadata, Key::Cached] | [Key::Usage, Key::Details, Key::Cached] => {
                &mut self.cached
            }
            [Key::Usage, Key::Details, Key::CacheWrite] => &mut self.written,
            [Key::Usage, Key::ReadBeside] => &mut self.read_beside,
            [Key::Usage, Key::WrittenBeside] => &mut self.written_beside,
            _ => return,
        };
        later(field, value);
    }
}

fn later(place: &mut Option<u64>, value: u64) {
    if value > 0 || place.is_none() {
        *place = Some(value);
    }
}

/// A key on the way to a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Response,
    Message,
    Delta,
    Groq,
    Usage,
    UsageMetadata,
    Details,
    Tokens,
    ServerTools,
    Prompt,
    Input,
    Cached,
    CacheWrite,
    ReadBeside,
    WrittenBeside,
    PromptEvalCount,
    /// An item of a list.
    Item,
    Other,
}

impl Key {
    fn of(name: &[u8]) -> Self {
        match name {
            b"response" => Self::Response,
            b"message" => Self::Message,
            b"delta" => Self::Delta,
            b"x_groq" => Self::Groq,
            b"usage" => Self::Usage,
            b"usageMetadata" => Self::UsageMetadata,
            b"prompt_tokens_details" | b"input_tokens_details" => Self::Details,
            b"tokens" => Self::Tokens,
            b"server_tool_use" => Self::ServerTools,
            b"prompt_tokens" | b"promptTokenCount" => Self::Prompt,
            b"input_tokens" | b"inputTokens" => Self::Input,
            b"cached_tokens"
            | b"prompt_cache_hit_tokens"
            | b"cached_prompt_text_tokens"
            | b"cachedContentTokenCount" => Self::Cached,
            b"cache_write_tokens" => Self::CacheWrite,
            b"cache_read_input_tokens" | b"cacheReadInputTokens" => Self::ReadBeside,
            b"cache_creation_input_tokens" | b"cacheWriteInputTokens" => Self::WrittenBeside,
            b"prompt_eval_count" => Self::PromptEvalCount,
            _ => Self::Other,
        }
    }
}

/// Containers on the way to a count at most: `response.usage.input_tokens_details.cached_tokens` stands in three, and a list
/// may be around them.
const LEVELS: usize = 4;
/// Longer keys are none of ours.
const LONGEST_KEY: usize = 32;

/// Follows JSON from byte to byte, and takes the counts out. It checks nothing: what is no JSON gives no counts, or wrong
/// ones, and is somebody else's to refuse.
#[derive(Debug)]
struct Scanner {
    found: Found,
    /// Open containers.
    depth: usize,
    /// The key, or `Item`, that each of the outer containers is at.
    path: [Key; LEVELS],
    /// Whether each of them is an object.
    objects: [bool; LEVELS],
    /// The next string is a key.
    at_key: bool,
    token: Token,
    key: [u8; LONGEST_KEY],
    key_len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    None,
    Text { key: bool, escaped: bool },
    Number { value: u64, whole: bool },
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            found: Found::default(),
            depth: 0,
            path: [Key::Other; LEVELS],
            objects: [false; LEVELS],
            at_key: false,
            token: Token::None,
            key: [0; LONGEST_KEY],
            key_len: 0,
        }
    }
}

impl Scanner {
    /// Forgets whatever is open, and keeps what was found.
    fn restart(&mut self) {
        self.end_number();
        *self = Self { found: self.found, ..Self::default() };
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = match self.token {
                Token::Text { key: false, escaped: false } => self.skip_text(bytes),
                Token::Text { key, escaped } => {
                    self.text(byte, key, escaped);
                    rest
                }
                Token::Number { value, whole } => {
                    self.number(byte, value, whole);
                    rest
                }
                Token::None => {
                    self.between(byte);
                    rest
                }
            };
        }
    }

    /// Reads up to the end of a text that is no key, or up to what is behind its next backslash.
    fn skip_text<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(at) = memchr2(b'"', b'\\', bytes) else { return &[] };
        self.token = match bytes.get(at) {
            Some(b'\\') => Token::Text { key: false, escaped: true },
            _ => Token::None,
        };
        bytes.get(at.saturating_add(1)..).unwrap_or_default()
    }

    fn text(&mut self, byte: u8, key: bool, escaped: bool) {
        self.token = match byte {
            _ if escaped => Token::Text { key, escaped: false },
            b'\\' => Token::Text { key, escaped: true },
            b'"' => {
                self.end_key();
                return self.token = Token::None;
            }
            _ => self.token,
        };
        if let Some(place) = self.key.get_mut(self.key_len) {
            *place = byte;
        }
        self.key_len = self.key_len.saturating_add(1);
    }

    fn end_key(&mut self) {
        let name = Key::of(self.key.get(..self.key_len).unwrap_or_default());
        if let Some(key) = self.depth.checked_sub(1).and_then(|level| self.path.get_mut(level)) {
            *key = name;
        }
        self.at_key = false;
    }

    fn number(&mut self, byte: u8, value: u64, whole: bool) {
        self.token = match byte {
            b'0'..=b'9' if whole => {
                let value = value.saturating_mul(10).saturating_add(byte.saturating_sub(b'0').into());
                Token::Number { value, whole }
            }
            b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E' => Token::Number { value, whole: false },
            _ => {
                self.end_number();
                return self.between(byte);
            }
        };
    }

    fn end_number(&mut self) {
        if let (Token::Number { value, .. }, Some(path)) = (self.token, self.path.get(..self.depth)) {
            self.found.take(path, value);
        }
        self.token = Token::None;
    }

    fn between(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.key_len = 0;
                self.token = Token::Text { key: self.at_key, escaped: false };
            }
            b'0'..=b'9' => self.token = Token::Number { value: byte.saturating_sub(b'0').into(), whole: true },
            b'{' | b'[' => self.open(byte == b'{'),
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.at_key = false;
            }
            b',' => self.at_key = self.depth.checked_sub(1).is_some_and(|level| self.objects.get(level) == Some(&true)),
            _ => {}
        }
    }

    fn open(&mut self, object: bool) {
        if let (Some(key), Some(kind)) = (self.path.get_mut(self.depth), self.objects.get_mut(self.depth)) {
            *key = if object { Key::Other } else { Key::Item };
            *kind = object;
        }
        self.at_key = object && self.depth < LEVELS;
        self.depth = self.depth.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &str, response: &[u8]) -> Option<Usage> {
        let mut reader = Reader::new(200, content_type, "").expect("a known kind");
        reader.feed(response);
        reader.usage()
    }

    const fn usage(input: u64, cached: Option<u64>) -> Option<Usage> {
        Some(Usage { input, cached, written: None })
    }

    #[test]
    fn only_what_can_be_read_is_read() {
        assert!(Reader::new(200, "application/json", "gzip").is_none());
        assert!(Reader::new(200, "text/html", "").is_none());
        assert!(Reader::new(500, "application/json", "").is_none());
        assert!(Reader::new(201, "Application/JSON; charset=utf-8", " Identity").is_some());
    }

    #[test]
    fn counts_count_in_their_place_only() {
        for (response, expected) in [
            (r#"{"usage":{"prompt_tokens":7}}"#, usage(7, None)),
            (r#"{"content":[{"input":{"usage":{"input_tokens":9}}}],"usage":{"input_tokens":7}}"#, usage(7, None)),
            (r#"{"usage":{"iterations":[{"input_tokens":9}],"input_tokens":7}}"#, usage(7, None)),
            (r#"{"usage":{"input_tokens":7,"x":{"input_tokens":9}}}"#, usage(7, None)),
            (r#"{"a":"{\"usage\":{\"prompt_tokens\":9}}","usage":{"prompt_tokens":7}}"#, usage(7, None)),
            (
                r#"{"a":"\\","usage":{"prompt_tokens" : 7 , "prompt_tokens_details" : {"cached_tokens":3}}}"#,
                usage(7, Some(3)),
            ),
            (r#"{"usage":null}"#, None),
            (r#"{"usage":{"prompt_tokens":"7"}}"#, None),
            (r#"{"usage":{"prompt_tokens":-7}}"#, usage(7, None)),
            (r#"{"prompt_eval_count":12}"#, usage(12, None)),
            (r#"{"message":{"prompt_eval_count":12}}"#, None),
            (
                r#"[{"usageMetadata":{"promptTokenCount":5}},{"usageMetadata":{"promptTokenCount":5,"cachedContentTokenCount":2}}]"#,
                usage(5, Some(2)),
            ),
            (r#"[[[[[[{"usage":{"prompt_tokens":9}}]]]]]]"#, None),
            ("", None),
            ("}}}]]]\"", None),
        ] {
            assert_eq!(read("application/json", response.as_bytes()), expected, "{response}");
        }
        assert_eq!(
            read("application/json", b"{\"usage\":{\"prompt_tokens\":99999999999999999999}}"),
            usage(u64::MAX, None)
        );
    }

    #[test]
    fn in_an_event_stream_only_data_counts_and_an_open_value_ends_with_its_event() {
        let stream =
            "event: x\r\n: {\"usage\":{\"prompt_tokens\":9}}\ndata: {\"usage\":\ndata:{\"prompt_tokens\":7}}\n\n";
        assert_eq!(read("text/event-stream", stream.as_bytes()), usage(7, None));
        let torn = "data: {\"choices\":[\"\n\ndata: {\"usage\":{\"prompt_tokens\":7}}\n\ndata: [DONE]\n\n";
        assert_eq!(read("text/event-stream", torn.as_bytes()), usage(7, None));
    }

    #[test]
    fn a_stream_that_is_none_is_given_up() {
        assert_eq!(read("application/vnd.amazon.eventstream", &[0xFF; 100]), None);
        assert_eq!(read("application/vnd.amazon.eventstream", &[0; 100]), None);
    }
}
