//! `get`: rows of any view, also beside a running server.

use patra_core::port::query::{Filter, View};

use super::{board, gates, registry};
use crate::cli::{Get, GetOne, Global, Output};
use crate::error::{Error, Exit};
use crate::{output, store};

pub(crate) async fn run(global: &Global, args: &Get) -> Result<Exit, Error> {
    if let Some(what) = &args.one {
        let texts = [&args.provenance, &args.endpoint, &args.status];
        let numbers = [args.plan, args.task, args.run];
        if args.view.is_some() || texts.iter().any(|text| text.is_some()) || numbers.iter().any(Option::is_some) {
            return Err(Error::usage("a view and its filters are for lists: this is not one"));
        }
        return match what {
            GetOne::Board(what) => board::show(global, what).await.map(|()| Exit::Ok),
            GetOne::Registry(what) => registry::run(global, what).await,
        };
    }
    let view = args.view.ok_or_else(|| Error::usage("name what to list"))?;
    if args.limit == 0 && global.output != Output::Ndjson {
        return Err(Error::usage("--limit 0, for all rows, needs --output ndjson"));
    }
    let mut left = if args.limit == 0 { u64::MAX } else { args.limit };
    let status = args.status.as_deref().map(|status| view.status(status)).transpose();
    let mut filter = Filter {
        project_key: global.project.clone(),
        provenance_code: args.provenance.clone(),
        endpoint_name: args.endpoint.clone(),
        status: status.map_err(|error| Error::usage(error.to_string()))?,
        plan: args.plan,
        task: args.task,
        run: args.run,
        ..Filter::default()
    };
    if global.project.is_some() && view.owner().is_none() {
        let message = format!("{} are of no project", view.as_str());
        return Err(Error::usage(message).hint("leave --project out"));
    }
    view.conditions(&filter).map_err(|error| Error::usage(error.to_string()))?;
    let queries = store::open_to_read(global).await?;
    if view == View::Gates {
        gates::show(global, &*queries).await?;
        return Ok(Exit::Ok);
    }
    let mut gathered = Vec::new();
    loop {
        let page = left.min(u64::from(Filter::MAX_LIMIT));
        filter.limit = u32::try_from(page).unwrap_or(Filter::MAX_LIMIT);
        let rows = queries.list(view, filter.clone()).await?;
        let last = (rows.len() as u64) < page;
        filter.before_id = rows.last().and_then(|row| view.cell(row, "id")).and_then(|id| id.as_int());
        left -= rows.len() as u64;
        if global.output == Output::Ndjson {
            output::rows(global.output, view, &rows)?;
        } else {
            gathered.extend(rows);
        }
        if last || left == 0 {
            break;
        }
    }
    if global.output != Output::Ndjson {
        output::rows(global.output, view, &gathered)?;
    }
    Ok(Exit::Ok)
}
