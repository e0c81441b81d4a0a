//! The keywords of the manifest language (ING-3.3-06). Each has one stored spelling; a manifest may write it in either
//! case, because codes are compared without case (PLT-04).

use patra_core::state::UpdateReason;
use patra_core::window::Align;

use crate::expr::NullPolicy;

macro_rules! keywords {
    ($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$attr])* #[serde(rename = $word)] $variant),* }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }

        impl Keyword for $name {
            fn all() -> &'static [$name] {
                $name::ALL
            }

            fn code(self) -> &'static str {
                self.as_str()
            }
        }
    };
}

/// A keyword of a closed list.
pub(crate) trait Keyword: Copy + 'static {
    fn all() -> &'static [Self];
    fn code(self) -> &'static str;

    /// Other accepted spellings, which are never stored.
    fn aliases(self) -> &'static [&'static str] {
        &[]
    }
}

impl Keyword for Align {
    fn all() -> &'static [Align] {
        &[Align::Minute, Align::Hour, Align::Day]
    }

    fn code(self) -> &'static str {
        match self {
            Align::Minute => "min",
            Align::Hour => "hour",
            Align::Day => "day",
        }
    }

    /// C-18.
    fn aliases(self) -> &'static [&'static str] {
        if self == Align::Minute { &["minute"] } else { &[] }
    }
}

impl Keyword for UpdateReason {
    fn all() -> &'static [UpdateReason] {
        UpdateReason::ALL
    }

    fn code(self) -> &'static str {
        self.as_str()
    }
}

impl Keyword for NullPolicy {
    fn all() -> &'static [NullPolicy] {
        &[NullPolicy::Omit, NullPolicy::Empty, NullPolicy::Error]
    }

    fn code(self) -> &'static str {
        match self {
            NullPolicy::Omit => "omit",
            NullPolicy::Empty => "empty",
            NullPolicy::Error => "error",
        }
    }
}

keywords! {
    /// Role of an endpoint (ING-3.4-11).
    EndpointRole {
        #[default]
        Search = "SEARCH",
        Detail = "DETAIL",
        Metrics = "METRICS",
    }
}

keywords! {
    RequestMethod {
        #[default]
        Get = "GET",
        Post = "POST",
    }
}

keywords! {
    /// Paging type of an endpoint (ING-4.3).
    PagingType {
        #[default]
        Token = "TOKEN",
        Offset = "OFFSET",
        Page = "PAGE",
        Url = "URL",
        Time = "TIME",
    }
}

keywords! {
    /// Scope that shares a rate limit (C-31).
    RateScope {
        #[default]
        Endpoint = "ENDPOINT",
        Source = "SOURCE",
        Credential = "CREDENTIAL",
        Host = "HOST",
    }
}

keywords! {
    /// Kind of a record.
    RecordKind {
        #[default]
        Document = "document",
        Work = "work",
        Note = "note",
        Tweet = "tweet",
        Article = "article",
    }
}

keywords! {
    /// Format of a response body.
    ResponseFormat {
        #[default]
        Json = "json",
        Xml = "xml",
        Csv = "csv",
        /// RSS, RDF, Atom, JSON Feed: entries with fixed keys.
        Feed = "feed",
        /// A web page: the feed that it links to, or the page itself.
        Page = "page",
        /// A web page with rows that are found by CSS selectors.
        Html = "html",
        /// Tweets, as TwitterAPI.io and X's own API write them.
        Tweets = "tweets",
    }
}

keywords! {
    /// Scope within which a record id is unique (MAP-C-10).
    DedupScope {
        #[default]
        Endpoint = "endpoint",
        Source = "source",
        /// Among the tweets of all endpoints.
        Tweet = "tweet",
    }
}

keywords! {
    /// Target type of a mapped field.
    FieldType {
        /// Unchanged.
        #[default]
        Json = "json",
        String = "string",
        Integer = "integer",
        Number = "number",
        Boolean = "boolean",
        Timestamp = "timestamp",
    }
}

keywords! {
    /// What happens to a record with a field that cannot be cast.
    OnFieldError {
        /// The field is left out.
        #[default]
        Null = "null",
        /// The record goes to quarantine.
        Reject = "reject",
    }
}

keywords! {
    /// Authentication type (ING-4.2-01, C-20, MAP-X-20).
    AuthType {
        #[default]
        None = "NONE",
        ApiKey = "API_KEY",
        Bearer = "BEARER",
        Basic = "BASIC",
        OAuth2 = "OAUTH2",
        Cookie = "COOKIE",
        Session = "SESSION",
        Custom = "CUSTOM",
    }
}

keywords! {
    /// Part of the request that carries the credential (ING-4.2-03).
    AuthLocation {
        #[default]
        Header = "HEADER",
        Query = "QUERY",
        Body = "BODY",
    }
}

keywords! {
    OAuth2Grant {
        #[default]
        ClientCredentials = "CLIENT_CREDENTIALS",
        RefreshToken = "REFRESH_TOKEN",
        Password = "PASSWORD",
    }
}

keywords! {
    /// How the client authenticates at the token endpoint.
    ClientAuth {
        #[default]
        Basic = "BASIC",
        Body = "BODY",
    }
}

keywords! {
    /// Part of the request that a value goes to (ING-3.2-10).
    ParamLocation {
        #[default]
        Query = "QUERY",
        Header = "HEADER",
        Body = "BODY",
    }
}

keywords! {
    /// How an id without a detail record is treated.
    MissingDetail {
        /// The id goes to quarantine.
        #[default]
        Bad = "bad",
        Ignore = "ignore",
    }
}

keywords! {
    /// How a slice shows that it has missed no record while its list moved (G-23).
    VerifyMode {
        /// `seams` for offset paging; otherwise `total`.
        #[default]
        Auto = "auto",
        /// Each page overlaps the one before by a record.
        Seams = "seams",
        /// The total must not change, and as many distinct records must arrive.
        Total = "total",
        /// The list is read until two passes agree.
        Twice = "twice",
        /// No checks.
        None = "none",
    }
}

impl ResponseFormat {
    /// Whether a response can be well-formed and lack the list of records.
    pub(crate) fn may_lack_list(self) -> bool {
        matches!(self, ResponseFormat::Json | ResponseFormat::Xml)
    }
}

keywords! {
    /// How a response without the list of records is treated.
    AbsentList {
        /// The response has another format (G-11).
        #[default]
        Error = "error",
        /// The page has no records.
        Empty = "empty",
    }
}

keywords! {
    /// What the total number of records that a response reports means.
    TotalMeaning {
        /// As many records must arrive, and a change means that records joined or left.
        #[default]
        Exact = "exact",
        /// It may change, or not be reached, without a record that is missing.
        Estimate = "estimate",
    }
}

keywords! {
    /// How the rest of a slice is treated when `max_page` is reached (C-24).
    OnMaxPage {
        /// The rest is skipped, and the slice is PARTIAL.
        #[default]
        Partial = "partial",
        /// The rest is split into narrower windows (ING-4.3-16).
        Split = "split",
    }
}

keywords! {
    /// How a record outside the window of its slice is treated.
    OutOfRange {
        #[default]
        Skip = "skip",
        /// For upstreams that filter by another time than the one in the record.
        Keep = "keep",
    }
}

keywords! {
    /// Whether the robots.txt of a host decides which of its URLs are requested (RFC 9309).
    RobotsRule {
        #[default]
        Ignore = "ignore",
        Respect = "respect",
    }
}

keywords! {
    /// What a slice reads.
    WindowMode {
        /// A window of time.
        #[default]
        Time = "time",
        /// The whole list, every time.
        Snapshot = "snapshot",
    }
}

keywords! {
    /// How records are treated that a list no longer has.
    MissingRecords {
        #[default]
        Keep = "keep",
        /// They are marked after a complete pass.
        Mark = "mark",
    }
}
