//! The first page: what fails, what waits, what is collected now.

use axum::Extension;
use axum::response::Response;

use patra_core::port::query::{Filter, View};

use super::lists;
use super::page::{Page, Table};
use super::visit::Visit;
use crate::envelope::Failure;

/// Rows of each part.
const MOST: u32 = 12;

pub(super) async fn overview(Extension(visit): Extension<Visit>) -> Response {
    let page = async {
        let fails = part(&visit, View::Batches, "FAILED", "What fails").await?;
        let aside = part(&visit, View::Quarantine, "OPEN", "Records set aside").await?;
        let now = part(&visit, View::Tasks, "EXECUTING", "Collected now").await?;
        let waits = part(&visit, View::Tasks, "QUEUED", "What waits").await?;
        Ok(Page::new("Overview").live().with_all([fails, aside, now, waits]))
    };
    visit.show(page.await)
}

async fn part(visit: &Visit, view: View, status: &str, title: &str) -> Result<Table, Failure> {
    let filter = Filter { status: Some(status.to_owned()), limit: MOST, ..Filter::default() };
    let table = lists::rows(visit, view, filter).await?;
    let more = table.next.as_ref().map(|_| format!("/{}?status={status}", view.as_str()));
    Ok(Table { title: title.to_owned(), next: None, more, ..table })
}
