//! Where a request goes, told by its path.

use super::Dialect;
use crate::{json::Document, skip::Skip, transcript::Transcript};

/// The format of a request, and the model where the path names it.
#[derive(Debug, Clone)]
pub struct Target {
    /// The format.
    pub dialect: &'static Dialect,
    /// The model in the path, decoded.
    pub model: Option<String>,
}

impl Target {
    /// The target of a path; a query does not matter. `None` where no dialect is served there.
    pub fn of(path: &str) -> Option<Self> {
        let dialect = Dialect::of(path)?;
        Some(Self { dialect, model: model_in(without_query(path)) })
    }

    /// Reads a body that must confirm the format. What the body does not say of the model the path does.
    pub fn read(&self, doc: &Document<'_>) -> Result<Transcript, Skip> {
        let mut transcript = (self.dialect.read)(doc)?;
        if transcript.prompt.model.is_none() {
            transcript.prompt.model.clone_from(&self.model);
        }
        Ok(transcript)
    }
}

/// A path without its query.
pub(super) fn without_query(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// The model that a path names: `…/models/gemini-2.5-pro:generateContent`, `/model/us.amazon.nova-pro-v1%3A0/converse`,
/// `…/deployments/my-gpt/chat/completions`.
fn model_in(path: &str) -> Option<String> {
    let mut segments = path.split('/').skip_while(|segment| !matches!(*segment, "model" | "models" | "deployments"));
    let kind = segments.next()?;
    let segment = segments.next().filter(|segment| !segment.is_empty())?;
    let name = if kind == "models" { segment.rsplit_once(':').map_or(segment, |(name, _)| name) } else { segment };
    Some(decoded(name))
}

/// A segment without percent encoding. What is no encoding stands for itself.
fn decoded(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.extend(u8::try_from(high.saturating_mul(16).saturating_add(low)));
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_told_by_the_path_where_the_body_does_not() {
        for (path, model) in [
            ("/v1beta/models/gemini-2.5-pro:generateContent?key=x", Some("gemini-2.5-pro")),
            ("/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:rawPredict", Some("claude-x@1")),
            (
                "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
                Some("us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
            ),
            ("/model/amazon.nova-micro-v1:0/converse-stream", Some("amazon.nova-micro-v1:0")),
            (
                "/model/arn%3Aaws%3Abedrock%3Ar%3A1%3Aapplication-inference-profile%2Fx/invoke",
                Some("arn:aws:bedrock:r:1:application-inference-profile/x"),
            ),
            ("/openai/deployments/my-gpt/chat/completions?api-version=1", Some("my-gpt")),
            ("/v1/chat/completions", None),
            ("/model//converse", None),
        ] {
            let target = Target::of(path).unwrap();
            assert_eq!(target.model.as_deref(), model, "{path}");
        }
        assert_eq!(decoded("a%2"), "a%2");
        assert_eq!(decoded("%zz%41%ff"), "%zzA\u{fffd}");
        let doc = Document::parse(br#"{"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}"#).unwrap();
        let read = Target::of("/v1/models/g%2Dx:generateContent").unwrap().read(&doc).unwrap();
        assert_eq!(read.prompt.model(), "g-x");
    }
}
