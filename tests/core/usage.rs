//! What providers report, read out of their responses split anywhere. The responses are made after the shapes that the
//! providers document; none is a recording.

use context_compaction::usage::{Reader, Usage};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// One message of Amazon's event stream with one header; the checksums are not checked, and left at zero.
fn message(event: &str, payload: &str) -> Vec<u8> {
    let mut headers = vec![11];
    headers.extend(b":event-type");
    headers.push(7);
    headers.extend(u16::try_from(event.len()).unwrap().to_be_bytes());
    headers.extend(event.as_bytes());
    let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
    let mut message = total.to_be_bytes().to_vec();
    message.extend(u32::try_from(headers.len()).unwrap().to_be_bytes());
    message.extend([0; 4]);
    message.extend(headers);
    message.extend(payload.as_bytes());
    message.extend([0; 4]);
    message
}

fn events(events: &[(&str, &str)]) -> Vec<u8> {
    let event = |(name, data): &(&str, &str)| match *name {
        "" => format!("data: {data}\n\n"),
        name => format!("event: {name}\ndata: {data}\n\n"),
    };
    events.iter().map(event).collect::<String>().into_bytes()
}

const fn usage(input: u64, cached: Option<u64>, written: Option<u64>) -> Usage {
    Usage { input, cached, written }
}

/// A response of every format, with its content type and what it reports.
fn responses() -> Vec<(&'static str, &'static str, Vec<u8>, Usage)> {
    let json = |text: &str| text.as_bytes().to_vec();
    let sse = "text/event-stream; charset=utf-8";
    vec![
        (
            "Chat Completions",
            "application/json",
            json(
                r#"{"id":"c1","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant",
                "content":"say \"usage\": {\"prompt_tokens\": 1}","tool_calls":[{"id":"a","type":"function","function":{"name":"f",
                "arguments":"{\"usage\":{\"prompt_tokens\":2}}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1200,
                "completion_tokens":30,"total_tokens":1230,"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0},
                "completion_tokens_details":{"reasoning_tokens":5}}}"#,
            ),
            usage(1200, Some(1024), None),
        ),
        (
            "Chat Completions, stream",
            sse,
            events(&[
                ("", r#"{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":null}"#),
                ("", r#"{"choices":[{"delta":{"content":"data: {\"usage\":{\"prompt_tokens\":9}}\n\n"}}],"usage":null}"#),
                ("", r#"{"choices":[],"usage":{"prompt_tokens":77,"prompt_tokens_details":{"cached_tokens":64,"cache_write_tokens":5}}}"#),
                ("", "[DONE]"),
            ]),
            usage(77, Some(64), Some(5)),
        ),
        (
            "Groq, stream",
            sse,
            events(&[("", r#"{"choices":[{"delta":{}}],"x_groq":{"id":"r","usage":{"prompt_tokens":31,"queue_time":0.01}}}"#)]),
            usage(31, None, None),
        ),
        (
            "DeepSeek",
            "application/json",
            json(r#"{"choices":[],"usage":{"prompt_tokens":90,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":26}}"#),
            usage(90, Some(64), None),
        ),
        (
            "Moonshot",
            "application/json",
            json(r#"{"usage":{"prompt_tokens":90,"cached_tokens":32}}"#),
            usage(90, Some(32), None),
        ),
        (
            "Responses",
            "application/json",
            json(
                r#"{"id":"resp_1","object":"response","output":[{"type":"function_call","arguments":"{}"}],"usage":{"input_tokens":328,
                "input_tokens_details":{"cached_tokens":128},"output_tokens":52}}"#,
            ),
            usage(328, Some(128), None),
        ),
        (
            "Responses, stream",
            sse,
            events(&[
                ("response.created", r#"{"type":"response.created","response":{"id":"r","usage":null,"tools":[{"usage":1}]}}"#),
                ("response.output_text.delta", r#"{"type":"response.output_text.delta","delta":"hi"}"#),
                (
                    "response.completed",
                    r#"{"type":"response.completed","response":{"id":"r","output":[{"content":[{"text":"}"}]}],"usage":{"input_tokens":37,
                    "input_tokens_details":{"cached_tokens":0},"output_tokens":11}}}"#.replace('\n', "").as_str(),
                ),
            ]),
            usage(37, Some(0), None),
        ),
        (
            "Messages",
            "application/json",
            json(
                r#"{"type":"message","content":[{"type":"tool_use","name":"f","input":{"usage":{"input_tokens":99999}}}],"usage":
                {"input_tokens":21,"cache_creation_input_tokens":188,"cache_read_input_tokens":5000,"cache_creation":
                {"ephemeral_5m_input_tokens":188,"ephemeral_1h_input_tokens":0},"iterations":[{"input_tokens":7}],"output_tokens":3}}"#,
            ),
            usage(5209, Some(5000), Some(188)),
        ),
        (
            "Messages, stream",
            sse,
            events(&[
                (
                    "message_start",
                    r#"{"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":25,"cache_creation_input_tokens":10,"cache_read_input_tokens":300,"output_tokens":1}}}"#,
                ),
                ("content_block_delta", r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"usage\":"}}"#),
                ("ping", r#"{"type": "ping"}"#),
                ("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":0,"output_tokens":15}}"#),
                ("message_stop", r#"{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":1}}"#),
            ]),
            usage(335, Some(300), Some(10)),
        ),
        (
            "Claude behind Chat Completions",
            "application/json",
            json(
                r#"{"usage":{"prompt_tokens":52000,"prompt_tokens_details":{"cached_tokens":50000},
                "cache_creation_input_tokens":1900,"cache_read_input_tokens":50000}}"#,
            ),
            usage(52000, Some(50000), Some(1900)),
        ),
        (
            "Messages with a search by the provider, stream",
            sse,
            events(&[
                ("message_start", r#"{"type":"message_start","message":{"usage":{"input_tokens":79,"cache_read_input_tokens":52600}}}"#),
                (
                    "message_delta",
                    r#"{"type":"message_delta","usage":{"input_tokens":682,"cache_read_input_tokens":260000,"server_tool_use":{"web_search_requests":5}}}"#,
                ),
            ]),
            usage(52679, Some(52600), None),
        ),
        (
            "Gemini",
            "application/json; charset=UTF-8",
            json(
                r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"usageMetadata":{"promptTokenCount":1}}}}]}}],
                "usageMetadata":{"promptTokenCount":264,"candidatesTokenCount":8,"cachedContentTokenCount":128,"totalTokenCount":272,
                "promptTokensDetails":[{"modality":"TEXT","tokenCount":264}]}}"#,
            ),
            usage(264, Some(128), None),
        ),
        (
            "Gemini, list of chunks",
            "application/json",
            json(
                r#"[{"candidates":[],"usageMetadata":{"promptTokenCount":264}}
                ,{"candidates":[],"usageMetadata":{"promptTokenCount":265,"candidatesTokenCount":9}}]"#,
            ),
            usage(265, None, None),
        ),
        (
            "Gemini, stream",
            sse,
            events(&[
                ("", r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":50}}"#),
                ("", r#"{"candidates":[],"usageMetadata":{"promptTokenCount":50,"cachedContentTokenCount":40}}"#),
            ]),
            usage(50, Some(40), None),
        ),
        (
            "Converse",
            "application/json",
            json(r#"{"output":{"message":{}},"usage":{"inputTokens":9,"outputTokens":2,"cacheReadInputTokens":100,"cacheWriteInputTokens":20}}"#),
            usage(129, Some(100), Some(20)),
        ),
        (
            "Converse, stream",
            "application/vnd.amazon.eventstream",
            [
                message("messageStart", r#"{"role":"assistant"}"#),
                message("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"{\"usage\":{\"inputTokens\":1}}"}}"#),
                message("empty", ""),
                message("metadata", r#"{"metrics":{"latencyMs":5},"usage":{"inputTokens":9,"outputTokens":2,"cacheReadInputTokens":100}}"#),
            ]
            .concat(),
            usage(109, Some(100), None),
        ),
        (
            "Cohere",
            "application/json",
            json(
                r#"{"message":{"content":[]},"usage":{"billed_units":{"input_tokens":12},"tokens":{"input_tokens":220,"output_tokens":3},"cached_tokens":64}}"#,
            ),
            usage(220, Some(64), None),
        ),
        (
            "Cohere, stream",
            sse,
            events(&[(
                "message-end",
                r#"{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"billed_units":{"input_tokens":12},"tokens":{"input_tokens":220}}}}"#,
            )]),
            usage(220, None, None),
        ),
        (
            "Ollama",
            "application/x-ndjson",
            json("{\"message\":{\"content\":\"a\"},\"done\":false}\n{\"message\":{\"content\":\"\"},\"done\":true,\"prompt_eval_count\":26,\"eval_count\":9}\n"),
            usage(26, None, None),
        ),
    ]
}

fn read(content_type: &str, parts: &[&[u8]]) -> Option<Usage> {
    let mut reader = Reader::new(200, content_type, "").expect("a known kind");
    parts.iter().for_each(|part| reader.feed(part));
    reader.usage()
}

#[test]
fn every_format_split_at_every_byte_reports_the_same() {
    for (name, content_type, response, expected) in responses() {
        assert_eq!(read(content_type, &[&response]), Some(expected), "{name}");
        for at in 0..=response.len() {
            let (start, end) = response.split_at(at);
            assert_eq!(read(content_type, &[start, end]), Some(expected), "{name} split at {at}");
        }
        let bytes: Vec<&[u8]> = response.chunks(1).collect();
        assert_eq!(read(content_type, &bytes), Some(expected), "{name} byte by byte");
    }
}

#[test]
fn ten_thousand_random_splits_report_the_same() {
    let mut rng = StdRng::seed_from_u64(6);
    let responses = responses();
    for round in 0..10_000 {
        let (name, content_type, response, expected) = &responses[round % responses.len()];
        let mut rest = response.as_slice();
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(rng.random_range(1..=rest.len().min(60)));
            parts.push(part);
            rest = behind;
        }
        assert_eq!(read(content_type, &parts), Some(*expected), "{name} in round {round}");
    }
}

#[test]
fn carriage_returns_end_lines_too() {
    for (name, content_type, response, expected) in responses().into_iter().filter(|r| r.1.starts_with("text/event")) {
        let text = String::from_utf8(response).unwrap();
        for end in ["\r\n", "\r"] {
            let text = text.replace('\n', end);
            for at in 0..=text.len() {
                let (start, behind) = text.as_bytes().split_at(at);
                assert_eq!(read(content_type, &[start, behind]), Some(expected), "{name} {end:?} {at}");
            }
        }
    }
}

#[test]
fn a_sum_over_calls_that_the_provider_made_is_no_report() {
    let with = |searches: u32| {
        format!(r#"{{"usage":{{"input_tokens":9,"server_tool_use":{{"web_search_requests":{searches}}}}}}}"#)
    };
    assert_eq!(read("application/json", &[with(2).as_bytes()]), None);
    assert_eq!(read("application/json", &[with(0).as_bytes()]), Some(usage(9, None, None)));
}

#[test]
fn any_bytes_are_read_to_their_end() {
    let mut rng = StdRng::seed_from_u64(7);
    for content_type in ["application/json", "text/event-stream", "application/vnd.amazon.eventstream"] {
        for _ in 0..2_000 {
            let alphabet = b"{}[]\",:\\0123456789 \n\rdat\xff\x00usage";
            let noise: Vec<u8> = (0..200).map(|_| alphabet[rng.random_range(0..alphabet.len())]).collect();
            let at = rng.random_range(0..noise.len());
            let (start, end) = noise.split_at(at);
            assert_eq!(read(content_type, &[start, end]), read(content_type, &[&noise]));
        }
    }
}
