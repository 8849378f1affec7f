//! The plugin: reads its configuration and makes one stream per request.

use super::{abi, meters::Meters, stream::Stream};
use crate::{
    hold::{self, Watch},
    policy::{Mode, Policy, ProcessEnvironment},
};
use proxy_wasm::{
    traits::{Context, HttpContext, RootContext},
    types::{ContextType, LogLevel},
};
use std::{cell::RefCell, rc::Rc, time::Duration};

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|_| Box::new(Root::default()));
}}

#[derive(Default)]
struct Root {
    policy: Option<Rc<Policy>>,
    meters: Rc<Meters>,
    watch: Rc<RefCell<Watch>>,
}

impl Root {
    fn tick_every(period: Duration) {
        if abi::set_tick(period).is_err() {
            log::error!("the host took no tick period: held requests are not watched");
        }
    }
}

impl Context for Root {}

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
        let mode = if policy.mode == Mode::Enforce { "on" } else { "off" };
        log::info!("context compaction {} is {mode}", env!("CARGO_PKG_VERSION"));
        self.meters = Rc::new(Meters::define());
        let watched = policy.mode == Mode::Enforce && policy.hold_headers;
        Self::tick_every(if watched { hold::TICK } else { Duration::ZERO });
        self.policy = Some(Rc::new(policy));
        true
    }

    fn on_tick(&mut self) {
        let Ok(mut watch) = self.watch.try_borrow_mut() else { return };
        if watch.is_proven() {
            return Self::tick_every(Duration::ZERO);
        }
        for request in watch.overdue(abi::now().unwrap_or_default()) {
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
        let shared = (Rc::clone(&self.meters), Rc::clone(&self.watch));
        Some(Box::new(Stream::new(context, Rc::clone(policy), shared)))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
