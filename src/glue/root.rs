//! The plugin: reads its configuration and makes one stream per request.

use super::{
    abi, analyst,
    measure::{self, Backlog, Observer},
    meters::Meters,
    stream::Stream,
};
use crate::{
    hold::{self, Watch},
    policy::{Mode, Policy, ProcessEnvironment},
};
use proxy_wasm::{
    traits::{Context, HttpContext, RootContext},
    types::{ContextType, LogLevel},
};
use std::{
    cell::RefCell,
    hash::{BuildHasher, Hasher, RandomState},
    rc::Rc,
    time::Duration,
};

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|_| Box::new(Root::default()));
}}

#[derive(Default)]
struct Root {
    policy: Option<Rc<Policy>>,
    meters: Rc<Meters>,
    watch: Rc<RefCell<Watch>>,
    backlog: Rc<RefCell<Backlog>>,
    seed: u64,
}

/// Where the seed stands in the data that all workers share.
const SEED: &str = "context_compaction.seed";

/// The seed that all workers share, so that a client cannot choose text that collides in memory. The first worker makes
/// it; creating is not atomic, so what counts is what stands there afterwards.
fn seed() -> u64 {
    let shared = || {
        let (bytes, _) = abi::shared(SEED).ok()?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    shared().unwrap_or_else(|| {
        let fresh = RandomState::new().build_hasher().finish();
        if abi::set_shared(SEED, &fresh.to_le_bytes(), 0).is_err() {
            log::warn!("the host shares no data between workers: each remembers answers by itself");
        }
        shared().unwrap_or(fresh)
    })
}

impl Root {
    fn tick_every(period: Duration) {
        if abi::set_tick(period).is_err() {
            log::error!("the host took no tick period: held requests are not watched, and nothing is measured");
        }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body_len: usize, _: usize) {
        if let Ok(mut backlog) = self.backlog.try_borrow_mut() {
            backlog.on_engine_reply(token, headers, body_len);
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        let json = abi::buffer(abi::Buffer::Configuration, usize::MAX).unwrap_or_default();
        let policy = match Policy::parse(&json, &ProcessEnvironment) {
            Ok(policy) => policy,
            Err(problems) => {
                for problem in problems {
                    log::error!("configuration refused: {problem}");
                }
                return false;
            }
        };
        for warning in policy.warnings() {
            log::warn!("{warning}");
        }
        let mode = match policy.mode {
            Mode::Off => "off",
            Mode::Measure => "measuring",
            Mode::Enforce => "on",
        };
        log::info!("context compaction {} is {mode}", env!("CARGO_PKG_VERSION"));
        self.meters = Rc::new(Meters::define());
        self.meters.show(policy.mode);
        self.seed = seed();
        Self::tick_every(match policy.mode {
            Mode::Measure => measure::TICK,
            Mode::Enforce if policy.hold_headers => hold::TICK,
            _ => Duration::ZERO,
        });
        self.policy = Some(Rc::new(policy));
        true
    }

    fn on_tick(&mut self) {
        let Some(policy) = &self.policy else { return };
        let measures = policy.mode == Mode::Measure;
        if measures && let Ok(mut backlog) = self.backlog.try_borrow_mut() {
            backlog.on_tick();
        }
        let Ok(mut watch) = self.watch.try_borrow_mut() else { return };
        if watch.is_proven() && !measures {
            return Self::tick_every(Duration::ZERO);
        }
        for request in watch.overdue(abi::now().unwrap_or_default()) {
            if abi::set_effective_context(request).is_ok() && analyst::wanted(policy) {
                analyst::refuse();
                continue;
            }
            let resumed = abi::set_effective_context(request).and_then(|()| abi::continue_request());
            if resumed.is_ok() {
                log::error!(
                    "no body came while headers were held, the request passes: set allow_on_headers_stop_iteration: true \
                     beside the configuration, or hold_headers to false"
                );
            }
        }
    }

    fn create_http_context(&self, context: u32) -> Option<Box<dyn HttpContext>> {
        let policy = self.policy.as_ref()?;
        let shared = (Rc::clone(&self.meters), Rc::clone(&self.watch), self.seed);
        if policy.mode == Mode::Measure {
            let backlog = Rc::clone(&self.backlog);
            return Some(Box::new(Observer::new(context, Rc::clone(policy), shared, backlog)));
        }
        Some(Box::new(Stream::new(context, Rc::clone(policy), shared)))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
