//! Checks detail fetching by id, for two phases and for UPDATE: both endpoints exist and fit together (ING-3.3-11,
//! ING-4.17-04).

use serde_json::Value;

use super::ManifestChecker;
use crate::expr;
use crate::iso_duration::IsoDuration;
use crate::keywords::EndpointRole;
use crate::manifest::{EndpointConfig, TwoPhaseConfig, UpdateConfig};
use crate::suggest::suggest;

const MAX_ID_BATCH: u32 = 10_000;
const MAX_SEGMENT: u32 = 100_000;

/// Whether a request of the detail endpoint fetches exactly one record.
pub(crate) fn takes_one_id(detail: &EndpointConfig) -> bool {
    sends(detail, "id")
}

impl ManifestChecker<'_> {
    pub(super) fn detail(&mut self, path: &str, endpoint: &EndpointConfig) {
        self.batching(path, endpoint);
        if let Some(two_phase) = &endpoint.two_phase {
            self.two_phase(path, endpoint, two_phase);
        }
        if let Some(update) = &endpoint.update {
            self.update(path, endpoint, update);
        }
    }

    fn batching(&mut self, path: &str, endpoint: &EndpointConfig) {
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
                let message = format!("{setting} {value} is more than the {most} records that one request may fetch");
                self.report(&format!("{path}.max_records_per_request"), message);
            }
        }
    }

    fn two_phase(&mut self, endpoint_path: &str, endpoint: &EndpointConfig, two_phase: &TwoPhaseConfig) {
        let path = &format!("{endpoint_path}.two_phase");
        self.selector(&format!("{path}.version_path"), two_phase.version_path.as_deref());
        self.requires_search_role(path, endpoint, "two_phase");
        let Some(name) = &two_phase.detail else {
            let hint = "the endpoint that returns the records, for example detail: work";
            return self.report_with(&format!("{path}.detail"), "`detail` is missing", hint);
        };
        self.detail_endpoint_fits(path, endpoint_path, endpoint, name);
    }

    fn update(&mut self, endpoint_path: &str, endpoint: &EndpointConfig, update: &UpdateConfig) {
        let path = &format!("{endpoint_path}.update");
        self.requires_search_role(path, endpoint, "update");
        if update.stale_after.is_some_and(|after| after < IsoDuration::secs(1)) {
            self.report(&format!("{path}.stale_after"), "expected at least PT1S");
        }
        if update.segment_size.is_some_and(|size| size == 0 || size > MAX_SEGMENT) {
            self.report(&format!("{path}.segment_size"), format!("expected 1 to {MAX_SEGMENT} records"));
        }
        match (&update.detail, &endpoint.two_phase) {
            (Some(name), _) => self.detail_endpoint_fits(path, endpoint_path, endpoint, name),
            (None, None) => self.needs_detail(&format!("{path}.detail")),
            // Checked by `two_phase`.
            (None, Some(_)) => {}
        }
    }

    /// UPDATE works from stored ids, so it needs a detail endpoint.
    pub(super) fn needs_detail(&mut self, path: &str) {
        let message = "UPDATE fetches stored records by id, but no detail endpoint is set";
        let hint = "add an endpoint with `role: detail` whose requests send `ids` or `id`, and name it: update: { detail: NAME }";
        self.report_with(path, message, hint);
    }

    fn requires_search_role(&mut self, path: &str, endpoint: &EndpointConfig, key: &str) {
        let role = endpoint.role.unwrap_or_default();
        if role != EndpointRole::Search {
            let message = format!("a {} endpoint cannot have a detail endpoint", role.as_str().to_lowercase());
            self.report_with(path, message, format!("`{key}` belongs to a search endpoint"));
        }
    }

    /// Checks that the endpoint named by `two_phase.detail` or `update.detail` can serve details.
    fn detail_endpoint_fits(&mut self, path: &str, endpoint_path: &str, endpoint: &EndpointConfig, name: &str) {
        let Some(detail) = self.manifest.endpoints.get(name) else {
            let names: Vec<_> = self.manifest.endpoints.keys().map(String::as_str).collect();
            let message = format!("there is no endpoint `{name}`");
            let problem = self.manifest.origin.problem(&format!("{path}.detail"), message, suggest(name, &names));
            return self.problems.push(problem);
        };
        if detail.role != Some(EndpointRole::Detail) {
            let message = format!("`{name}` is not a detail endpoint");
            return self.report_with(&format!("{path}.detail"), message, format!("give `{name}` a `role: detail`"));
        }
        self.check_linked_detail(path, name, detail);
        // If two detail endpoints are named, each has its own batch size.
        let other = endpoint.details().any(|other| other != name);
        if takes_one_id(detail) && !other && endpoint.batching.id_batch_size.is_some_and(|size| size > 1) {
            let hint = "remove id_batch_size, or send `${ ids | join(',') }` there";
            let message = format!("`{name}` fetches one `id` per request");
            self.report_with(&format!("{endpoint_path}.batching.id_batch_size"), message, hint);
        }
    }

    /// Checks that a detail endpoint can fetch the records of a search.
    fn check_linked_detail(&mut self, path: &str, name: &str, detail: &EndpointConfig) {
        let at = format!("endpoints.{name}");
        match (sends(detail, "ids"), takes_one_id(detail)) {
            (false, false) => {
                let hint = "add a parameter such as id: \"${ ids | join(',') }\", or a path such as /works/${ id }";
                let message = "no template sends `ids` or `id`, so every request would fetch the same records";
                self.report_with(&format!("{at}.query"), message, hint);
            }
            (true, true) => {
                let message = "`ids` fetches several records and `id` one";
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
                let message = format!("`{name}` fetches records by id and cannot have its own `{key}`");
                self.report_with(&format!("{at}.{key}"), message, format!("remove it, or remove `{path}`"));
            }
        }
    }
}

/// Whether any template of the endpoint's requests reads the variable.
pub(super) fn sends(endpoint: &EndpointConfig, variable: &str) -> bool {
    sends_any(endpoint, |name| name == variable)
}

/// Whether any template reads a variable whose dotted name passes `matches`.
pub(super) fn sends_any(endpoint: &EndpointConfig, matches: impl Fn(&str) -> bool) -> bool {
    let params = endpoint.query.values().chain(endpoint.http.headers.values());
    let body = endpoint.body.as_ref();
    let form = body.and_then(|body| body.form.as_ref()).into_iter().flat_map(|form| form.values());
    let texts = params.chain(form).map(|param| &param.expr).chain(&endpoint.http.path);
    let mut texts = texts.chain(body.and_then(|body| body.raw.as_ref()));
    let json = body.and_then(|body| body.json.as_ref());
    texts.any(|text| expr::reads_any(text, &matches)) || json.is_some_and(|json| json_reads(json, &matches))
}

fn json_reads(json: &Value, matches: &impl Fn(&str) -> bool) -> bool {
    match json {
        Value::String(text) => expr::reads_any(text, matches),
        Value::Array(items) => items.iter().any(|item| json_reads(item, matches)),
        Value::Object(map) => map.values().any(|value| json_reads(value, matches)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
