//! Finds out whether this host delivers a body while its headers are held, and lets requests go where it does not.
//!
//! Envoy does so only with `allow_on_headers_stop_iteration: true`, which cannot be read from inside. Without it a held
//! request gets no body callback and hangs. So until the first body has come to a held request, held requests are
//! watched; one that waits too long is let go with its original bytes.

use std::time::Duration;

/// A held request without a byte of its body after this time is let go.
pub const PATIENCE: Duration = Duration::from_millis(200);
/// How often to look while nothing is proven.
pub const TICK: Duration = Duration::from_millis(100);
/// So many in a row, and nothing is held for a while.
const STRIKES: u32 = 3;
/// How long nothing is held then. Slow clients alone can get here, so it is tried again.
const RECESS: Duration = Duration::from_secs(60);

/// What a body callback means for the request that it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It is held, as it should be.
    Kept,
    /// It was let go: its original bytes are on their way.
    Released,
}

/// The held requests of one VM.
#[derive(Debug, Default)]
pub struct Watch {
    proven: bool,
    waiting: Vec<(u32, Duration)>,
    released: Vec<u32>,
    strikes: u32,
    recess_until: Option<Duration>,
}

impl Watch {
    /// Whether the host is known to deliver bodies to held requests: then there is nothing to watch.
    pub fn is_proven(&self) -> bool {
        self.proven
    }

    /// Whether a request may be held now.
    pub fn may_hold(&mut self, now: Duration) -> bool {
        if self.recess_until.is_some_and(|until| now >= until) {
            self.recess_until = None;
            self.strikes = 0;
        }
        self.proven || self.recess_until.is_none()
    }

    /// The headers of `request` are held from now on.
    pub fn began(&mut self, request: u32, now: Duration) {
        if !self.proven {
            self.waiting.push((request, now));
        }
    }

    /// Body or trailers of `request` arrived.
    pub fn body_arrived(&mut self, request: u32) -> Hold {
        if self.released.contains(&request) {
            return Hold::Released;
        }
        if let Some(at) = self.waiting.iter().position(|(waiting, _)| *waiting == request) {
            self.waiting.swap_remove(at);
            self.proven = true;
        }
        Hold::Kept
    }

    /// The requests that have waited too long; they count as released, and the caller resumes them.
    pub fn overdue(&mut self, now: Duration) -> Vec<u32> {
        if self.proven {
            return Vec::new();
        }
        let late = |since: Duration| now.saturating_sub(since) >= PATIENCE;
        let overdue: Vec<u32> = self.waiting.iter().filter(|(_, since)| late(*since)).map(|(r, _)| *r).collect();
        self.waiting.retain(|(_, since)| !late(*since));
        self.released.extend(&overdue);
        self.strikes = self.strikes.saturating_add(u32::try_from(overdue.len()).unwrap_or(u32::MAX));
        if self.strikes >= STRIKES && self.recess_until.is_none() {
            self.recess_until = Some(now.saturating_add(RECESS));
        }
        overdue
    }

    /// The stream of `request` is over.
    pub fn ended(&mut self, request: u32) {
        self.waiting.retain(|(waiting, _)| *waiting != request);
        self.released.retain(|released| *released != request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_body_under_hold_proves_the_host_and_ends_the_watch() {
        let mut watch = Watch::default();
        watch.began(1, at(0));
        watch.began(2, at(0));
        assert_eq!(watch.body_arrived(1), Hold::Kept);
        assert!(watch.is_proven());
        assert!(watch.overdue(at(10_000)).is_empty(), "a slow client is no reason any more");
        assert_eq!(watch.body_arrived(2), Hold::Kept);
    }

    #[test]
    fn a_request_without_a_body_is_let_go_once() {
        let mut watch = Watch::default();
        watch.began(1, at(0));
        assert!(watch.overdue(at(199)).is_empty());
        assert_eq!(watch.overdue(at(200)), [1]);
        assert!(watch.overdue(at(300)).is_empty());
        assert_eq!(watch.body_arrived(1), Hold::Released);
        assert!(!watch.is_proven(), "a body after the release proves nothing");
        watch.ended(1);
        assert_eq!(watch.released, Vec::<u32>::new());
    }

    #[test]
    fn after_three_nothing_is_held_for_a_minute_and_then_it_is_tried_again() {
        let mut watch = Watch::default();
        for request in 0..3 {
            assert!(watch.may_hold(at(0)));
            watch.began(request, at(0));
        }
        assert_eq!(watch.overdue(at(200)).len(), 3);
        assert!(!watch.may_hold(at(60_199)));
        assert!(watch.may_hold(at(60_200)));
        watch.began(9, at(60_200));
        assert_eq!(watch.body_arrived(9), Hold::Kept);
        assert!(watch.is_proven() && watch.may_hold(at(60_201)));
    }
}
