//! Reading in two phases: both endpoints are there and fit together (ING-3.3-11, ING-4.17-04).

use serde_json::Value;

use super::Check;
use crate::expr;
use crate::manifest::{Endpoint, TwoPhase};
use crate::suggest::suggest;
use crate::words::Role;

const MAX_ID_BATCH: u32 = 10_000;

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
        let ids = batching.id_batch_size.or_else(|| endpoint.two_phase.is_some().then_some(size));
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
        let role = endpoint.role.unwrap_or_default();
        if role != Role::Search {
            let message = format!("a {} endpoint has no details of its own", role.as_str().to_lowercase());
            self.report_with(path, message, "`two_phase` belongs to a search endpoint");
        }
        let Some(name) = &two_phase.detail else {
            let hint = "the endpoint that gives the records, for example detail: work";
            return self.report_with(&format!("{path}.detail"), "`detail` is missing", hint);
        };
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
        if takes_one_id(detail) && endpoint.batching.id_batch_size.is_some_and(|size| size > 1) {
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
