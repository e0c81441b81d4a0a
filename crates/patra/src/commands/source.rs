//! `source`: adds, lists, changes, imports and exports sources.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use patra_core::port::source::{SourceFilter, SourceQueries, StoredSource as Row};
use patra_core::port::{CommandsExt as _, Store};
use patra_core::project;
use patra_core::state::PausedReason;
use patra_core::tx::{ChangeSource, SaveSetting, SaveSources, SourceChanged, TxError};
use patra_engine::sources::{self, ImportReport, SourceDraft, opml};
use patra_engine::{check_source, introduce_types};
use patra_spec::suggest;

use super::collect;
use crate::cli::{AddSource, Collect, ExportFormat, Global, SOURCE_TYPES, Source};
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::settings::Environment;
use crate::{output, store};

/// Unusable entries of an import that are listed; the rest is counted.
const MOST_LISTED: usize = 20;
/// Largest file that is imported.
const MAX_IMPORT: u64 = 512 << 20;

pub(crate) async fn run(global: &Global, command: &Source) -> Result<Exit, Error> {
    match command {
        Source::Add(args) => add(global, args).await,
        Source::List { r#type } => list(global, r#type.as_deref()).await,
        Source::Pause { id } => {
            change(global, ChangeSource { is_active: Some(false), ..of(global, *id) }, "paused").await
        }
        Source::Resume { id } => {
            change(global, ChangeSource { is_active: Some(true), ..of(global, *id) }, "resumed").await
        }
        Source::Remove { id } => change(global, ChangeSource { delete: true, ..of(global, *id) }, "removed").await,
        Source::Fetch { id } => collect::run(global, &Collect { r#loop: false, source: Some(*id) }).await,
        Source::Import { file, r#type } => import(global, file, r#type).await,
        Source::Export { format } => export(global, *format).await,
        Source::Interval { r#type, minutes } => interval(global, r#type, *minutes).await,
    }
}

fn of(global: &Global, id: i64) -> ChangeSource {
    let project_key = global.project.clone().unwrap_or_else(|| project::DEFAULT.to_owned());
    ChangeSource { id, project_key, ..ChangeSource::default() }
}

async fn add(global: &Global, args: &AddSource) -> Result<Exit, Error> {
    let r#type = known_type(&args.r#type)?;
    let mut config: Value = match &args.config {
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Error::usage(format!("--config is not JSON: {error}"))
                .hint("pass a JSON object, such as '{\"subreddit\": \"rust\"}'")
        })?,
        None => json!({}),
    };
    if let Some(map) = config.as_object_mut() {
        map.extend(args.url.clone().map(|url| ("url".to_owned(), url.into())));
        map.extend(args.interval.map(|minutes| ("fetch_interval_minutes".to_owned(), minutes.into())));
    }
    let said =
        SourceDraft { r#type, name: args.name.clone(), config, is_public: args.public, ..SourceDraft::default() };
    let source = sources::checked(said).map_err(|message| unusable(&args.r#type, message))?;
    let (r#type, name) = (source.r#type.clone(), source.name.clone());
    let opened = store::open(global).await?;
    introduce(&*opened.store).await?;
    check_source(&*opened.store, &r#type, &source.config).await?.map_err(Error::usage)?;
    let project_key = store::project(global, &*opened.store).await?;
    let save = SaveSources { project_key, sources: vec![source] };
    let saved = opened.store.run(Arc::new(save)).await?;
    let saved = saved.sources.first().ok_or_else(|| Error::unexpected("nothing was stored"))?;
    let value = json!({ "id": saved.id, "name": name, "type": r#type, "existed": saved.existed });
    let text = match saved.existed {
        true => format!("this source exists already: {}", saved.id),
        false => format!("source {} added: {name}", saved.id),
    };
    output::result(global.output, &text, &value)?;
    Ok(if saved.existed { Exit::Failures } else { Exit::Ok })
}

/// A type that can be collected. Only imports and the HTTP API store sources of other types.
fn known_type(text: &str) -> Result<String, Error> {
    let r#type = sources::checked_type(text).map_err(Error::usage)?;
    if sources::unsupported(&r#type).is_none() {
        return Ok(r#type);
    }
    let meant = suggest::closest(&r#type, SOURCE_TYPES);
    let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
    let hint = format!("{meant}Known types: {}", SOURCE_TYPES.join(", "));
    Err(Error::usage(format!("there is no source type `{type}`")).hint(hint))
}

fn unusable(r#type: &str, message: String) -> Error {
    let hint = message.starts_with("`config.url` is missing").then(|| format!("add it: `patra source add {type} URL`"));
    hint.into_iter().fold(Error::usage(message), Error::hint)
}

/// Writes the intervals of the types. Before the first run of a collector there are none, and a new source would not be
/// due.
async fn introduce(store: &dyn Store) -> Result<(), Error> {
    Ok(introduce_types(store, &Environment::read().intervals().0).await?)
}

async fn change(global: &Global, change: ChangeSource, done: &str) -> Result<Exit, Error> {
    let id = change.id;
    let opened = store::open(global).await?;
    match opened.store.run(change).await {
        Ok(SourceChanged::Changed) => {
            output::result(global.output, &format!("source {id} {done}"), &json!({ "id": id, "done": done }))?;
            Ok(Exit::Ok)
        }
        Ok(SourceChanged::Unknown) => {
            Err(Error::not_found(format!("there is no source {id}")).hint("`patra source list` shows them"))
        }
        Err(TxError::Conflict) => Err(Error::failed("another source has this address")),
        Err(error) => Err(error.into()),
    }
}

async fn all(global: &Global, store: &dyn SourceQueries) -> Result<Vec<Row>, Error> {
    let filter = SourceFilter { project_key: global.project.clone(), ..SourceFilter::default() };
    Ok(store.sources(filter).await?)
}

async fn list(global: &Global, r#type: Option<&str>) -> Result<Exit, Error> {
    let opened = store::open_sources(global).await?;
    let mut sources = all(global, &*opened).await?;
    sources.retain(|source| r#type.is_none_or(|only| source.r#type == only));
    if global.output != crate::cli::Output::Table {
        let rows: Vec<_> = sources.iter().map(shown).collect();
        return match global.output {
            crate::cli::Output::Ndjson => {
                rows.iter().try_for_each(|row| output::line(&row.to_string())).map(|()| Exit::Ok)
            }
            _ => output::result(global.output, "", &rows.into()).map(|()| Exit::Ok),
        };
    }
    if sources.is_empty() {
        output::line("no sources; `patra source add rss URL` adds one")?;
        return Ok(Exit::Ok);
    }
    let short = |text: &str| text.chars().take(60).collect::<String>();
    let rows = sources.iter().map(|source| {
        let state = &source.state;
        let time = |at: Option<patra_core::Ts>| at.map_or_else(String::new, |at| at.to_short_text()[..16].to_owned());
        let why = source.unsupported.as_ref().or(state.last_error.as_ref());
        vec![
            source.id.to_string(),
            source.r#type.clone(),
            short(&source.name),
            source.status().to_owned(),
            source.interval.minutes.to_string(),
            time(state.last_fetched_at),
            time(source.next_attempt_at()),
            why.map_or_else(String::new, |why| short(why)),
        ]
    });
    output::grid(&["id", "type", "name", "status", "minutes", "last fetched", "next", "why"], rows)?;
    Ok(Exit::Ok)
}

fn shown(source: &Row) -> Value {
    let state = &source.state;
    json!({
        "id": source.id,
        "name": source.name,
        "type": source.r#type,
        "config": serde_json::from_str::<Value>(&source.config).unwrap_or_default(),
        "is_public": source.is_public,
        "is_active": state.paused.is_none(),
        "status": source.status(),
        "interval_minutes": source.interval.minutes,
        "interval_from": source.interval.from.as_str(),
        "last_fetched_at": state.last_fetched_at,
        "next_attempt_at": source.next_attempt_at(),
        "fetch_count": state.fetch_count,
        "fetch_error_count": state.fetch_error_count,
        "last_error": state.last_error,
        "paused_reason": state.paused.map(PausedReason::as_str),
    })
}

/// Adds the sources of a file. Unusable entries are listed, and the others are added.
async fn import(global: &Global, file: &Path, r#type: &str) -> Result<Exit, Error> {
    let entries = entries(&text(file, MAX_IMPORT)?, r#type).map_err(Error::usage)?;
    let opened = store::open(global).await?;
    introduce(&*opened.store).await?;
    let ImportReport { added, existed, unusable } =
        sources::import(&*opened.store, &store::project(global, &*opened.store).await?, entries).await?;
    for (at, reason) in unusable.iter().take(MOST_LISTED) {
        say(&format!("  entry {at}: {reason}"));
    }
    let wrong = unusable.len();
    let sources = if added == 1 { "source" } else { "sources" };
    let text = format!("{added} {sources} added, {existed} existed already, {wrong} unusable");
    output::result(global.output, &text, &json!({ "added": added, "existed": existed, "unusable": wrong }))?;
    Ok(if wrong > 0 { Exit::Failures } else { Exit::Ok })
}

/// Reads a file, or stdin for `-`.
pub(super) fn text(file: &Path, most: u64) -> Result<String, Error> {
    let mut text = Vec::new();
    let read = match file.to_str() {
        Some("-") => std::io::stdin().lock().take(most + 1).read_to_end(&mut text),
        _ => std::fs::File::open(file).and_then(|open| open.take(most + 1).read_to_end(&mut text)),
    };
    read.map_err(|error| {
        Error::configuration(format!("cannot read {}: {error}", file.display()))
            .hint("check the path and its permissions")
    })?;
    if text.len() as u64 > most {
        return Err(Error::usage(format!("{} has more than {most} bytes", file.display())));
    }
    String::from_utf8(text).map_err(|_| Error::usage(format!("{} is not UTF-8", file.display())))
}

type Entry = Result<SourceDraft, String>;

fn entries(text: &str, r#type: &str) -> Result<Vec<Entry>, String> {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.starts_with('<') {
        return Ok(opml::read(start)?.into_iter().map(|outline| Ok(SourceDraft::outlined(r#type, outline))).collect());
    }
    if start.starts_with('[') {
        let list: Vec<Value> = serde_json::from_str(start).map_err(|error| format!("the list is not JSON: {error}"))?;
        return Ok(list.iter().map(|value| entry(value, r#type)).collect());
    }
    let lines = start.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines
        .map(|line| match line.starts_with('{') {
            true => entry(&serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?, r#type),
            false => entry(&line.into(), r#type),
        })
        .collect())
}

/// One entry: an object as in the API, or a bare URL.
fn entry(value: &Value, r#type: &str) -> Entry {
    if let Value::String(url) = value {
        return Ok(SourceDraft { r#type: r#type.to_owned(), config: json!({ "url": url }), ..SourceDraft::default() });
    }
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let flag = |name: &str| value.get(name).and_then(Value::as_bool);
    let config = match (value.get("config"), text("url")) {
        (Some(config), _) => config.clone(),
        (None, Some(url)) => json!({ "url": url }),
        (None, None) => json!({}),
    };
    let fetched =
        text("last_fetched_at").map(|at| at.parse().map_err(|_| format!("last_fetched_at: {at:?} is not a time")));
    Ok(SourceDraft {
        r#type: text("type").unwrap_or_else(|| r#type.to_owned()),
        name: text("name"),
        config,
        is_public: flag("is_public").unwrap_or(false),
        is_active: flag("is_active"),
        last_fetched_at: fetched.transpose()?,
    })
}

async fn export(global: &Global, format: ExportFormat) -> Result<Exit, Error> {
    let sources = all(global, &*store::open_sources(global).await?).await?;
    match format {
        ExportFormat::Ndjson => {
            for source in &sources {
                let config: Value = serde_json::from_str(&source.config).unwrap_or_default();
                let row = json!({
                    "name": source.name, "type": source.r#type, "config": config, "is_public": source.is_public,
                    "is_active": source.state.paused.is_none(), "last_fetched_at": source.state.last_fetched_at,
                });
                output::line(&row.to_string())?;
            }
        }
        ExportFormat::Opml => output::line(sources::to_opml(&sources).trim_end())?,
    }
    Ok(Exit::Ok)
}

async fn interval(global: &Global, r#type: &str, minutes: Option<u32>) -> Result<Exit, Error> {
    let r#type = known_type(r#type)?;
    let opened = store::open(global).await?;
    let key = format!("fetch_interval.{type}");
    opened.store.run(SaveSetting { key: key.clone(), value: minutes.map(|minutes| minutes.to_string()) }).await?;
    let text = match minutes {
        Some(minutes) => format!("sources of type {type} are collected every {minutes} minutes"),
        None => format!("sources of type {type} are collected at the default interval"),
    };
    output::result(global.output, &text, &json!({ "key": key, "value": minutes }))?;
    Ok(Exit::Ok)
}
