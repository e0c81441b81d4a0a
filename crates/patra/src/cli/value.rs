//! Values of options: words from a list, and `NAME=VALUE` pairs. A wrong word is refused with the closest one, or with
//! all.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use ipnet::IpNet;

use patra_core::Level;
use patra_core::port::query::View;
use patra_core::project::{Library, LibraryScope};
use patra_core::state::{AuthType, Operation, UpdateReason};
use patra_core::tx::{KeyScope, UrlSource};
use patra_spec::suggest;

/// A value that is one of a few words. Case does not matter, and `-` and `_` are the same.
#[derive(Clone, Debug)]
pub(crate) struct OneOf<T> {
    words: Vec<(String, T)>,
    /// Words of an older release, which still work and are not shown.
    old: Vec<(&'static str, T)>,
}

impl<T: Clone> OneOf<T> {
    fn new(values: &[T], word: impl Fn(&T) -> &'static str) -> OneOf<T> {
        let words = values.iter().map(|value| (word(value).to_lowercase(), value.clone())).collect();
        OneOf { words, old: Vec::new() }
    }

    fn find(&self, text: &str) -> Option<T> {
        let text = normal(text);
        let shown = self.words.iter().map(|(word, value)| (word.as_str(), value));
        let old = self.old.iter().map(|(word, value)| (*word, value));
        shown.chain(old).find(|(word, _)| normal(word) == text).map(|(_, value)| value.clone())
    }
}

fn normal(word: &str) -> String {
    word.trim().to_lowercase().replace('_', "-")
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let text = value.to_string_lossy();
        self.find(&text).ok_or_else(|| {
            let mut words: Vec<&str> = self.words.iter().map(|(word, _)| word.as_str()).collect();
            let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
            error.insert(
                ContextKind::InvalidArg,
                ContextValue::String(arg.map(ToString::to_string).unwrap_or_default()),
            );
            error.insert(ContextKind::InvalidValue, ContextValue::String(text.to_string()));
            let valid = words.iter().map(|word| (*word).to_owned()).collect();
            error.insert(ContextKind::ValidValue, ContextValue::Strings(valid));
            // Where a view may stand, a command may stand too.
            if arg.is_some_and(Arg::is_positional) {
                words.extend(command.get_subcommands().map(Command::get_name));
            }
            if let Some(word) = suggest::closest(&text, &words) {
                error.insert(ContextKind::SuggestedValue, ContextValue::String(word.to_owned()));
            }
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().map(|(word, _)| PossibleValue::new(word.clone()))))
    }
}

pub(crate) fn operation() -> OneOf<Operation> {
    OneOf::new(Operation::ALL, |operation| operation.as_str())
}

pub(crate) fn reason() -> OneOf<UpdateReason> {
    let mut reasons = OneOf::new(UpdateReason::ALL, |reason| reason.as_str());
    reasons.words.iter_mut().for_each(|(word, _)| *word = normal(word));
    reasons
}

pub(crate) fn view() -> OneOf<View> {
    OneOf::new(View::ALL, |view| view.as_str())
}

pub(crate) fn level() -> OneOf<Level> {
    let mut levels = OneOf::new(Level::ALL, |level| level.as_str());
    levels.words.iter_mut().for_each(|(word, _)| *word = word.to_uppercase());
    levels
}

pub(crate) fn auth_type() -> OneOf<AuthType> {
    OneOf::new(AuthType::ALL, |kind| kind.as_str())
}

pub(crate) fn scope() -> OneOf<KeyScope> {
    OneOf::new(&[KeyScope::Read, KeyScope::Write, KeyScope::Admin], |scope| scope.as_str())
}

pub(crate) fn library() -> OneOf<Library> {
    OneOf::new(&[Library::Project, Library::Shared], |library| library.as_str())
}

pub(crate) fn sight() -> OneOf<LibraryScope> {
    OneOf::new(&[LibraryScope::Effective, LibraryScope::Project, LibraryScope::Shared], |sight| sight.as_str())
}

pub(crate) fn url_source() -> OneOf<UrlSource> {
    OneOf::new(&[UrlSource::Document, UrlSource::Task], |source| source.as_str())
}

/// A network without host bits: `10.0.0.5/8` looks like one address and would allow 16 million.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    patra_spec::network::parse(text)
}

/// `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}
