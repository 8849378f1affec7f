//! A gate in the way of a stand-in or a client: what waits at it goes on when the test opens it.
//!
//! With it a test says what happens before what, where a pause would only make it likely.

use tokio::sync::watch;

/// Shut at first; clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    /// A shut gate.
    pub fn shut() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Lets through what waits and whatever comes later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until the gate is open.
    pub(super) async fn opened(&self) {
        // It fails only without a sender, and `self` is one.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}
