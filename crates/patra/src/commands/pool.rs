//! `project` and `pool`: projects, and the URLs found in documents and jobs.

use std::io::{Read, Write as _};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use patra_core::hash::content_hash;
use patra_core::port::CommandsExt as _;
use patra_core::port::pool::UrlFilter;
use patra_core::project::{self, Library};
use patra_core::tx::{ConfigureCapture, CreateProject, PutDocument};
use patra_engine::links::{LinkFinder, LinkOptions, MAX_REMEMBERED};
use patra_engine::pool::{self, ExtractReport, ExtractRequest, LookBackRequest, PoolRefusal};

use crate::cli::{AddDocument, ExtractUrls, Global, ListUrls, LookBackUrls, Pool, Project};
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::{output, store};

/// Largest text of a document.
const MAX_DOCUMENT: u64 = 64 << 20;

pub(crate) async fn project(global: &Global, command: &Project) -> Result<Exit, Error> {
    match command {
        Project::Create { key, name } => {
            project::check(key).map_err(Error::usage)?;
            let name = name.clone().unwrap_or_else(|| key.clone());
            let made = store::open(global).await?.store.run(CreateProject { project_key: key.clone(), name }).await?;
            let text = match made.existed {
                true => format!("project {key} exists already"),
                false => format!("project {key} created"),
            };
            output::result(global.output, &text, &json!({ "project_key": key, "existed": made.existed }))?;
        }
        Project::List => {
            let projects = store::open_pool(global).await?.projects().await?;
            let rows: Vec<_> = projects
                .iter()
                .filter(|one| global.project.as_ref().is_none_or(|key| *key == one.project_key))
                .map(|one| json!({ "project_key": one.project_key, "name": one.name, "created_at": one.created_at }))
                .collect();
            output::values(global.output, &rows)?;
        }
    }
    Ok(Exit::Ok)
}

pub(crate) async fn run(global: &Global, command: &Pool) -> Result<Exit, Error> {
    match command {
        Pool::Extract(args) => extract(global, args).await,
        Pool::LookBack(args) => look_back(global, args).await,
        Pool::List(args) => list(global, args).await,
        Pool::Capture { job_types, off, scope } => capture(global, job_types, !off, *scope).await,
        Pool::Captured => captured(global).await,
        Pool::Add(args) => add(global, args).await,
        Pool::Find { file, remove_tracking } => find(global, file, *remove_tracking),
    }
}

async fn extract(global: &Global, args: &ExtractUrls) -> Result<Exit, Error> {
    let opened = store::open(global).await?;
    let request = ExtractRequest {
        project_key: store::project(global, &*opened.store).await?,
        library: args.scope,
        doc_types: args.doc_types.clone(),
        states: args.states.clone(),
        document_ids: (!args.documents.is_empty()).then(|| args.documents.clone()),
        limit: args.limit,
        before: args.before_id,
        include_uri: args.include_uri,
    };
    report(global, pool::extract(&*opened.store, &request).await, "documents_scanned", request.library)
}

async fn look_back(global: &Global, args: &LookBackUrls) -> Result<Exit, Error> {
    let opened = store::open(global).await?;
    let request = LookBackRequest {
        project_key: store::project(global, &*opened.store).await?,
        library: args.scope,
        task_ids: (!args.jobs.is_empty()).then(|| args.jobs.clone()),
        job_type: args.job_type.clone(),
        since: args.since,
        limit: args.limit,
    };
    report(global, pool::look_back(&*opened.store, &request).await, "tasks_scanned", request.library)
}

fn report(
    global: &Global,
    tally: Result<ExtractReport, PoolRefusal>,
    scanned: &str,
    library: Library,
) -> Result<Exit, Error> {
    let tally = tally.map_err(|refused| match refused {
        PoolRefusal::Missing(ids) => {
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            Error::not_found(format!("missing, or in another project: {}", ids.join(", ")))
                .hint("nothing was stored; `patra get items` and `patra get jobs` list the ids")
        }
        PoolRefusal::Store(error) => error.into(),
    })?;
    let of = scanned.trim_end_matches("_scanned");
    let text = format!(
        "{} {of} searched: {} URLs, {} of them new in the {} library",
        tally.scanned,
        tally.extracted,
        tally.new,
        library.as_str()
    );
    output::result(global.output, &text, &tally.to_json(scanned, library))?;
    if tally.too_long > 0 {
        say(&format!("{} URLs were skipped: they are too long", tally.too_long));
    }
    if tally.partial {
        say("there were too many URLs for one command: search fewer documents at a time");
    }
    if let Some(next) = tally.next_before {
        say(&format!("older documents remain: search them with --before-id {next}"));
    }
    Ok(Exit::Ok)
}

async fn list(global: &Global, args: &ListUrls) -> Result<Exit, Error> {
    let pool = store::open_pool(global).await?;
    let offset = if args.before.is_some() { 0 } else { u64::from(args.page - 1) * u64::from(args.page_size) };
    let page = pool
        .pool_urls(UrlFilter {
            project_key: store::project(global, &*pool).await?,
            scope: args.scope,
            source: args.source,
            domain: args.domain.as_ref().map(|domain| domain.to_lowercase()),
            offset,
            before: args.before,
            // One more shows whether there is a next page.
            limit: args.page_size + 1,
        })
        .await?;
    let shown: Vec<_> = page.items.iter().take(args.page_size as usize).collect();
    let rows: Vec<_> = shown.iter().map(|url| url.to_json(global.project.is_some())).collect();
    output::values(global.output, &rows)?;
    match args.before {
        None => {
            say(&format!("page {} of {}, {} URLs", args.page, page.total.div_ceil(args.page_size.into()), page.total));
        }
        Some(_) => say(&format!("{} URLs in total", page.total)),
    }
    if let Some(last) = shown.last().filter(|_| page.items.len() > shown.len()) {
        say(&format!("the next page, whatever is added meanwhile: --before {}", last.position()));
    }
    Ok(Exit::Ok)
}

async fn capture(global: &Global, job_types: &[String], enabled: bool, library: Library) -> Result<Exit, Error> {
    let opened = store::open(global).await?;
    let store = &*opened.store;
    let mut job_types = job_types.to_vec();
    job_types.sort();
    job_types.dedup();
    let project_key = store::project(global, store).await?;
    let known = pool::job_types(store, &project_key).await?;
    for unknown in job_types.iter().filter(|job_type| !known.contains(*job_type)) {
        say(&format!("there is no job of type {unknown} yet; its URLs are stored as soon as there is one"));
    }
    store.run(ConfigureCapture { project_key, library, job_types, enabled }).await?;
    show_rules(global, store).await
}

async fn captured(global: &Global) -> Result<Exit, Error> {
    show_rules(global, &*store::open_pool(global).await?).await
}

async fn show_rules(global: &Global, pool: &(impl patra_core::port::PoolQueries + ?Sized)) -> Result<Exit, Error> {
    let rules = pool.capture_rules(Some(&store::project(global, pool).await?)).await?;
    let rows: Vec<_> = rules
        .iter()
        .map(|rule| {
            json!({
                "job_type": rule.job_type, "scope": rule.library, "enabled": rule.enabled, "updated_at": rule.updated_at,
            })
        })
        .collect();
    output::values(global.output, &rows)?;
    Ok(Exit::Ok)
}

async fn add(global: &Global, args: &AddDocument) -> Result<Exit, Error> {
    let content = super::source::text(&args.file, MAX_DOCUMENT)?;
    let fields = json!({
        "uri": args.uri, "title": args.title, "doc_type": args.doc_type, "state": args.state, "content": content,
        "extracted_data": null,
    })
    .to_string();
    if fields.contains("\\u0000") || args.uri.trim().is_empty() {
        return Err(Error::usage("a document needs a URI, and must not contain the character NUL"));
    }
    let opened = store::open(global).await?;
    let put = PutDocument {
        project_key: store::project(global, &*opened.store).await?,
        uri: args.uri.clone(),
        content_hash: content_hash(fields.as_bytes()),
        payload: fields.clone(),
        fields,
    };
    let put = opened.store.run(Arc::new(put)).await?;
    let text = match (put.created, put.changed) {
        (true, _) => format!("document {} stored", put.id),
        (false, true) => format!("document {} changed", put.id),
        (false, false) => format!("document {} is unchanged", put.id),
    };
    let value = json!({ "document_id": put.id, "created": put.created, "changed": put.changed });
    output::result(global.output, &text, &value)?;
    Ok(Exit::Ok)
}

/// A failed search of a file.
enum FindFailure {
    Read(std::io::Error),
    Write(std::io::Error),
}

impl From<std::io::Error> for FindFailure {
    fn from(error: std::io::Error) -> FindFailure {
        FindFailure::Read(error)
    }
}

/// Reads the file in pieces, and prints each URL when it is found: there may be more of both than fit into memory.
fn find(global: &Global, file: &Path, remove_tracking: bool) -> Result<Exit, Error> {
    let wrong = |error: std::io::Error| {
        Error::configuration(format!("cannot read {}: {error}", file.display()))
            .hint("check the path and its permissions")
    };
    let document: Box<dyn Read> = match file.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => Box::new(std::fs::File::open(file).map_err(wrong)?),
    };
    let plain = global.output == crate::cli::Output::Table;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let found = LinkFinder::read_each(LinkOptions { remove_tracking }, document, |link| {
        let row = if plain { link.url } else { json!({ "url": link.url, "domain": link.domain }).to_string() };
        writeln!(out, "{row}").map_err(FindFailure::Write)
    });
    out.flush()?;
    let found = found.map_err(|failure| match failure {
        FindFailure::Read(error) => wrong(error),
        FindFailure::Write(error) => error.into(),
    })?;
    if found.too_long > 0 {
        say(&format!("{} URLs were skipped: they are too long", found.too_long));
    }
    if found.repeats {
        say(&format!("there are more than {MAX_REMEMBERED} URLs: some are printed more than once"));
    }
    Ok(Exit::Ok)
}
