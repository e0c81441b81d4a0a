//! Compiles manifests into immutable spec snapshots. Also holds the expression sandbox and the selectors.
//!
//! [`read`] turns YAML into a [`Manifest`] and reports every problem at once, each with file, line and column.
//! [`registry`] converts a manifest to rows and back. [`compile`] merges five layers of settings into a [`Snapshot`]
//! for one operation, and [`explain`] reports which layer set each value. Nothing here does I/O: no file, no clock, no
//! network. A snapshot never changes, so an executor needs the snapshot and nothing of the registry.
//!
//! [`to_yaml`] writes a manifest, [`diff`](fn@diff) compares two, [`schema`](fn@schema) is the JSON Schema for editors,
//! and [`dictionary`](fn@dictionary) lists every keyword of the manifest language.

mod check;
mod compile;
mod dictionary;
mod diff;
mod export;
pub mod expr;
mod iso_duration;
mod keywords;
mod layers;
pub mod manifest;
pub mod network;
mod origin;
pub mod pattern;
mod problem;
mod read;
pub mod registry;
mod schema;
pub mod selector;
pub mod snapshot;
pub mod suggest;
pub mod time_format;
mod yaml;

pub use compile::{CompiledSnapshot, SnapshotLabels, compile, compile_with, explain, inspect};
pub use dictionary::dictionary;
pub use diff::{ManifestChange, diff};
pub use export::to_yaml;
pub use expr::Template;
pub use iso_duration::IsoDuration;
pub use keywords::{
    AbsentList, AuthLocation, AuthType, ClientAuth, DedupScope, EndpointRole, FieldType, MissingDetail, MissingRecords,
    OAuth2Grant, OnFieldError, OnMaxPage, OutOfRange, PagingType, ParamLocation, RateScope, RecordKind, RequestMethod,
    ResponseFormat, RobotsRule, TotalMeaning, VerifyMode, WindowMode,
};
pub use layers::{ExplainedSetting, Overrides, SettingLayer};
pub use manifest::Manifest;
pub use patra_core::state::{Operation, UpdateReason};
pub use pattern::Pattern;
pub use problem::{Problem, Problems, SyntaxError};
pub use read::read;
pub use schema::schema;
pub use selector::Selector;
pub use snapshot::{Snapshot, host_key};
pub use time_format::TimeFormat;
pub use yaml::MAX_BYTES as MAX_MANIFEST_BYTES;
