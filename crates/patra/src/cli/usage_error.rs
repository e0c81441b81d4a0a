//! Mistakes on the command line, in the grammar of all errors: what is wrong, a blank line, what to do.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use patra_spec::suggest;

use crate::error::Error;

/// So many values are listed next to a suggestion.
const FEW: usize = 8;

/// Turns an error of the parser into ours.
pub(crate) fn usage_error(error: &clap::Error, root: &Command, args: &[OsString]) -> Error {
    let text = error.to_string();
    let (mut message, mut hints) = (Vec::new(), Vec::new());
    let (command, path) = addressed(root, args);
    hints.extend(suggestion(error, command));
    for part in text.trim_start_matches("error: ").trim_end().split("\n\n") {
        if part.trim_start().starts_with("tip:") {
            let tips = part.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
            hints.extend(tips.filter(|tip| !tip.contains(" similar ")).map(str::to_owned));
        } else if !part.starts_with("For more information") {
            // The hint names the values, or the one that was meant.
            let lines = part.lines().filter(|line| !line.contains("[possible values: "));
            message.push(lines.collect::<Vec<_>>().join("\n"));
        }
    }
    if hints.is_empty() {
        hints.push(format!("see `{path} --help`"));
    }
    let mut message = message.join("\n\n");
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
        message = message.replace("invalid digit found in string", &format!("`{value}` is not a number"));
    }
    Error::usage(message).hint(hints.join("; "))
}

/// Whether the command is incomplete, and its help is the best message.
pub(crate) fn is_incomplete(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// The command that the arguments lead to, and how to type it.
fn addressed<'a>(root: &'a Command, args: &[OsString]) -> (&'a Command, String) {
    let (mut command, mut path, mut is_value) = (root, root.get_name().to_owned(), false);
    for word in args.iter().skip(1).map(|word| word.to_string_lossy()) {
        if is_value || word.starts_with('-') {
            is_value = !is_value && takes_value(command, &word);
        } else if let Some(found) = command.find_subcommand(&*word) {
            path = format!("{path} {}", found.get_name());
            command = found;
        } else {
            break;
        }
    }
    (command, path)
}

/// Whether the value of an option is the next word.
fn takes_value(command: &Command, option: &str) -> bool {
    let is_named = |arg: &&clap::Arg| {
        arg.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long))
            || arg.get_short().is_some_and(|short| option.strip_prefix('-') == Some(&short.to_string()))
    };
    command.get_arguments().find(is_named).is_some_and(|arg| arg.get_action().takes_values())
}

/// The word that was meant, or all that are possible.
fn suggestion(error: &clap::Error, command: &Command) -> Option<String> {
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
    {
        let known: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        if let Some(meant) = suggest::closest(word, &known) {
            return Some(format!("did you mean `{meant}`?"));
        }
    }
    let close = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    if let Some(words) = close.into_iter().find_map(|kind| error.get(kind)).map(words)
        && !words.is_empty()
    {
        let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
        let meant = format!("did you mean {}?", words.join(" or "));
        // A long list would hide the suggestion.
        let few =
            error.get(ContextKind::ValidValue).map(self::words).filter(|known| !known.is_empty() && known.len() <= FEW);
        return Some(few.map_or(meant.clone(), |known| format!("{meant} It is one of: {}", known.join(", "))));
    }
    let known = error.get(ContextKind::ValidValue).map(words)?;
    (!known.is_empty()).then(|| format!("expected one of: {}", known.join(", ")))
}

fn words(value: &ContextValue) -> Vec<String> {
    match value {
        ContextValue::String(word) => vec![word.clone()],
        ContextValue::Strings(words) => words.clone(),
        _ => Vec::new(),
    }
}
