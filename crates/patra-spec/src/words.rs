//! The dictionaries of the manifest language (ING-3.3-06). Each word has one stored spelling; a manifest may write it in
//! either case, as codes are compared without case (PLT-04).

use patra_core::state::UpdateReason;
use patra_core::window::Align;

use crate::expr::NullPolicy;

macro_rules! words {
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

        impl Word for $name {
            fn all() -> &'static [$name] {
                $name::ALL
            }

            fn word(self) -> &'static str {
                self.as_str()
            }
        }
    };
}

/// One word of a closed list.
pub(crate) trait Word: Copy + 'static {
    fn all() -> &'static [Self];
    fn word(self) -> &'static str;

    /// Other spellings that are read as this word, and never stored.
    fn aliases(self) -> &'static [&'static str] {
        &[]
    }
}

impl Word for Align {
    fn all() -> &'static [Align] {
        &[Align::Minute, Align::Hour, Align::Day]
    }

    fn word(self) -> &'static str {
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

impl Word for UpdateReason {
    fn all() -> &'static [UpdateReason] {
        UpdateReason::ALL
    }

    fn word(self) -> &'static str {
        self.as_str()
    }
}

impl Word for NullPolicy {
    fn all() -> &'static [NullPolicy] {
        &[NullPolicy::Omit, NullPolicy::Empty, NullPolicy::Error]
    }

    fn word(self) -> &'static str {
        match self {
            NullPolicy::Omit => "omit",
            NullPolicy::Empty => "empty",
            NullPolicy::Error => "error",
        }
    }
}

words! {
    /// What an endpoint is for (ING-3.4-11).
    Role {
        #[default]
        Search = "SEARCH",
        Detail = "DETAIL",
        Metrics = "METRICS",
    }
}

words! {
    Method {
        #[default]
        Get = "GET",
        Post = "POST",
    }
}

words! {
    /// How an endpoint pages (ING-4.3).
    PagingType {
        #[default]
        Token = "TOKEN",
        Offset = "OFFSET",
        Page = "PAGE",
        Url = "URL",
        Time = "TIME",
    }
}

words! {
    /// What a rate holds for (C-31).
    RateScope {
        #[default]
        Endpoint = "ENDPOINT",
        Source = "SOURCE",
        Credential = "CREDENTIAL",
        Host = "HOST",
    }
}

words! {
    /// What a record is.
    Kind {
        #[default]
        Document = "document",
        Work = "work",
        Note = "note",
        Tweet = "tweet",
        Article = "article",
    }
}

words! {
    /// How a body is decoded.
    Format {
        #[default]
        Json = "json",
        Xml = "xml",
        Csv = "csv",
        /// RSS, RDF, Atom, JSON Feed: entries with keys of their own.
        Feed = "feed",
        /// A page: the feed that it names, or itself.
        Page = "page",
        /// A page with rows, found by selectors.
        Html = "html",
        /// Tweets, as TwitterAPI.io and X's own API write them.
        Tweets = "tweets",
    }
}

words! {
    /// Within what a record's id is unique (MAP-C-10).
    DedupScope {
        #[default]
        Endpoint = "endpoint",
        Source = "source",
        /// Among the tweets of all endpoints.
        Tweet = "tweet",
    }
}

words! {
    /// What a mapped field is made into.
    FieldType {
        /// As it came.
        #[default]
        Json = "json",
        String = "string",
        Integer = "integer",
        Number = "number",
        Boolean = "boolean",
        Timestamp = "timestamp",
    }
}

words! {
    /// What a field that cannot be made into its type does to the record.
    OnError {
        /// The field is left out.
        #[default]
        Null = "null",
        /// The record goes to quarantine.
        Reject = "reject",
    }
}

words! {
    /// How we prove who we are (ING-4.2-01, C-20, MAP-X-20).
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

words! {
    /// Which part of a request carries the credential (ING-4.2-03).
    AuthLocation {
        #[default]
        Header = "HEADER",
        Query = "QUERY",
        Body = "BODY",
    }
}

words! {
    Grant {
        #[default]
        ClientCredentials = "CLIENT_CREDENTIALS",
        RefreshToken = "REFRESH_TOKEN",
        Password = "PASSWORD",
    }
}

words! {
    /// How a client names itself where tokens are given out.
    ClientAuth {
        #[default]
        Basic = "BASIC",
        Body = "BODY",
    }
}

words! {
    /// Which part of a request a value goes to (ING-3.2-10).
    ParamLocation {
        #[default]
        Query = "QUERY",
        Header = "HEADER",
        Body = "BODY",
    }
}

words! {
    /// What an id is for which the detail endpoint gives no record.
    Missing {
        /// It is set aside.
        #[default]
        Bad = "bad",
        Ignore = "ignore",
    }
}

words! {
    /// What becomes of the rest of a slice when `max_page` is reached (C-24).
    OnMaxPage {
        /// It is left, and the slice is PARTIAL.
        #[default]
        Partial = "partial",
        /// It is cut into narrower windows (ING-4.3-16).
        Split = "split",
    }
}

words! {
    /// What becomes of a record outside the window of its slice.
    OutOfRange {
        #[default]
        Skip = "skip",
        /// For far sides that filter by another clock than the record shows.
        Keep = "keep",
    }
}
