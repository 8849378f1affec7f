//! How a decision engine can fail to answer.

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Every way in which an engine fails to answer. One variant is one counter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Fault {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Fault {
            /// Every fault, in the order of the README's table.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name in metrics and logs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

faults! {
    /// The host made no call: unknown cluster, no endpoint, name not resolved, circuit breaker full.
    NotDispatched = "not_dispatched",
    /// No answer, or not all of it, within `timeout_ms`, all calls of a request together; or a gateway's 504.
    Timeout = "timeout",
    /// The connection failed (refused, timed out, TLS), or ended before the answer was complete. An answer that is too
    /// large even for Envoy, 32 MiB, looks the same from here.
    Reset = "reset",
    /// 401 or 403.
    Unauthorized = "unauthorized",
    /// 404, 405, 501, or something that is not HTTP: no decision engine under this endpoint, or not with this model.
    WrongEndpoint = "wrong_endpoint",
    /// 429, 503 or 529.
    Overloaded = "overloaded",
    /// 400, 413 or 422: the engine will never judge these pairs, so they are kept. Not a failure of the engine.
    Unanswerable = "unanswerable",
    /// No call was made: calls pause after failures.
    Paused = "paused",
    /// Another status than 200.
    BadStatus = "bad_status",
    /// The answer is not declared as JSON.
    MediaType = "media_type",
    /// The answer is larger than its questions allow.
    TooLarge = "too_large",
    /// The answer is not JSON.
    NotJson = "not_json",
    /// The answer has no object of answers.
    Shape = "shape",
    /// A key stands twice.
    DuplicateKey = "duplicate_key",
    /// A question has no answer.
    MissingAnswer = "missing_answer",
    /// An answer to no question.
    ExtraAnswer = "extra_answer",
    /// An answer of another type than `noul`, or without a number.
    AnswerType = "answer_type",
    /// A probability outside 0 to 1.
    OutOfRange = "out_of_range",
}

impl Fault {
    /// What a status other than 200 means when the engine sent it.
    pub fn of_status(status: u16) -> Self {
        match status {
            400 | 413 | 422 => Self::Unanswerable,
            401 | 403 => Self::Unauthorized,
            404 | 405 | 501 => Self::WrongEndpoint,
            429 | 503 | 529 => Self::Overloaded,
            504 => Self::Timeout,
            _ => Self::BadStatus,
        }
    }

    /// What a status means when Envoy made it up because it got no reply.
    pub fn of_no_reply(status: u16) -> Self {
        match status {
            // What came was not HTTP.
            502 => Self::WrongEndpoint,
            503 => Self::Reset,
            _ => Self::of_status(status),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
