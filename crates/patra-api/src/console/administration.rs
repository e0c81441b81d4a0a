//! Administration: gates and budgets, alerts, the URL pool, credentials, keys, settings.

use axum::Extension;
use axum::response::Response;

use patra_core::port::CommandsExt as _;
use patra_core::port::board::WorkFilter;
use patra_core::port::crawl::CookieFilter;
use patra_core::port::pool::{PoolUrl, UrlFilter};
use patra_core::port::query::{Cell, View, ViewFilter, ViewRow};
use patra_core::project::LibraryScope;
use patra_core::source::{MAX_MINUTES, TYPES};
use patra_core::tx::{KeyScope, RevokeKey, SaveSetting};
use patra_engine::board::{self, GateBudget};
use patra_engine::sources::checked_type;

use super::chart::figure;
use super::context::ConsoleContext;
use super::page::{Action, Field, FieldKind, Form, Note, Page, Shown, Table, Tone};
use super::{lists, overview};
use crate::envelope::Failure;
use crate::key;
use crate::routes::input::{PathText, path_text};
use crate::routes::pool::position;

/// URLs per page.
const PAGE: u32 = 50;
/// Settings that the page does not show.
const HIDDEN: &[&str] = &["cookie_salt"];

pub(super) async fn gates(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let page = async {
        let page = Page::new("Gates and budgets").live().with(budgets(&ctx).await?);
        // Gates are shared by all projects.
        Ok(if ctx.tenant.is_operator().is_ok() { page.with(all_gates(&ctx).await?) } else { page })
    };
    ctx.show(page.await)
}

/// Actual and allowed request rates, what slowed requests down, and what healed by itself.
async fn budgets(ctx: &ConsoleContext) -> Result<Table, Failure> {
    let (store, clock) = (&*ctx.api.store, &*ctx.api.clock);
    let about = WorkFilter { project_key: ctx.tenant.sight()?.map(str::to_owned), ..WorkFilter::default() };
    let window = board::window(None, None, clock.now()).map_err(|error| Failure::bad_request(error.to_string()))?;
    let head =
        ["where", "requests/s", "budget/s", "rate now", "left", "429", "slowed down", "quota", "waited", "healed"];
    let mut table = Table::new("Budgets of the last hour", &head, "No requests were sent in the last hour.");
    for line in board::budget(store, store, clock, about, window).await? {
        let (slow, healing) = (&line.slowdowns, &line.self_healing);
        let of_gate = |text: fn(&GateBudget) -> String| Shown::amount(line.gate.as_ref().map_or("–".to_owned(), text));
        let healed = healing.qps_downshift
            + healing.page_size_shrink
            + healing.concurrency_down
            + healing.circuit_open
            + healing.resliced;
        let cells = vec![
            Shown::text(overview::name(&line.of)),
            Shown::amount(figure(line.actual_qps)),
            of_gate(|gate| figure(gate.budget_qps)),
            of_gate(|gate| figure(gate.effective_qps)),
            of_gate(|gate| gate.remaining.map_or("no limit".to_owned(), |left| left.to_string())),
            Shown::number(slow.throttled),
            Shown::number(slow.demoted + slow.retry_after),
            Shown::number(slow.quota_soft + slow.quota_hard),
            Shown::amount(overview::span(slow.wait_ms / 1_000)),
            Shown::number(healed),
        ];
        table.row(if slow.quota_hard > 0 { Tone::Warn } else { Tone::Plain }, cells);
    }
    Ok(table)
}

async fn all_gates(ctx: &ConsoleContext) -> Result<Table, Failure> {
    let (api, now) = (&ctx.api, ctx.api.clock.now());
    let head = [
        "rate key",
        "state",
        "rate now",
        "declared",
        "left of the hour",
        "left of the day",
        "permits",
        "slowed down",
        "changed",
    ];
    let mut table = Table::new("Gates", &head, "No requests were sent yet.");
    for gate in patra_engine::operations::gates(&*api.store, &*api.clock).await? {
        let view = &gate.view;
        let (state, tone) = match view.cooldown_until.filter(|until| *until > now) {
            Some(until) => (format!("silent until {}", until.to_short_text()), Tone::Warn),
            None if view.remaining() == Some(0) => ("used up".to_owned(), Tone::Bad),
            None if view.is_soft() => ("little left".to_owned(), Tone::Warn),
            None => ("open".to_owned(), Tone::Plain),
        };
        let left = |of: Option<patra_core::gate::QuotaStatus>| {
            of.map_or_else(|| Shown::text("no limit"), |of| Shown::amount(format!("{} of {}", of.remaining, of.limit)))
        };
        let cells = vec![
            Shown::code(gate.rate_key.as_str()),
            Shown::text(state),
            Shown::amount(format!("{:.2}/s", view.rate)),
            Shown::amount(format!("{:.2}/s", view.declared.per_sec)),
            left(view.hourly),
            left(view.daily),
            Shown::number(view.permits),
            Shown::number(view.lowered),
            Shown::time(gate.updated_at),
        ];
        table.row(tone, cells);
    }
    Ok(table)
}

pub(super) async fn alerts(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let page = async {
        ctx.tenant.is_operator()?;
        let head = ["alert", "state", "level", "about", "detail", "value", "threshold", "since", "notified"];
        let mut table = Table::new("", &head, "No alert was evaluated yet.");
        for alert in ctx.api.store.alerts().await? {
            let firing = alert.state.firing;
            let cells = vec![
                Shown::text(alert.alert.as_str()),
                Shown::status(if firing { "firing" } else { "quiet" }),
                Shown::text(alert.level.as_str()),
                Shown::text(alert.subject.as_str()),
                Shown::text(alert.detail.as_str()),
                Shown::number(alert.value),
                Shown::number(alert.threshold),
                Shown::maybe_time(alert.state.since),
                Shown::maybe_time(alert.state.notified_at),
            ];
            table.row(if firing { Tone::Bad } else { Tone::Plain }, cells);
        }
        Ok(Page::new("Alerts").live().with(table))
    };
    ctx.show(page.await)
}

pub(super) async fn pool(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let page = async {
        let (project, before) = (ctx.tenant.sight()?, position(ctx.query.get("before"))?);
        let domain = ctx.query.text("domain").to_lowercase();
        let found = ctx.api.store.pool_urls(UrlFilter {
            project_key: project.unwrap_or_default().to_owned(),
            // Without a project, only the shared library can be read.
            scope: if project.is_some() { LibraryScope::Effective } else { LibraryScope::Shared },
            source: None,
            domain: Some(domain.clone()).filter(|domain| !domain.is_empty()),
            offset: 0,
            before,
            // One more shows whether there is a next page.
            limit: PAGE + 1,
        });
        let found = found.await?;
        let shown: Vec<_> = found.items.iter().take(PAGE as usize).collect();
        let last = shown.last().filter(|_| found.items.len() > shown.len());
        let mut table = Table::new(
            format!("{} URLs", found.total),
            &["id", "url", "domain", "found in", "library", "when"],
            "There are none.",
        );
        for url in &shown {
            let cells = vec![
                Shown::number(url.id),
                Shown::text(url.url.as_str()),
                Shown::text(url.domain.as_str()),
                Shown::text(url.source.as_str()),
                Shown::text(url.library.as_str()),
                Shown::time(url.created_at),
            ];
            table.row(Tone::Plain, cells);
        }
        let next = |last: &&PoolUrl| format!("/pool?domain={}&before={}", lists::encoded(&domain), last.position());
        table.next = last.map(next);
        let form = Form {
            title: String::new(),
            method: "get",
            action: "/pool".to_owned(),
            fields: vec![Field::new("domain", "Domain", domain, FieldKind::Line)],
            button: "Filter".to_owned(),
            twin: "patra pool list".to_owned(),
        };
        Ok(Page::new("URL pool").with(form).with(table))
    };
    ctx.show(page.await)
}

pub(super) async fn credentials(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let page = async {
        let all = ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() };
        let known = lists::rows(&ctx, View::Credentials, all.clone()).await?;
        let states = lists::rows(&ctx, View::CredentialStates, all).await?;
        let page =
            Page::new("Credentials").live().with(Table { title: "In the vault".to_owned(), next: None, ..known });
        let page = page.with(Table {
            title: "Tokens".to_owned(),
            empty: "No token was fetched.".to_owned(),
            next: None,
            ..states
        });
        Ok(page
            .with(cookies(&ctx).await?)
            .with(Note::new(Tone::Plain, "Secrets are never shown.").hint("patra credential add, rotate, revoke")))
    };
    ctx.show(page.await)
}

/// Cookies on the page; the list of the API has them all.
const SHOWN_COOKIES: u32 = 200;

async fn cookies(ctx: &ConsoleContext) -> Result<Table, Failure> {
    let head = ["cookie", "platform", "status", "used today", "errors in a row", "cooling until", "last used"];
    let mut table = Table::new("Cookies", &head, "There are none.");
    let filter = CookieFilter { limit: SHOWN_COOKIES, ..CookieFilter::default() };
    let (cookies, now) = ctx.api.store.cookies(filter).await?;
    for cookie in cookies {
        let usage = cookie.usage.after_cooling(now);
        let cells = vec![
            Shown::text(cookie.cookie_name.as_str()),
            Shown::text(cookie.platform.as_str()),
            Shown::status(if usage.paused_at.is_some() { "paused" } else { usage.status.as_str() }),
            Shown::amount(format!("{} of {}", usage.daily_used, usage.daily_limit)),
            Shown::number(usage.consecutive_errors),
            Shown::maybe_time(usage.cooling_until),
            Shown::maybe_time(usage.last_used_at),
        ];
        table.row(Tone::Plain, cells);
    }
    Ok(table)
}

pub(super) async fn keys(Extension(ctx): Extension<ConsoleContext>) -> Response {
    ctx.show(keys_page(&ctx).await)
}

async fn keys_page(ctx: &ConsoleContext) -> Result<Page, Failure> {
    ctx.may(KeyScope::Admin)?;
    let (view, filter) = (View::Keys, ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() });
    let (rows, _) = crate::routes::views::query(&ctx.api, &ctx.tenant, view, filter.clone()).await?;
    let mut table = lists::rows(ctx, view, filter).await?;
    for (line, row) in table.rows.iter_mut().zip(&rows) {
        line.actions = revoking(row).into_iter().collect();
    }
    table.next = None;
    let scopes = [KeyScope::Read, KeyScope::Write, KeyScope::Admin].map(|scope| scope.as_str().to_owned());
    let form = Form {
        title: "Make a key".to_owned(),
        method: "post",
        action: "/keys".to_owned(),
        fields: vec![
            Field::new("name", "Name", "", FieldKind::Line).hint("what it is for"),
            Field::new("scope", "Scope", "read", FieldKind::Choice(scopes.into())),
            Field::new("project", "Project", "", FieldKind::Line).hint("the only one it may access; empty: all"),
        ],
        button: "Make".to_owned(),
        twin: "patra key create NAME --scope SCOPE --project KEY".to_owned(),
    };
    Ok(Page::new("API keys").with(table).with(form))
}

fn revoking(row: &ViewRow) -> Option<Action> {
    match (View::Keys.cell(row, "prefix"), View::Keys.cell(row, "revoked_at")) {
        (Some(Cell::Text(prefix)), Some(Cell::Null)) => {
            let twin = format!("patra key revoke {prefix}");
            Some(Action::new("Revoke", format!("/keys/{prefix}/revoke"), twin).final_())
        }
        _ => None,
    }
}

/// Creates a key. This response is the only one that contains it.
pub(super) async fn make_key(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let page = async {
        ctx.may(KeyScope::Admin)?;
        ctx.tenant.is_operator()?;
        let form = &ctx.form;
        let name = key::checked_name(form.text("name")).map_err(Failure::bad_request)?;
        let scope: KeyScope =
            form.text("scope").parse().map_err(|_| Failure::bad_request("a key may read, write or admin"))?;
        let projects: Vec<_> = form.get("project").map(str::to_owned).into_iter().collect();
        for project in &projects {
            ctx.tenant.admit(&ctx.api, project).await?;
        }
        let (text, create) = key::generate(name, scope, projects, false, false)
            .map_err(|error| Failure::bad_request(format!("no randomness: {error}")))?;
        ctx.api.store.run(create).await?;
        let mut page = keys_page(&ctx).await?;
        page.blocks.insert(0, Note::good(text).hint("This is the key. It is shown only now.").into());
        Ok(page)
    };
    ctx.show(page.await)
}

pub(super) async fn revoke_key(Extension(ctx): Extension<ConsoleContext>, prefix: PathText) -> Response {
    let done = async {
        ctx.may(KeyScope::Admin)?;
        ctx.tenant.is_operator()?;
        let prefix = path_text(prefix)?;
        if !ctx.api.store.run(RevokeKey { prefix: prefix.clone() }).await?.revoked {
            return Err(lists::missing(format!("there is no key {prefix:?} that could be revoked")));
        }
        Ok((Note::good(format!("Key {prefix} is revoked.")), "/keys".to_owned()))
    };
    ctx.done(done.await)
}

pub(super) async fn settings(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let page = async {
        ctx.may(KeyScope::Admin)?;
        ctx.tenant.is_operator()?;
        let mut table = Table::new("In the database", &["setting", "value"], "There are none.");
        for (name, value) in ctx.api.store.settings().await? {
            if !HIDDEN.contains(&name.as_str()) {
                table.row(Tone::Plain, vec![Shown::code(name), Shown::text(value)]);
            }
        }
        let mut types = Table::new("Types of sources", &["type", "every", "says"], "No collector has run yet.");
        for row in ctx.api.store.source_types().await? {
            let cells = vec![
                Shown::text(row.r#type.as_str()),
                Shown::text(format!("{} minutes", row.interval.minutes)),
                Shown::text(row.unsupported.as_deref().unwrap_or(row.interval.from.as_str())),
            ];
            types.row(Tone::Plain, cells);
        }
        let choices = TYPES.iter().map(|(name, _)| (*name).to_owned()).collect();
        let form = Form {
            title: "How often a type is collected".to_owned(),
            method: "post",
            action: "/settings".to_owned(),
            fields: vec![
                Field::new("type", "Type", "rss", FieldKind::Choice(choices)),
                Field::new("minutes", "Minutes", "", FieldKind::Line).hint("empty: the default"),
            ],
            button: "Set".to_owned(),
            twin: "patra source interval TYPE MINUTES".to_owned(),
        };
        Ok(Page::new("Settings").with(types).with(form).with(table))
    };
    ctx.show(page.await)
}

pub(super) async fn set_interval(Extension(ctx): Extension<ConsoleContext>) -> Response {
    let done = async {
        ctx.may(KeyScope::Admin)?;
        ctx.tenant.is_operator()?;
        let r#type = checked_type(ctx.form.text("type")).map_err(Failure::bad_request)?;
        let minutes: Option<u32> = ctx.form.number("minutes")?;
        if minutes.is_some_and(|minutes| minutes == 0 || minutes > MAX_MINUTES) {
            return Err(Failure::bad_request(format!("an interval has 1 to {MAX_MINUTES} minutes")));
        }
        let (key, value) = (format!("fetch_interval.{type}"), minutes.map(|minutes| minutes.to_string()));
        ctx.api.store.run(SaveSetting { key, value }).await?;
        (ctx.api.nudge)();
        Ok((
            Note::good(format!("Sources of type {type} change at the next tick of the collector.")),
            "/settings".to_owned(),
        ))
    };
    ctx.done(done.await)
}
