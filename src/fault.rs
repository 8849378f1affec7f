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
    /// The host took no call: unknown cluster, no endpoint, circuit breaker full.
    NotDispatched = "not_dispatched",
    /// No answer within `timeout_ms`, all calls of a request together.
    Timeout = "timeout",
    /// The connection failed, or ended before the answer was complete.
    Reset = "reset",
    /// 401 or 403.
    Unauthorized = "unauthorized",
    /// 404, 405 or 501: no decision engine under this endpoint.
    WrongEndpoint = "wrong_endpoint",
    /// 429, 503 or 529.
    Overloaded = "overloaded",
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
    /// What a status other than 200 means.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Unauthorized,
            404 | 405 | 501 => Self::WrongEndpoint,
            429 | 503 | 529 => Self::Overloaded,
            504 => Self::Timeout,
            _ => Self::BadStatus,
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
