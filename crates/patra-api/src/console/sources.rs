//! Sources: their state, and actions on them.

use axum::Extension;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::Response;
use serde_json::{Map, Value};
use url::form_urlencoded::Serializer;

use patra_core::port::source::{ItemFilter, SourceFilter, StoredSource};
use patra_core::source::TYPES;
use patra_core::state::{PausedReason, TriggerType};
use patra_core::tx::{ChangeSource, KeyScope};
use patra_engine::sources::{self, SourceDraft};
use patra_engine::{PollRequested, poll_now};

use super::context::{ConsoleContext, Done};
use super::lists::{encoded, missing, number};
use super::page::{Action, Actions, Code, Facts, Field, FieldKind, Form, Note, Page, Shown, Table, Tone};
use crate::envelope::Failure;
use crate::routes::input::PathText;
use crate::routes::sources::{save, unknown, update};

/// Sources per page.
const PAGE: usize = 50;
/// Most sources scanned for one page; the next page continues after them.
const MAX_SCANNED: u32 = 5_000;
/// Most polls and items on the page of a source.
const HISTORY: i64 = 15;
/// The choice for any value.
const ANY: &str = "any";

pub(super) async fn list(Extension(ctx): Extension<ConsoleContext>) -> Response {
    ctx.show(listed(&ctx).await)
}

async fn listed(ctx: &ConsoleContext) -> Result<Page, Failure> {
    let choice = |name| ctx.query.get(name).filter(|word| *word != ANY).map(str::to_owned);
    let conditions =
        SourceConditions { text: ctx.query.text("q").to_lowercase(), r#type: choice("type"), status: choice("status") };
    let after = ctx.query.number("after")?.unwrap_or_default();
    let filter = SourceFilter { after, limit: MAX_SCANNED, ..SourceFilter::default() };
    let scanned = ctx.store().sources(filter).await?;
    let all = scanned.len() < MAX_SCANNED as usize;
    let mut matching: Vec<_> = scanned.iter().filter(|source| conditions.is_met_by(source)).collect();
    let next = match matching.get(PAGE) {
        Some(_) => matching.get(PAGE - 1).map(|source| source.id.0),
        None => scanned.last().filter(|_| !all).map(|source| source.id.0),
    };
    matching.truncate(PAGE);
    let head = ["id", "name", "type", "status", "last fetched", "next", "fetches", "failures", "last error"];
    let mut table = Table::new("", &head, "No source matches.");
    for source in matching {
        table.rows.push(super::page::Row { actions: buttons(ctx, source), ..table_row(source) });
    }
    table.next = next.map(|id| conditions.next(id));
    Ok(Page::new("Sources").live().with(conditions.form()).with(table).with_all(adding(ctx)))
}

struct SourceConditions {
    text: String,
    r#type: Option<String>,
    status: Option<String>,
}

impl SourceConditions {
    fn is_met_by(&self, source: &StoredSource) -> bool {
        let says = |text: &str| text.to_lowercase().contains(&self.text);
        (says(&source.name) || says(&source.config))
            && self.r#type.as_ref().is_none_or(|wanted| *wanted == source.r#type)
            && self.status.as_ref().is_none_or(|wanted| wanted == source.status())
    }

    fn form(&self) -> Form {
        let or_any =
            |words: Vec<&str>| FieldKind::Choice(std::iter::once(ANY).chain(words).map(str::to_owned).collect());
        let chosen = |choice: &Option<String>| choice.clone().unwrap_or_else(|| ANY.to_owned());
        let types = TYPES.iter().map(|(name, _)| *name).collect();
        Form {
            title: String::new(),
            method: "get",
            action: "/sources".to_owned(),
            fields: vec![
                Field::new("q", "Name or address", self.text.as_str(), FieldKind::Line),
                Field::new("type", "Type", chosen(&self.r#type), or_any(types)),
                Field::new(
                    "status",
                    "Status",
                    chosen(&self.status),
                    or_any(vec!["ok", "error", "paused", "pending", "unsupported"]),
                ),
            ],
            button: "Filter".to_owned(),
            twin: "patra source list".to_owned(),
        }
    }

    fn next(&self, after: i64) -> String {
        let mut query = Serializer::new(String::new());
        query.append_pair("q", &self.text).append_pair("after", &after.to_string());
        query.extend_pairs(self.r#type.iter().map(|word| ("type", word)));
        query.extend_pairs(self.status.iter().map(|word| ("status", word)));
        format!("/sources?{}", query.finish())
    }
}

fn table_row(source: &StoredSource) -> super::page::Row {
    let (id, state) = (source.id.0, &source.state);
    let tone = if source.status() == "error" { Tone::Bad } else { Tone::Plain };
    let cells = vec![
        Shown::number(id).to(format!("/sources/{id}")),
        Shown::text(source.name.as_str()).to(format!("/sources/{id}")),
        Shown::text(source.r#type.as_str()),
        Shown::status(source.status()),
        Shown::maybe_time(state.last_fetched_at),
        Shown::maybe_time(source.next_attempt_at()),
        Shown::number(state.fetch_count),
        Shown::number(state.fetch_error_count),
        Shown::text(state.last_error.as_deref().unwrap_or("–")),
    ];
    super::page::Row { cells, tone, actions: Vec::new() }
}

fn buttons(ctx: &ConsoleContext, source: &StoredSource) -> Vec<Action> {
    if !ctx.is(KeyScope::Write) {
        return Vec::new();
    }
    let action = |label, word: &str| {
        let id = source.id.0;
        Action::new(label, format!("/sources/{id}/{word}"), format!("patra source {word} {id}"))
    };
    let paused = source.state.paused.is_some();
    vec![action("Fetch now", "fetch"), if paused { action("Resume", "resume") } else { action("Pause", "pause") }]
}

fn adding(ctx: &ConsoleContext) -> Option<Form> {
    let types = TYPES.iter().map(|(name, _)| (*name).to_owned()).collect();
    ctx.is(KeyScope::Write).then(|| Form {
        title: "Add a source".to_owned(),
        method: "post",
        action: "/sources".to_owned(),
        fields: vec![
            Field::new("type", "Type", "rss", FieldKind::Choice(types)),
            Field::new("url", "Address", "", FieldKind::Line).hint("of a feed, page or API"),
            Field::new("name", "Name", "", FieldKind::Line).hint("default: the address"),
            Field::new("config", "Settings", "", FieldKind::Line).hint("JSON: {\"subreddit\": \"rust\"}"),
        ],
        button: "Add".to_owned(),
        twin: "patra source add TYPE URL --name NAME --config JSON".to_owned(),
    })
}

pub(super) async fn add(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let done = async {
        let form = &ctx.form;
        let mut config: Map<String, Value> = match form.get("config") {
            Some(text) => serde_json::from_str(text)
                .map_err(|error| Failure::bad_request(format!("the settings are not a JSON object: {error}")))?,
            None => Map::new(),
        };
        config.extend(form.get("url").map(|url| ("url".to_owned(), url.into())));
        let draft = SourceDraft {
            r#type: form.text("type").to_owned(),
            name: form.get("name").map(str::to_owned),
            config: config.into(),
            is_public: false,
            is_active: None,
            last_fetched_at: None,
        };
        if sources::names_networks(&draft.config) {
            ctx.may(KeyScope::Admin)?;
            ctx.tenant.is_operator()?;
        }
        let id = save(&ctx.api, ctx.tenant.project()?, draft).await?;
        Ok((Note::good(format!("Source {id} was added and is fetched now.")), format!("/sources/{id}")))
    };
    ctx.done(done.await)
}

pub(super) async fn show(Extension(ctx): Extension<ConsoleContext>, id: PathText) -> Response {
    let page = async {
        let source = find(&ctx, number(id)?).await?;
        let id = source.id.0;
        let mut page = Page::new(source.name.as_str()).under("Sources", "/sources").live();
        if let Some(error) = &source.state.last_error {
            page = page.with(Note::new(Tone::Bad, error.as_str()));
        }
        if ctx.is(KeyScope::Write) {
            let mut actions = buttons(&ctx, &source);
            actions.push(
                Action::new("Remove", format!("/sources/{id}/remove"), format!("patra source remove {id}")).final_(),
            );
            page = page.with(Actions(actions));
        }
        let config: Value = serde_json::from_str(&source.config).unwrap_or_default();
        let page = page.with(facts(&source)).with(Code::json("Settings", &config));
        Ok(page.with(history(&ctx, &source).await?).with(items(&ctx, &source).await?))
    };
    ctx.show(page.await)
}

fn facts(source: &StoredSource) -> Facts {
    let state = &source.state;
    let facts = [
        ("id", Shown::number(source.id.0)),
        ("type", Shown::text(source.r#type.as_str())),
        ("project", Shown::text(source.project_key.as_str())),
        ("status", Shown::status(source.status())),
        ("every", Shown::text(format!("{} minutes ({})", source.interval.minutes, source.interval.from.as_str()))),
        ("last fetched", Shown::maybe_time(state.last_fetched_at)),
        ("next attempt", Shown::maybe_time(source.next_attempt_at())),
        ("fetches", Shown::number(state.fetch_count)),
        ("failures in a row", Shown::number(state.fetch_error_count)),
        ("last error", Shown::maybe_time(state.last_error_at)),
        ("paused", Shown::text(state.paused.map_or("no", PausedReason::as_str))),
        ("unsupported", Shown::text(source.unsupported.as_deref().unwrap_or("no"))),
        ("public", Shown::text(if source.is_public { "yes" } else { "no" })),
        ("created", Shown::time(source.created_at)),
    ];
    Facts { title: String::new(), facts: facts.map(|(word, value)| (word.to_owned(), value)).into() }
}

/// The last polls that are still in the ledger. Each is a job with a number in its name.
async fn history(ctx: &ConsoleContext, source: &StoredSource) -> Result<Table, Failure> {
    let head = ["poll", "requested", "ended", "batches", "new", "changed", "failed tasks"];
    let mut table = Table::new("History", &head, "There are no recent polls.");
    let newest = source.poll_count;
    for count in (0..=newest).rev().take(usize::try_from(HISTORY).unwrap_or_default()) {
        let job = format!("source-{}-{count}", source.id);
        let Some(progress) = ctx.store().progress(&job).await? else { continue };
        let tone = if progress.tasks_failed > 0 { Tone::Bad } else { Tone::Plain };
        let cells = vec![
            Shown::text(job.as_str()).to(format!("/jobs/{}", encoded(&job))),
            Shown::time(progress.created_at),
            Shown::maybe_time(progress.finished_at),
            Shown::number(progress.batches),
            Shown::number(progress.inserted),
            Shown::number(progress.updated),
            Shown::number(progress.tasks_failed),
        ];
        table.row(tone, cells);
    }
    Ok(table)
}

async fn items(ctx: &ConsoleContext, source: &StoredSource) -> Result<Table, Failure> {
    let filter = ItemFilter {
        project_key: source.project_key.clone(),
        sources: Some(vec![source.id.0]),
        limit: u32::try_from(HISTORY).unwrap_or_default(),
        ..ItemFilter::default()
    };
    let mut table = Table::new("Newest items", &["item", "title", "found"], "It has no items yet.");
    for item in ctx.store().raw_items(filter).await? {
        let fields: Value = serde_json::from_str(&item.fields).unwrap_or_default();
        let title = fields["title"].as_str().unwrap_or(&item.dedup_key).to_owned();
        let cells = vec![
            Shown::number(item.id).to(format!("/items/{}", item.id)),
            Shown::text(title),
            Shown::time(item.fetched_at),
        ];
        table.row(Tone::Plain, cells);
    }
    Ok(table)
}

pub(super) async fn act(
    Extension(ctx): Extension<ConsoleContext>,
    path: Result<Path<(i64, String)>, PathRejection>,
) -> Response {
    ctx.done(acted(&ctx, path).await)
}

async fn acted(ctx: &ConsoleContext, path: Result<Path<(i64, String)>, PathRejection>) -> Done {
    let Path((id, action)) = path.map_err(|_| missing("there is no such source".to_owned()))?;
    let source = find(ctx, id).await?;
    let change = ChangeSource { id, project_key: source.project_key.clone(), ..ChangeSource::default() };
    let here = format!("/sources/{id}");
    let (name, api) = (&source.name, &ctx.api);
    match action.as_str() {
        "fetch" => match poll_now(&api.store, source.id, TriggerType::Api).await? {
            PollRequested::Task(task) => {
                (api.nudge)();
                Ok((Note::good(format!("{name} is fetched now.")).to(format!("/tasks/{}", task.0)), here))
            }
            PollRequested::Skipped(reason) => {
                Ok((Note::new(Tone::Warn, format!("{name} was skipped: {reason}")), here))
            }
            PollRequested::Refused(reason) => Err(Failure::bad_request(reason)),
        },
        "pause" => {
            update(api, ChangeSource { is_active: Some(false), ..change }).await?;
            Ok((Note::good(format!("{name} is paused.")), here))
        }
        "resume" => {
            update(api, ChangeSource { is_active: Some(true), ..change }).await?;
            Ok((Note::good(format!("{name} is resumed.")), here))
        }
        "remove" => {
            update(api, ChangeSource { delete: true, ..change }).await?;
            Ok((Note::good(format!("{name} is removed.")), "/sources".to_owned()))
        }
        _ => Err(missing("there is no such action".to_owned())),
    }
}

/// A source, if the user may see it.
async fn find(ctx: &ConsoleContext, id: i64) -> Result<StoredSource, Failure> {
    let filter = SourceFilter { ids: Some(vec![id]), ..SourceFilter::default() };
    ctx.store().sources(filter).await?.pop().ok_or_else(|| unknown(id))
}
