//! How full a model's context window is, and what to do about it.
//!
//! The figures are for people: nothing is decided by them.

use std::fmt;

/// How full the window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Below 70 %.
    Normal,
    /// From 70 %: watch.
    Info,
    /// From 85 %: compaction is suggested.
    Warning,
    /// From 92 %: compact.
    Danger,
    /// From 97 %: compact now or start a new conversation.
    Critical,
}

impl Severity {
    /// From the lowest to the highest, each with the share of the window where it begins, in thousandths.
    pub const ALL: [(Self, u64); 5] =
        [(Self::Normal, 0), (Self::Info, 700), (Self::Warning, 850), (Self::Danger, 920), (Self::Critical, 970)];

    /// The severity of `used` tokens out of `limit`.
    pub fn of(used: u64, limit: u64) -> Self {
        let reached = |(_, from): &&(Self, u64)| {
            u128::from(used).saturating_mul(1_000) >= u128::from(limit).saturating_mul(u128::from(*from))
        };
        Self::ALL.iter().rev().find(reached).map_or(Self::Normal, |(severity, _)| *severity)
    }

    /// The share of the window where it begins, in thousandths.
    pub fn begins(self) -> u64 {
        Self::ALL.iter().find(|(severity, _)| *severity == self).map_or(0, |(_, from)| *from)
    }

    /// Its name in headers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Danger => "danger",
            Self::Critical => "critical",
        }
    }
}

/// What can be done about a full window on this route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Means {
    /// The filter counts what removal would save.
    pub measuring: bool,
    /// The filter removes.
    pub removing: bool,
    /// The provider compacts conversations by itself where a request asks for it.
    pub provider_compacts: bool,
}

/// The recommended action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Nothing to do.
    None,
    /// Have the filter measure (`measure`).
    Measure,
    /// Have the filter remove (`enabled`).
    EnableRemoval,
    /// Let the filter remove earlier or more (`threshold_tokens`, `decision_threshold`, `preserve_recent`).
    LowerThresholds,
    /// Ask the provider to compact.
    ProviderCompaction,
    /// Start a new conversation.
    NewConversation,
}

impl Advice {
    /// What to do at `severity`.
    pub fn at(severity: Severity, means: Means) -> Self {
        let Means { measuring, removing, provider_compacts } = means;
        match severity {
            Severity::Normal => Self::None,
            Severity::Info if measuring || removing => Self::None,
            Severity::Info => Self::Measure,
            Severity::Warning | Severity::Danger if !removing => Self::EnableRemoval,
            Severity::Danger if provider_compacts => Self::ProviderCompaction,
            Severity::Warning | Severity::Danger => Self::LowerThresholds,
            Severity::Critical => Self::NewConversation,
        }
    }

    /// Its name in headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Measure => "measure",
            Self::EnableRemoval => "enable_removal",
            Self::LowerThresholds => "lower_thresholds",
            Self::ProviderCompaction => "provider_compaction",
            Self::NewConversation => "new_conversation",
        }
    }
}

/// The window of one request, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Estimate of the body as it leaves: system, history, tools, and what the turn added.
    pub estimated: u64,
    /// The same of the body as it came.
    pub original: u64,
    /// The most that the model takes.
    pub limit: u64,
    /// What the provider reported for the request before this one of the same conversation, and the estimate of what has
    /// come to it since, or left (negative).
    pub reported: Option<(u64, i64)>,
    /// What can be done about it.
    pub means: Means,
}

impl Snapshot {
    /// Tokens in use: by the provider's word where there is one.
    pub fn used(&self) -> u64 {
        self.reported.map_or(self.estimated, |(tokens, since)| tokens.saturating_add_signed(since))
    }

    /// Their share of the limit, in thousandths.
    pub fn ratio(&self) -> u64 {
        self.used().saturating_mul(1_000).checked_div(self.limit).unwrap_or(0)
    }

    /// How full the window is.
    pub fn severity(&self) -> Severity {
        Severity::of(self.used(), self.limit)
    }

    /// What to do about it.
    pub fn advice(&self) -> Advice {
        Advice::at(self.severity(), self.means)
    }
}

/// As a dictionary of structured fields (RFC 9651).
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { estimated, original, limit, .. } = self;
        let (ratio, severity, advice) = (decimal(self.ratio()), self.severity().name(), self.advice().name());
        write!(f, "estimated_input_tokens={estimated}, context_limit={limit}, usage_ratio={ratio}")?;
        if let Some((reported, _)) = self.reported {
            write!(f, ", provider_reported_tokens={reported}")?;
        }
        write!(f, ", severity={severity}, recommended_action={advice}, original_input_tokens={original}")
    }
}

/// Thousandths as a decimal.
fn decimal(thousandths: u64) -> String {
    let whole = thousandths.checked_div(1_000).unwrap_or(0);
    let part = thousandths.checked_rem(1_000).unwrap_or(0);
    format!("{whole}.{part:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_begin_where_they_say() {
        use Severity::{Critical, Danger, Info, Normal, Warning};
        for (used, severity) in [
            (0, Normal),
            (699, Normal),
            (700, Info),
            (849, Info),
            (850, Warning),
            (919, Warning),
            (920, Danger),
            (969, Danger),
            (970, Critical),
            (5_000, Critical),
        ] {
            assert_eq!(Severity::of(used, 1_000), severity, "{used}");
            assert_eq!(Severity::of(used * 200, 200_000), severity, "{used}");
        }
        // One token short of the edge is below it, however the share would round.
        assert_eq!(Severity::of(139_999, 200_000), Normal);
        assert_eq!(Severity::of(u64::MAX, u64::MAX), Critical);
    }

    #[test]
    fn what_to_do_depends_on_what_can_be_done() {
        let off = Means::default();
        let measuring = Means { measuring: true, ..off };
        let removing = Means { removing: true, ..off };
        let compacts = Means { removing: true, provider_compacts: true, ..off };
        for (severity, expected) in [
            (Severity::Normal, [Advice::None; 4]),
            (Severity::Info, [Advice::Measure, Advice::None, Advice::None, Advice::None]),
            (
                Severity::Warning,
                [Advice::EnableRemoval, Advice::EnableRemoval, Advice::LowerThresholds, Advice::LowerThresholds],
            ),
            (
                Severity::Danger,
                [Advice::EnableRemoval, Advice::EnableRemoval, Advice::LowerThresholds, Advice::ProviderCompaction],
            ),
            (Severity::Critical, [Advice::NewConversation; 4]),
        ] {
            let advice = [off, measuring, removing, compacts].map(|means| Advice::at(severity, means));
            assert_eq!(advice, expected, "{severity:?}");
        }
    }

    #[test]
    fn the_providers_word_counts_and_both_are_shown() {
        let means = Means { removing: true, ..Means::default() };
        let mut snapshot = Snapshot { estimated: 50_000, original: 90_000, limit: 100_000, reported: None, means };
        assert_eq!(
            snapshot.to_string(),
            "estimated_input_tokens=50000, context_limit=100000, usage_ratio=0.500, severity=normal, \
             recommended_action=none, original_input_tokens=90000"
        );
        snapshot.reported = Some((85_500, -500));
        assert_eq!(
            snapshot.to_string(),
            "estimated_input_tokens=50000, context_limit=100000, usage_ratio=0.850, provider_reported_tokens=85500, \
             severity=warning, recommended_action=lower_thresholds, original_input_tokens=90000"
        );
        assert_eq!(Snapshot { limit: 0, ..snapshot }.ratio(), 0);
        assert_eq!(decimal(12), "0.012");
    }
}
