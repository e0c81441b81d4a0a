//! Manifests in, immutable spec snapshots out; beside them the expression sandbox and the selectors.
//!
//! The way of a manifest: [`read`] turns YAML into a [`Manifest`] and reports every problem at once, each with file, line
//! and column; [`registry`] makes rows of it and the manifest out of rows; [`compile`] merges five layers of settings into
//! a [`Snapshot`] for one operation, and [`explain`] tells who said what. Nothing here does I/O: no file, no clock, no
//! network. What a snapshot says never changes afterwards, so an executor needs the snapshot and nothing of the registry.
//!
//! Beside that way: [`to_yaml`] writes a manifest, [`diff`](fn@diff) compares two, [`schema`](fn@schema) is what an editor
//! wants to know, and [`dictionary`](fn@dictionary) is every word that may be written.

mod check;
mod compile;
mod dictionary;
mod diff;
mod export;
pub mod expr;
mod iso;
mod layers;
pub mod manifest;
mod origin;
pub mod pattern;
mod problem;
mod read;
pub mod registry;
mod schema;
pub mod selector;
pub mod snapshot;
mod suggest;
pub mod timeform;
mod words;
mod yaml;

pub use compile::{Compiled, Labels, compile, compile_with, explain, inspect};
pub use dictionary::dictionary;
pub use diff::{Change, diff};
pub use export::to_yaml;
pub use expr::Template;
pub use iso::Iso;
pub use layers::{Explained, Layer, Overrides};
pub use manifest::Manifest;
pub use patra_core::state::{Operation, UpdateReason};
pub use pattern::Pattern;
pub use problem::{Flaw, Problem, Problems};
pub use read::read;
pub use schema::schema;
pub use selector::Selector;
pub use snapshot::{Snapshot, host_key};
pub use timeform::TimeFormat;
pub use words::{
    AuthLocation, AuthType, ClientAuth, DedupScope, FieldType, Format, Grant, Kind, Method, Missing, OnError,
    OnMaxPage, OutOfRange, PagingType, ParamLocation, RateScope, Role,
};
pub use yaml::MAX_BYTES as MAX_MANIFEST_BYTES;
