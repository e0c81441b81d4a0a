//! The dictionaries of the manifest language (ING-3.3-06). Each word has one stored spelling; a manifest may write it in
//! either case, as codes are compared without case (PLT-04).

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
