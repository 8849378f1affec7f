//! Token figures for people: an estimate of o200k tokens from pairs of neighbouring bytes.
//!
//! The figures go to metrics, logs and responses. Nothing is decided by them.
//!
//! # How
//! Every byte belongs to one of [`CLASSES`] classes: letter, digit, space, first byte of a Chinese character and so
//! on. A text costs, for each of its bytes, a weight that depends on the byte's class and on the class of the byte
//! before it: a letter after a letter costs little, a digit after a letter most of a token. Weights are 1/1024ths of
//! a token and all arithmetic is on integers, so a figure is the same natively and in wasm.
//!
//! # How good
//! `examples/fit_tokens.rs` fits the weights to tiktoken's o200k_base, with one half of every class of text, and
//! checks them with the other half. Error of the sum over that other half:
//!
//! | text | error |
//! |---|---|
//! | tool results, arguments, prose, tool lists of recorded agents | -1.6 % to +1.6 % |
//! | source code: Rust, Python, JavaScript, Markdown, TOML | -0.8 % to +1.8 % |
//! | source code: JSON (`package.json` and the like) | -3.9 % |
//! | logs, listings, JSON rows, CSV, hexadecimal, base64 | -0.6 % to +0.6 % |
//! | Portuguese, Spanish, French, German, Polish | +2.8 %, -2.2 %, -1.8 %, -3.5 %, -0.7 % |
//! | Chinese, Japanese, Korean | +0.7 %, -0.7 %, -1.2 % |
//! | Russian, Greek, Arabic, Hindi, Thai, Vietnamese | -0.9 % to +3.6 % |
//! | never fitted: Perl, configuration files, package scripts | -3.0 % to +0.6 % |
//! | never fitted: Czech, Hebrew, Turkish, Dutch, Swedish | -9.8 % to +2.1 % |
//! | never fitted: Italian, Romanian, Ukrainian, traditional Chinese | -15 % to -18 % |
//!
//! One text strays further: of the 4 KB pieces of a fitted class, 95 % are within 21 % (35 % of the tool results of an
//! agent that draws tables). A long run of one character (rules, padding) comes out several times too large, because a
//! pair of bytes does not show how long the run is; text full of emoji comes out a third too small. A few letters may
//! come out as no token at all.

use memchr::memchr;

/// Number of byte classes: sixteen, so that a pair of classes is one byte and no look-up can be out of bounds.
pub const CLASSES: usize = 16;

/// The most that a single byte adds to an estimate, in tokens.
pub const HEAVIEST: u64 = 2;

/// The class before the first byte: a text starts as a line does.
pub const START: u8 = LINE;

/// Weights are in this fraction of a token.
const UNITS_PER_TOKEN: u64 = 1024;

/// Lower-case letters.
const LETTER: u8 = 0;
/// The lower-case letters that English words hold least, and base64 as often as any.
const RARE_LETTER: u8 = 1;
const CAPITAL: u8 = 2;
const DIGIT: u8 = 3;
const SPACE: u8 = 4;
/// Line ends and tabs.
const LINE: u8 = 5;
/// Punctuation that stands inside names, numbers and paths.
const JOINER: u8 = 6;
/// Other punctuation and control bytes.
const OTHER_ASCII: u8 = 7;
/// Second to last byte of a character.
const CONTINUATION: u8 = 8;
/// First byte of two: Latin with accents, Greek, Arabic, Hebrew.
const LEAD_OF_2: u8 = 9;
/// First byte of two: Cyrillic.
const LEAD_CYRILLIC: u8 = 10;
/// First byte of three, U+0800 to U+1FFF: the scripts of India, Thai, Vietnamese letters.
const LEAD_INDIC: u8 = 11;
/// First byte of three, U+2000 to U+2FFF: dashes, quotes, arrows, boxes.
const LEAD_SYMBOL: u8 = 12;
/// First byte of three, U+3000 to U+3FFF: Japanese syllables, Chinese full stops.
const LEAD_KANA: u8 = 13;
/// First byte of three, U+4000 to U+9FFF and from U+F000: Chinese characters and wide punctuation.
const LEAD_HAN: u8 = 14;
/// First byte of Korean syllables and of four-byte characters, and bytes that UTF-8 does not have.
const LEAD_OTHER: u8 = 15;

/// Estimated o200k tokens of a text, in tokens. UTF-8 is expected, any bytes are tolerated.
///
/// One pass, no allocation. Joining two texts changes the sum of their estimates by at most [`HEAVIEST`] + 1 tokens:
/// only the first byte of the second text sees another byte before it, and three roundings add at most 1.5 tokens.
pub fn estimate(text: &[u8]) -> u64 {
    let mut tally = Tally::new();
    tally.add(text);
    tally.tokens()
}

/// Estimated o200k tokens of the text that a JSON string stands for, in tokens; `raw` is what stands between its
/// quotes.
///
/// Escapes (RFC 8259 section 7) count as the characters they stand for, so this equals [`estimate`] of the decoded
/// string without decoding it into memory. Half a surrogate pair counts as U+FFFD; a backslash that begins no escape
/// counts as itself.
pub fn estimate_json_string(raw: &[u8]) -> u64 {
    let mut tally = Tally::new();
    let mut rest = raw;
    while let Some((plain, escape)) = memchr(b'\\', rest).and_then(|at| rest.split_at_checked(at)) {
        tally.add(plain);
        let (character, after) = unescape(escape);
        tally.add(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = after;
    }
    tally.add(rest);
    tally.tokens()
}

/// The class of a byte, below [`CLASSES`]; for `examples/fit_tokens.rs`.
pub fn class(byte: u8) -> u8 {
    CLASS_OF.get(usize::from(byte)).copied().unwrap_or(OTHER_ASCII)
}

/// A sum of weights under way.
struct Tally {
    /// In 1/1024ths of a token.
    sum: u64,
    /// The class of the last byte.
    last: u8,
}

impl Tally {
    fn new() -> Self {
        Self { sum: 0, last: START }
    }

    fn add(&mut self, bytes: &[u8]) {
        let Self { mut sum, mut last } = *self; // in registers: twice as fast as through `self`
        for &byte in bytes {
            let class = class(byte);
            let weight = WEIGHTS.get(usize::from(last << 4 | class)).copied().unwrap_or(0);
            // Cannot wrap: a weight is at most 2^11, and no memory holds 2^53 bytes.
            sum = sum.wrapping_add(u64::from(weight));
            last = class;
        }
        *self = Self { sum, last };
    }

    /// Rounded to the nearest token.
    fn tokens(&self) -> u64 {
        self.sum.saturating_add(UNITS_PER_TOKEN / 2) / UNITS_PER_TOKEN
    }
}

/// The character that the escape at the start of `escape` stands for, and what follows the escape.
fn unescape(escape: &[u8]) -> (char, &[u8]) {
    let after = escape.get(1..).unwrap_or_default();
    let Some((&kind, rest)) = after.split_first() else {
        return ('\\', after);
    };
    let character = match kind {
        b'"' | b'\\' | b'/' => char::from(kind),
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return unescape_unicode(rest).unwrap_or(('\\', after)),
        _ => return ('\\', after),
    };
    (character, rest)
}

/// The same for what stands behind `\u`: four hexadecimal digits, or a surrogate pair of two such escapes.
fn unescape_unicode(digits: &[u8]) -> Option<(char, &[u8])> {
    let (unit, after_unit) = code_unit(digits)?;
    let second = after_unit.strip_prefix(b"\\u").and_then(code_unit);
    let units = [Some(unit), second.map(|(unit, _)| unit)];
    let character = char::decode_utf16(units.into_iter().flatten()).next()?.unwrap_or(char::REPLACEMENT_CHARACTER);
    match second {
        Some((_, after_pair)) if character.len_utf16() == 2 => Some((character, after_pair)),
        _ => Some((character, after_unit)),
    }
}

/// Four hexadecimal digits as a UTF-16 code unit, and what follows them.
fn code_unit(digits: &[u8]) -> Option<(u16, &[u8])> {
    let (four, rest) = digits.split_first_chunk::<4>()?;
    let unit = four.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))?;
    Some((u16::try_from(unit).ok()?, rest))
}

#[expect(clippy::indexing_slicing, reason = "the compiler runs it, and refuses an index that is out of bounds")]
static CLASS_OF: [u8; 256] = {
    let mut classes = [OTHER_ASCII; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'j' | b'k' | b'q' | b'v'..=b'z' => RARE_LETTER,
            b'a'..=b'z' => LETTER,
            b'A'..=b'Z' => CAPITAL,
            b'0'..=b'9' => DIGIT,
            b' ' => SPACE,
            b'\n' | b'\r' | b'\t' => LINE,
            b'.' | b'-' | b',' | b':' | b';' | b'/' | b'_' | b'+' | b'=' => JOINER,
            0x00..=0x7f => OTHER_ASCII,
            0x80..=0xbf => CONTINUATION,
            0xd0..=0xd3 => LEAD_CYRILLIC,
            0xc0..=0xdf => LEAD_OF_2,
            0xe0 | 0xe1 => LEAD_INDIC,
            0xe2 => LEAD_SYMBOL,
            0xe3 => LEAD_KANA,
            0xe4..=0xe9 | 0xef => LEAD_HAN,
            0xea..=0xff => LEAD_OTHER,
        };
        byte += 1;
    }
    classes
};

/// One row for each class of the byte before, one column for each class of the byte, in 1/1024ths of a token.
///
/// Printed by `examples/fit_tokens.rs`, by the command in its documentation. 256, a quarter of a token, stands where
/// no text shows such a pair.
#[rustfmt::skip]
static WEIGHTS: [u16; CLASSES * CLASSES] = [
      58,  187,  380,  836,  811, 1264,  443,  142,  256, 1363,  257,    0,  237,    0,   85,  165,
     388, 2048, 1052, 1369,  326,  403,  272,  839,  256, 1847,  256,    0,  282,  203,  264,  242,
     494, 1349,  334, 1515,  204,  983,    0,  507,  256, 1300,  256,  383,  266,    0,    0,  205,
    1010, 1488, 1307,  434,  485, 1037,  747,  864,  256,  343,  256,  256, 1074,  236,  338,  269,
       0,  434,  108, 1100,   51,  464,  564,  613,  256,    0,    0,  302,  240,    0, 1062,  757,
     171,  172,  451,  534, 1153,  265,  785, 1052,  256,    0,  279,  982,  105,    0,    0,  381,
     893,  935,  809,  757,  678,  201,   45,    0,  256,  888,  737,  376,  233,  249,  403,  273,
     981, 1260,  844, 1535,  408,    0,  347,  322,  256,  764,  664, 1193,  531,    0,  247,  787,
       0,   50,  433,  529,    0,  434,  528, 1236,    0,  324,    0,  442,    0,  760,  842,    0,
     256,  256,  256,  256,  256,  256,  256,  256,  147,  256,  256,  256,  256,  256,  256,  256,
     256,  256,  256,  256,  256,  256,  256,  256,  278,  256,  256,  256,  256,  256,  256,  256,
     256,  256,  256,  256,  256,  256,  256,  256,    0,  256,  256,  256,  256,  256,  256,  256,
     256,  256,  256,  256,  256,  256,  256,  256,  315,  256,  256,  256,  256,  256,  256,  256,
     256,  256,  256,  256,  256,  256,  256,  256,    0,  256,  256,  256,  256,  256,  256,  256,
     256,  256,  256,  256,  256,  256,  256,  256,    0,  256,  256,  256,  256,  256,  256,  256,
     256,  256,  256,  256,  256,  256,  256,  256,  501,  256,  256,  256,  256,  256,  256,  256,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_class_and_no_weight_is_above_the_heaviest() {
        assert!((0..=u8::MAX).all(|byte| usize::from(class(byte)) < CLASSES));
        assert!(WEIGHTS.iter().all(|weight| u64::from(*weight) <= HEAVIEST * UNITS_PER_TOKEN));
    }

    #[test]
    fn escapes_stand_for_their_characters() {
        for (escape, character) in [
            (r"n", '\n'),
            (r"\", '\\'),
            (r"/", '/'),
            (r"u00e9", 'é'),
            (r"u2500", '─'),
            (r"uD83D\uDE00", '😀'),
            (r"ud800", char::REPLACEMENT_CHARACTER),
            (r"udc00\ud800", char::REPLACEMENT_CHARACTER),
            (r"ud800\u0041", char::REPLACEMENT_CHARACTER),
        ] {
            let found = unescape(format!("\\{escape}").as_bytes()).0;
            assert_eq!(found, character, "\\{escape}");
        }
    }

    #[test]
    fn what_is_no_escape_counts_as_itself() {
        for text in ["\\", "\\x41", "\\u", "\\u12", "\\u+123", "\\u12g4", "a\\"] {
            assert_eq!(estimate_json_string(text.as_bytes()), estimate(text.as_bytes()), "{text}");
        }
    }
}
