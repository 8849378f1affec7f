//! `examples/context-ring.html` in headless Chromium (Debian's `chromium`, or the one that `CHROMIUM` names).

use std::process::Command;

use crate::support::paths::repository;

/// The page's document after its script has run on this header; `None` where there is no Chromium.
fn document(header: &str) -> Option<String> {
    let chromium = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    let profile = tempfile::tempdir().expect("a folder");
    let page = repository().join("examples/context-ring.html");
    let escaped: String = header.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let output = Command::new(&chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}#{escaped}", page.display()))
        .output();
    match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {chromium} is not installed (Debian: apt install chromium)");
            None
        }
        output => {
            let output = output.expect("Chromium runs");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            Some(String::from_utf8(output.stdout).expect("a document"))
        }
    }
}

/// What stands in `text` between `start` and the first `end` behind it.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, behind) = text.split_once(start).unwrap_or_else(|| panic!("{start} is not in {text}"));
    behind.split_once(end).unwrap_or_else(|| panic!("{end} does not follow {start}")).0
}

#[test]
fn the_ring_shows_share_severity_and_what_to_do() {
    for (ratio, severity, action, colour, arc, percent, says) in [
        ("0.250", "normal", "none", "#2e9d4e", "13.35", "25", None),
        (
            "0.700",
            "info",
            "measure",
            "#e2b500",
            "37.38",
            "70",
            Some("info: 70 % of 200000 tokens. Have the proxy measure"),
        ),
        (
            "0.850",
            "warning",
            "enable_removal",
            "#ef7d00",
            "45.40",
            "85",
            Some("Have the proxy remove old tool results"),
        ),
        ("0.929", "danger", "provider_compaction", "#d62828", "49.62", "92", Some("Ask the provider to compact")),
        ("1.200", "critical", "new_conversation", "#d62828", "53.41", "120", Some("Start a new conversation.")),
    ] {
        let header = format!(
            "estimated_input_tokens=1, context_limit=200000, usage_ratio={ratio}, severity={severity}, \
             recommended_action={action}, original_input_tokens=2"
        );
        let Some(document) = document(&header) else { return };
        let shown = between(&document, "<p id=\"shown\">", "</p>");
        let svg = between(shown, "<svg ", "</svg>");
        assert!(svg.contains("width=\"20\" height=\"20\"") && svg.contains(&format!("stroke=\"{colour}\"")), "{svg}");
        assert!(svg.contains(&format!("stroke-dasharray=\"{arc} 53.41\"")), "{svg}");
        assert!(svg.contains("font-size=\"7\"") && svg.contains(&format!(">{percent}</text>")), "{svg}");
        match says {
            Some(says) => assert!(between(shown, "context-warning", "</span>").contains(says), "{shown}"),
            None => assert!(!shown.contains("context-warning"), "{shown}"),
        }
    }
}

#[test]
fn what_is_no_such_header_breaks_nothing() {
    for header in ["<b>x</b>", "usage_ratio=abc, severity=<i>", "=,=,=", "severity=unheard_of, usage_ratio=0.5"] {
        let Some(document) = document(header) else { return };
        let shown = between(&document, "<p id=\"shown\">", "</p>");
        assert!(shown.contains("<svg ") && !shown.contains("<b>") && !shown.contains("<i>"), "{shown}");
        assert!(document.contains("Start a new conversation."), "the script ran to its end");
    }
}
