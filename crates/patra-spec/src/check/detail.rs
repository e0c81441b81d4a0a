//! Details by id, for two phases and for UPDATE: both endpoints are there and fit together (ING-3.3-11, ING-4.17-04).

use serde_json::Value;

use super::Check;
use crate::expr;
use crate::iso::Iso;
use crate::manifest::{Endpoint, TwoPhase, Update};
use crate::suggest::suggest;
use crate::words::Role;

const MAX_ID_BATCH: u32 = 10_000;
const MAX_SEGMENT: u32 = 100_000;

/// Whether the requests of a detail endpoint ask for one record.
pub(crate) fn takes_one_id(detail: &Endpoint) -> bool {
    sends(detail, "id")
}

impl Check<'_> {
    pub(super) fn detail(&mut self, path: &str, endpoint: &Endpoint) {
        self.batching(path, endpoint);
        if let Some(two_phase) = &endpoint.two_phase {
            self.two_phase(path, endpoint, two_phase);
        }
        if let Some(update) = &endpoint.update {
            self.update(path, endpoint, update);
        }
    }

    fn batching(&mut self, path: &str, endpoint: &Endpoint) {
        let (path, batching) = (format!("{path}.batching"), &endpoint.batching);
        if batching.id_batch_size.is_some_and(|size| size == 0 || size > MAX_ID_BATCH) {
            self.report(&format!("{path}.id_batch_size"), format!("expected 1 to {MAX_ID_BATCH} ids"));
        }
        for (key, value) in [
            ("max_records_per_request", batching.max_records_per_request),
            ("combine_threshold", batching.combine_threshold),
        ] {
            if value == Some(0) {
                self.report(&format!("{path}.{key}"), "expected at least 1");
            }
        }
        let size = batching.id_batch_size.unwrap_or(crate::snapshot::DEFAULT_ID_BATCH_SIZE);
        if batching.combine_threshold.is_some_and(|threshold| threshold > size) {
            let message = format!("a batch has at most {size} ids and would never be combined");
            self.report_with(&format!("{path}.combine_threshold"), message, "lower it, or raise id_batch_size");
        }
        let Some(most) = batching.max_records_per_request else { return };
        let page_size = endpoint.pagination.as_ref().and_then(|paging| paging.page_size);
        let ids = batching.id_batch_size.or_else(|| endpoint.details().next().is_some().then_some(size));
        for (setting, value) in [("pagination.page_size", page_size), ("batching.id_batch_size", ids)] {
            if let Some(value) = value
                && value > most
            {
                let message = format!("{setting} {value} is more than the {most} records that one request may ask for");
                self.report(&format!("{path}.max_records_per_request"), message);
            }
        }
    }

    fn two_phase(&mut self, endpoint_path: &str, endpoint: &Endpoint, two_phase: &TwoPhase) {
        let path = &format!("{endpoint_path}.two_phase");
        self.selector(&format!("{path}.version_path"), two_phase.version_path.as_deref());
        self.is_search(path, endpoint, "two_phase");
        let Some(name) = &two_phase.detail else {
            let hint = "the endpoint that gives the records, for example detail: work";
            return self.report_with(&format!("{path}.detail"), "`detail` is missing", hint);
        };
        self.fits(path, endpoint_path, endpoint, name);
    }

    fn update(&mut self, endpoint_path: &str, endpoint: &Endpoint, update: &Update) {
        let path = &format!("{endpoint_path}.update");
        self.is_search(path, endpoint, "update");
        if update.stale_after.is_some_and(|after| after < Iso::secs(1)) {
            self.report(&format!("{path}.stale_after"), "expected at least PT1S");
        }
        if update.segment_size.is_some_and(|size| size == 0 || size > MAX_SEGMENT) {
            self.report(&format!("{path}.segment_size"), format!("expected 1 to {MAX_SEGMENT} records"));
        }
        match (&update.detail, &endpoint.two_phase) {
            (Some(name), _) => self.fits(path, endpoint_path, endpoint, name),
            (None, None) => self.needs_detail(&format!("{path}.detail")),
            // Looked at with `two_phase`.
            (None, Some(_)) => {}
        }
    }

    /// UPDATE knows ids and nothing else.
    pub(super) fn needs_detail(&mut self, path: &str) {
        let message = "UPDATE fetches stored records by their ids, and no endpoint is named that gives records by id";
        let hint = "add an endpoint with `role: detail` whose requests send `ids` or `id`, and name it: update: { detail: NAME }";
        self.report_with(path, message, hint);
    }

    fn is_search(&mut self, path: &str, endpoint: &Endpoint, key: &str) {
        let role = endpoint.role.unwrap_or_default();
        if role != Role::Search {
            let message = format!("a {} endpoint has no details of its own", role.as_str().to_lowercase());
            self.report_with(path, message, format!("`{key}` belongs to a search endpoint"));
        }
    }

    /// Whether the endpoint that a section names for details can give them.
    fn fits(&mut self, path: &str, endpoint_path: &str, endpoint: &Endpoint, name: &str) {
        let Some(detail) = self.manifest.endpoints.get(name) else {
            let names: Vec<_> = self.manifest.endpoints.keys().map(String::as_str).collect();
            let message = format!("there is no endpoint `{name}`");
            let problem = self.manifest.origin.problem(&format!("{path}.detail"), message, suggest(name, &names));
            return self.problems.push(problem);
        };
        if detail.role != Some(Role::Detail) {
            let message = format!("`{name}` is no detail endpoint");
            return self.report_with(&format!("{path}.detail"), message, format!("give `{name}` a `role: detail`"));
        }
        self.linked(path, name, detail);
        // Where both are named, each gets batches of its own size.
        let other = endpoint.details().any(|other| other != name);
        if takes_one_id(detail) && !other && endpoint.batching.id_batch_size.is_some_and(|size| size > 1) {
            let hint = "remove id_batch_size, or send `${ ids | join(',') }` there";
            let message = format!("`{name}` asks for one `id` at a time");
            self.report_with(&format!("{endpoint_path}.batching.id_batch_size"), message, hint);
        }
    }

    /// What a detail endpoint must be to be asked for the records of a search.
    fn linked(&mut self, path: &str, name: &str, detail: &Endpoint) {
        let at = format!("endpoints.{name}");
        match (sends(detail, "ids"), takes_one_id(detail)) {
            (false, false) => {
                let hint = "add a parameter such as id: \"${ ids | join(',') }\", or a path such as /works/${ id }";
                let message = "no template sends `ids` or `id`, so every request would ask for the same";
                self.report_with(&format!("{at}.query"), message, hint);
            }
            (true, true) => {
                let message = "`ids` asks for many records and `id` for one";
                self.report_with(&format!("{at}.query"), message, "keep one of them");
            }
            (true, false) | (false, true) => {}
        }
        for (key, there) in [
            ("pagination", detail.pagination.is_some()),
            ("two_phase", detail.two_phase.is_some()),
            ("update", detail.update.is_some()),
            ("partitions", !detail.partitions.is_empty()),
        ] {
            if there {
                let message = format!("`{name}` is asked for by id, and has no `{key}` of its own");
                self.report_with(&format!("{at}.{key}"), message, format!("remove it, or remove `{path}`"));
            }
        }
    }
}

/// Whether a template of the endpoint's requests reads the variable.
pub(super) fn sends(endpoint: &Endpoint, variable: &str) -> bool {
    sends_any(endpoint, |name| name == variable)
}

/// The same for any that passes.
pub(super) fn sends_any(endpoint: &Endpoint, wanted: impl Fn(&str) -> bool) -> bool {
    let params = endpoint.query.values().chain(endpoint.http.headers.values());
    let body = endpoint.body.as_ref();
    let form = body.and_then(|body| body.form.as_ref()).into_iter().flat_map(|form| form.values());
    let texts = params.chain(form).map(|param| &param.expr).chain(&endpoint.http.path);
    let mut texts = texts.chain(body.and_then(|body| body.raw.as_ref()));
    let json = body.and_then(|body| body.json.as_ref());
    texts.any(|text| expr::reads_any(text, &wanted)) || json.is_some_and(|json| json_reads(json, &wanted))
}

fn json_reads(json: &Value, wanted: &impl Fn(&str) -> bool) -> bool {
    match json {
        Value::String(text) => expr::reads_any(text, wanted),
        Value::Array(items) => items.iter().any(|item| json_reads(item, wanted)),
        Value::Object(map) => map.values().any(|value| json_reads(value, wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
