//! Proof that one body is another minus byte ranges.

use std::ops::Range;

use memchr::memmem;

/// The ranges of `incoming` that are missing in `outgoing`, or the offset of the first byte of `outgoing` that cannot be
/// explained by leaving bytes out.
pub fn removed(incoming: &[u8], outgoing: &[u8]) -> Result<Vec<Range<usize>>, usize> {
    // Long matches give ranges that a person recognises; single bytes are the exact test, and rarely needed.
    [256, 48, 12]
        .iter()
        .find_map(|window| explain(incoming, outgoing, *window).ok())
        .map_or_else(|| explain(incoming, outgoing, 1), Ok)
}

/// Matches from the left; where the bodies differ, skips to the next place where `window` bytes agree. With a window of
/// one this succeeds exactly when `outgoing` is a subsequence of `incoming`.
fn explain(incoming: &[u8], outgoing: &[u8], window: usize) -> Result<Vec<Range<usize>>, usize> {
    let mut ranges = Vec::new();
    let (mut from, mut to) = (0, 0);
    loop {
        let same = incoming[from..].iter().zip(&outgoing[to..]).take_while(|(a, b)| a == b).count();
        (from, to) = (from + same, to + same);
        if to == outgoing.len() {
            if from < incoming.len() {
                ranges.push(from..incoming.len());
            }
            return Ok(ranges);
        }
        let needle = &outgoing[to..outgoing.len().min(to + window)];
        let skip = memmem::find(&incoming[from..], needle).ok_or(to)?;
        ranges.push(from..from + skip);
        from += skip;
    }
}
