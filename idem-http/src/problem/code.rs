//! The one table of problems.

use http::StatusCode;

/// Each line: the variant, its status, its `error.type`, its name, its title, and what is said
/// when nothing more exact can be.
macro_rules! codes {
    ($($variant:ident $status:ident $kind:ident $name:literal $title:literal $detail:literal)*) => {
        /// Which problem it is. Its [`name`](Self::name) ends the document's `type` and never
        /// changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(
                #[doc = concat!($title, " (`", $name, "`, `", stringify!($status), "`).")]
                #[doc = ""]
                #[doc = $detail]
                $variant,
            )*
        }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The status of its response, unless that says otherwise.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            /// What the document's `type` ends with.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The same for every document of this code (RFC 9457, section 3.1.3).
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// The sentence of a document that has no more exact one.
            pub const fn detail(self) -> &'static str {
                match self { $(Self::$variant => $detail,)* }
            }

            /// `error.type`, in the words of the payment SDKs that read it.
            pub const fn error_type(self) -> &'static str {
                match self { $(Self::$variant => stringify!($kind),)* }
            }
        }
    };
}

codes! {
    KeyMissing BAD_REQUEST idempotency_error "key-missing" "Idempotency key missing"
        "This request needs an idempotency key: send one, and the same one with each retry."
    KeyInvalid BAD_REQUEST idempotency_error "key-invalid" "Idempotency key invalid"
        "What was sent is not an idempotency key."
    KeyRepeated BAD_REQUEST idempotency_error "key-repeated" "More than one idempotency key"
        "One idempotency key is sent, in one header line."
    KeyReused UNPROCESSABLE_ENTITY idempotency_error "key-reused" "Idempotency key reused"
        "This idempotency key was used for another request. This one did not run."
    KeyInUse CONFLICT idempotency_error "key-in-use" "Request still running"
        "The first request under this idempotency key is still running."
    LeaseLost CONFLICT idempotency_error "lease-lost" "Request taken over"
        "Another execution of this request took over and is still running."
    OutcomeHeld CONFLICT idempotency_error "outcome-held" "Outcome unknown and held"
        "An earlier execution has no known outcome. Nothing runs it again until it is settled."
    OutcomeUnknown CONFLICT idempotency_error "outcome-unknown" "Outcome unknown"
        "The request was executed, and its outcome is not known."
    ReplyNotKept GONE idempotency_error "reply-not-kept" "Reply not kept"
        "The request was executed and answered once. The answer is not kept; nothing runs again."
    ReplyNotStored SERVICE_UNAVAILABLE api_error "reply-not-stored" "Reply not stored"
        "The request was executed, and its answer could not be stored. A retry finds out more."
    RolledBack SERVICE_UNAVAILABLE api_error "rolled-back" "Rolled back"
        "The request failed and changed nothing."
    ScopeMissing UNAUTHORIZED invalid_request_error "scope-missing" "Caller unknown"
        "An idempotency key belongs to a caller, and this request does not say who that is."
    ScopeInvalid BAD_REQUEST invalid_request_error "scope-invalid" "Caller unusable"
        "What says who the caller is cannot be used."
    BodyTooLarge PAYLOAD_TOO_LARGE invalid_request_error "body-too-large" "Body too large"
        "The request body is larger than this operation takes. Nothing ran."
    BodyIncomplete BAD_REQUEST invalid_request_error "body-incomplete" "Body incomplete"
        "The request body did not arrive whole. Nothing ran."
    StoreUnavailable SERVICE_UNAVAILABLE api_error "store-unavailable" "Store unavailable"
        "Whether this request ran before cannot be found out now. It did not run this time."
    StoreFull SERVICE_UNAVAILABLE api_error "store-full" "Store full"
        "There is no room to record this request. It did not run."
    StoreUnusable SERVICE_UNAVAILABLE api_error "store-unusable" "Store unusable"
        "The records are not of a form that this service works with. The request did not run."
    RecordCorrupt SERVICE_UNAVAILABLE api_error "record-corrupt" "Record unreadable"
        "What is recorded under this idempotency key cannot be read. Nothing ran."
    Busy SERVICE_UNAVAILABLE api_error "busy" "Too many requests running"
        "As many requests run as may. This one did not."
    Draining SERVICE_UNAVAILABLE api_error "draining" "Shutting down"
        "The service is shutting down. The request did not run."
    Misconfigured INTERNAL_SERVER_ERROR api_error "misconfigured" "Service misconfigured"
        "The service is put together wrongly. The request did not run."
    HandlerFailed INTERNAL_SERVER_ERROR api_error "handler-failed" "Request failed"
        "The request failed."
}

impl Code {
    /// `error.code`: the name, spelt as payment SDKs spell theirs.
    pub fn error_code(self) -> String {
        format!("idempotency_{}", self.name().replace('-', "_"))
    }
}
