//! Fields of queries and bodies.

use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) needed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Text,
    Int,
    Flag,
    Time,
    Texts,
    /// An object with any members.
    Map,
    Any,
}

impl Field {
    pub(crate) const fn needed(self) -> Field {
        Field { needed: true, ..self }
    }

    pub(super) fn schema(&self) -> Value {
        match self.kind {
            Kind::Text => json!({ "type": "string" }),
            Kind::Int => json!({ "type": "integer", "format": "int64" }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Time => json!({ "type": "string", "format": "date-time" }),
            Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Map => json!({ "type": "object" }),
            Kind::Any => json!({}),
        }
    }
}

macro_rules! kinds {
    ($($name:ident $kind:ident),* $(,)?) => {$(
        pub(crate) const fn $name(name: &'static str) -> Field {
            Field { name, kind: Kind::$kind, needed: false }
        }
    )*};
}

kinds! { text Text, int Int, flag Flag, time Time, texts Texts, map Map, any Any }
