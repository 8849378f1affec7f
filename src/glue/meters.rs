//! The metrics of this VM, defined once: a definition costs the host 17 µs, an increment 0.08 µs.

use super::abi;
use crate::metrics::{Kind, Metric};
use crate::policy::Mode;
use std::{cell::Cell, collections::HashMap};

/// Ids of all metrics.
#[derive(Debug, Default)]
pub(super) struct Meters {
    ids: HashMap<Metric, u32>,
    /// This VM knows that the engine has answered.
    answered: Cell<bool>,
}

/// Where all workers see that the engine has answered.
const ANSWERED: &str = "context_compaction.answered";

impl Meters {
    /// Defines every metric. One that the host refuses is left out: counting must never stop a request.
    pub(super) fn define() -> Self {
        let kind = |metric: Metric| match metric.kind() {
            Kind::Counter => abi::MetricType::Counter,
            Kind::Gauge => abi::MetricType::Gauge,
            Kind::Histogram => abi::MetricType::Histogram,
        };
        let defined = |metric: Metric| Some((metric, abi::define_metric(kind(metric), &metric.name()).ok()?));
        let meters = Self { ids: Metric::all().filter_map(defined).collect(), answered: Cell::new(false) };
        if meters.ids.len() < Metric::all().count() {
            log::error!("the host refused some metrics; they stay at zero");
        }
        meters
    }

    /// Shows what the filter does.
    pub(super) fn show(&self, mode: Mode) {
        self.record(Metric::Enforcing, (mode == Mode::Enforce).into());
        self.record(Metric::Measuring, (mode == Mode::Measure).into());
        self.record(Metric::NotPaying, 0);
        self.answered.set(abi::shared(ANSWERED).is_ok_and(|(value, _)| !value.is_empty()));
    }

    /// The engine is about to be called: from now on its silence is loud.
    pub(super) fn engine_called(&self) {
        if !self.answered.get() {
            self.answered.set(abi::shared(ANSWERED).is_ok_and(|(value, _)| !value.is_empty()));
            self.record(Metric::EngineSilent, (!self.answered.get()).into());
        }
    }

    /// The engine has answered once: it is there.
    pub(super) fn engine_answered(&self) {
        if !self.answered.replace(true) {
            self.record(Metric::EngineSilent, 0);
            if abi::set_shared(ANSWERED, b"1", 0).is_err() {
                log::debug!("the host took no shared value");
            }
        }
    }

    pub(super) fn add(&self, metric: Metric, by: u64) {
        if let (Some(id), true) = (self.ids.get(&metric), by > 0) {
            refused(abi::add_to_metric(*id, i64::try_from(by).unwrap_or(i64::MAX)));
        }
    }

    /// Moves a gauge by `by`.
    pub(super) fn shift(&self, metric: Metric, by: i64) {
        if let (Some(id), true) = (self.ids.get(&metric), by != 0) {
            refused(abi::add_to_metric(*id, by));
        }
    }

    pub(super) fn record(&self, metric: Metric, value: u64) {
        if let Some(id) = self.ids.get(&metric) {
            refused(abi::record_metric(*id, value));
        }
    }
}

fn refused(result: Result<(), abi::Refused>) {
    if let Err(abi::Refused(status)) = result {
        log::debug!("the host refused a metric with status {status}");
    }
}
