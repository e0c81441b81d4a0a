//! `get`: rows of any view, also next to a running server.

use patra_core::port::query::{View, ViewFilter};
use patra_spec::suggest;

use super::{board, gates, registry};
use crate::cli::{Get, GetCommand, Global, Output};
use crate::error::{Error, Exit};
use crate::{output, store};

pub(crate) async fn run(global: &Global, args: &Get) -> Result<Exit, Error> {
    if let Some(command) = &args.command {
        let texts = [&args.provenance, &args.endpoint, &args.status];
        let numbers = [args.plan, args.task, args.run];
        if args.view.is_some() || texts.iter().any(|text| text.is_some()) || numbers.iter().any(Option::is_some) {
            return Err(Error::usage("a view and its filters are only for lists").hint("leave them out"));
        }
        return match command {
            GetCommand::Board(board) => board::show(global, board).await.map(|()| Exit::Ok),
            GetCommand::Registry(command) => registry::run(global, command).await,
        };
    }
    let view =
        args.view.ok_or_else(|| Error::usage("name a view to list").hint("`patra get --help` lists the views"))?;
    if args.limit == 0 && global.output != Output::Ndjson {
        return Err(Error::usage("--limit 0 lists all rows and needs --output ndjson").hint("add -o ndjson"));
    }
    let mut left = if args.limit == 0 { u64::MAX } else { args.limit };
    let status = args.status.as_deref().map(|status| checked_status(view, status)).transpose()?;
    let mut filter = ViewFilter {
        project_key: global.project.clone(),
        provenance_code: args.provenance.clone(),
        endpoint_name: args.endpoint.clone(),
        status,
        plan: args.plan,
        task: args.task,
        run: args.run,
        ..ViewFilter::default()
    };
    if global.project.is_some() && view.owner().is_none() {
        let message = format!("{} belong to no project", view.as_str());
        return Err(Error::usage(message).hint("leave --project out"));
    }
    view.conditions(&filter)
        .map_err(|error| Error::usage(format!("`{}` cannot be filtered by --{}", view.as_str(), error.filter())))?;
    let queries = store::open_to_read(global).await?;
    if view == View::Gates {
        gates::show(global, &*queries).await?;
        return Ok(Exit::Ok);
    }
    let mut gathered = Vec::new();
    loop {
        let page = left.min(u64::from(ViewFilter::MAX_LIMIT));
        filter.limit = u32::try_from(page).unwrap_or(ViewFilter::MAX_LIMIT);
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

/// The status as it is stored; a typing mistake is refused with the status that was meant.
fn checked_status(view: View, status: &str) -> Result<String, Error> {
    view.status(status).map_err(|error| {
        let refused = Error::usage(error.to_string());
        match suggest::closest(status, &view.statuses()) {
            Some(meant) => refused.hint(format!("did you mean `{meant}`?")),
            None => refused,
        }
    })
}
