//! Checks `response`: format, paths, and error rules.

use patra_core::tweet::COLUMNS;

use super::ManifestChecker;
use crate::keywords::{AbsentList, ResponseFormat};
use crate::manifest::{ConditionConfig, CsvConfig, EndpointConfig, ErrorRuleConfig, ResponseConfig};
use crate::pattern::Pattern;
use crate::selector::{PathSegment, Selector};

const MAX_RULES: usize = 32;
const MAX_ID_PARTS: usize = 8;
const MAX_COLUMNS: usize = 1_024;

impl ManifestChecker<'_> {
    pub(super) fn response(&mut self, path: &str, endpoint: &EndpointConfig) {
        let response = &endpoint.response;
        let path = &format!("{path}.response");
        self.required_paths(path, response);
        for (key, value) in [
            ("items_path", &response.items_path),
            ("updated_at_path", &response.updated_at_path),
            ("total_path", &response.total_path),
            ("has_more_path", &response.has_more_path),
            ("version_path", &response.version_path),
        ] {
            self.selector(&format!("{path}.{key}"), value.as_deref());
        }
        for (key, value) in [("total_header", &response.total_header), ("has_more_header", &response.has_more_header)] {
            self.header_name(&format!("{path}.{key}"), value.as_deref());
        }
        self.check_exclusive(path, "total_path", &response.total_path, "total_header", &response.total_header);
        self.check_exclusive(
            path,
            "has_more_path",
            &response.has_more_path,
            "has_more_header",
            &response.has_more_header,
        );
        self.time_format(&format!("{path}.updated_at_format"), response.updated_at_format.as_deref());
        self.id(path, response);
        self.format(path, endpoint);
        if response.errors.len() > MAX_RULES {
            self.report(&format!("{path}.errors"), format!("at most {MAX_RULES} error rules are allowed"));
        }
        for (at, rule) in response.errors.iter().enumerate() {
            self.error_rule(&format!("{path}.errors[{at}]"), rule);
        }
    }

    /// `items_path` and `id_path` are always required; `updated_at_path` depends on the operation (C-23).
    fn required_paths(&mut self, path: &str, response: &ResponseConfig) {
        // The tweets format has built-in paths.
        let tweets = response.format == Some(ResponseFormat::Tweets);
        let items = response.items_path.is_some() || response.format == Some(ResponseFormat::Csv) || tweets;
        let id = response.id_path.is_some() || tweets;
        for (key, there, example) in [("items_path", items, "$.items"), ("id_path", id, "$.id")] {
            if !there {
                let hint = format!("for example {key}: {example}");
                self.report_with(&format!("{path}.{key}"), format!("`{key}` is missing"), hint);
            }
        }
    }

    fn id(&mut self, path: &str, response: &ResponseConfig) {
        let paths = response.id_path.as_ref().map_or(&[][..], |paths| &paths.0);
        match paths {
            [] if response.id_path.is_some() => self.report(&format!("{path}.id_path"), "the list is empty"),
            [one] => self.selector(&format!("{path}.id_path"), Some(one)),
            several => {
                for (at, part) in several.iter().enumerate() {
                    self.selector(&format!("{path}.id_path[{at}]"), Some(part));
                }
            }
        }
        if paths.len() > MAX_ID_PARTS {
            self.report(&format!("{path}.id_path"), format!("an id has at most {MAX_ID_PARTS} parts"));
        }
        if let Some(separator) = &response.id_separator {
            let path = format!("{path}.id_separator");
            if paths.len() < 2 {
                self.report(&path, "`id_separator` has no meaning without several paths in `id_path`");
            }
            let one = separator.chars().count() == 1;
            if !one || separator.chars().any(|c| c.is_control() || c == '\\') {
                self.report(&path, "expected one character, and no `\\`");
            }
        }
    }

    fn format(&mut self, path: &str, endpoint: &EndpointConfig) {
        let response = &endpoint.response;
        let format = response.format.unwrap_or_default();
        for (key, there, fits) in [
            ("csv", response.csv.is_some(), format == ResponseFormat::Csv),
            ("xml", response.xml.is_some(), format == ResponseFormat::Xml),
            ("html", response.html.is_some(), format == ResponseFormat::Html),
        ] {
            if there && !fits {
                let message = format!("`{key}` has no meaning with {} responses", format.as_str());
                self.report_with(&format!("{path}.{key}"), message, format!("remove it, or set `format: {key}`"));
            }
        }
        if response.absent == Some(AbsentList::Empty) && !format.may_lack_list() {
            let message = format!("`absent: empty` has no meaning with {} responses", format.as_str());
            self.report_with(&format!("{path}.absent"), message, "remove it: only JSON and XML can lack the list");
        }
        match format {
            ResponseFormat::Json => {}
            ResponseFormat::Feed | ResponseFormat::Page => {}
            ResponseFormat::Html => self.html(path, response),
            ResponseFormat::Xml => self.xml_items_path(path, response),
            ResponseFormat::Csv => self.csv_rows(path, endpoint),
            ResponseFormat::Tweets => self.tweets(path, endpoint),
        }
    }

    /// The tweets format has built-in paths and column names.
    fn tweets(&mut self, path: &str, endpoint: &EndpointConfig) {
        let response = &endpoint.response;
        for (key, there) in [
            ("items_path", response.items_path.is_some()),
            ("id_path", response.id_path.is_some()),
            ("updated_at_path", response.updated_at_path.is_some()),
            ("updated_at_format", response.updated_at_format.is_some()),
            ("version_path", response.version_path.is_some()),
        ] {
            if there {
                let message = format!("`{key}` has no meaning with tweets: the format has built-in paths");
                self.report_with(&format!("{path}.{key}"), message, "remove it");
            }
        }
        let endpoint_path = path.trim_end_matches(".response");
        for name in endpoint.fields.keys().chain(endpoint.record.add.keys()) {
            if COLUMNS.contains(&name.as_str()) {
                let section = if endpoint.fields.contains_key(name) { "fields" } else { "record.add" };
                let message = format!("`{name}` is a built-in field of tweets");
                self.report_with(&format!("{endpoint_path}.{section}.{name}"), message, "use another name");
            }
        }
        if endpoint.two_phase.is_some() {
            let message = "tweets are complete: there are no details to fetch";
            self.report(&format!("{endpoint_path}.two_phase"), message);
        }
    }

    /// XML elements are found by name, because it is not known in advance which of them repeat.
    fn xml_items_path(&mut self, path: &str, response: &ResponseConfig) {
        let Some(Ok(items)) = response.items_path.as_deref().map(Selector::parse) else { return };
        let named = items.segments().iter().all(|segment| matches!(segment, PathSegment::Key(_)));
        if items.segments().is_empty() || !named {
            let hint = "for example items_path: $.feed.entry";
            self.report_with(
                &format!("{path}.items_path"),
                "for XML, `items_path` must be element names from the root",
                hint,
            );
        }
    }

    fn html(&mut self, path: &str, response: &ResponseConfig) {
        let html = response.html.clone().unwrap_or_default();
        if html.rows.as_deref().unwrap_or_default().trim().is_empty() {
            let hint = "for example html: { rows: \"article.row\", fields: { url: \"a @href\" } }";
            self.report_with(&format!("{path}.html.rows"), "`rows` is missing: the selector of a row", hint);
        }
        if html.fields.is_empty() {
            self.report(&format!("{path}.html.fields"), "`fields` is empty: nothing is taken from the rows");
        }
    }

    fn csv_rows(&mut self, path: &str, endpoint: &EndpointConfig) {
        let (response, paging) = (&endpoint.response, endpoint.pagination.clone().unwrap_or_default());
        if response.items_path.as_deref().is_some_and(|items| items != "$") {
            self.report_with(
                &format!("{path}.items_path"),
                "the rows of a CSV response are `$`",
                "remove `items_path`",
            );
        }
        let pagination = path.replace(".response", ".pagination");
        for (path, there) in [
            (format!("{path}.total_path"), response.total_path.is_some()),
            (format!("{path}.has_more_path"), response.has_more_path.is_some()),
            (format!("{path}.errors"), !response.errors.is_empty()),
            (format!("{pagination}.has_more_path"), paging.has_more_path.is_some()),
            (format!("{pagination}.next_token_path"), paging.next_token_path.is_some()),
            (format!("{pagination}.next_url_path"), paging.next_url_path.is_some()),
        ] {
            if there {
                self.report_with(&path, "a CSV response contains only rows", "use a header instead");
            }
        }
        if let Some(csv) = &response.csv {
            self.csv(&format!("{path}.csv"), csv);
        }
    }

    fn csv(&mut self, path: &str, csv: &CsvConfig) {
        let one = |text: &str| text.len() == 1 && text.is_ascii() && !text.contains(['\n', '\r']);
        if csv.delimiter.as_deref().is_some_and(|text| text != "tab" && !one(text)) {
            self.report_with(
                &format!("{path}.delimiter"),
                "expected one ASCII character, or `tab`",
                "for example \";\"",
            );
        }
        if csv.quote.as_deref().is_some_and(|text| text != "none" && !one(text)) {
            self.report(&format!("{path}.quote"), "expected one ASCII character, or `none`");
        }
        if csv.header == Some(false) && csv.columns.is_empty() {
            let hint = "for example columns: [id, title]";
            self.report_with(&format!("{path}.columns"), "without a header, `columns` must name the fields", hint);
        }
        if csv.columns.len() > MAX_COLUMNS {
            self.report(&format!("{path}.columns"), format!("at most {MAX_COLUMNS} columns are allowed"));
        }
        for (at, column) in csv.columns.iter().enumerate() {
            if column.is_empty() || csv.columns[..at].contains(column) {
                let message = if column.is_empty() { "a column has no name" } else { "this column is a duplicate" };
                self.report(&format!("{path}.columns[{at}]"), message);
            }
        }
    }

    fn error_rule(&mut self, path: &str, rule: &ErrorRuleConfig) {
        match rule.status.is_empty() || rule.when.path.is_some() {
            true => self.condition(path, &rule.when),
            false if rule.when != ConditionConfig::default() => {
                self.report_with(&format!("{path}.path"), "`path` is missing", "for example path: $.error");
            }
            false => {}
        }
        for (at, status) in rule.status.iter().enumerate() {
            let message = match status {
                401 | 429 => "has a fixed meaning: a rejected credential, or throttling",
                400..=599 => continue,
                _ => "is not an error status: expected 400 to 599",
            };
            self.report(&format!("{path}.status[{at}]"), format!("{status} {message}"));
        }
        self.selector(&format!("{path}.message_path"), rule.message_path.as_deref());
        if rule.throttle == Some(true) && rule.level.is_some_and(|level| level != patra_core::Level::L1) {
            self.report_with(&format!("{path}.level"), "a throttling error has level L1 transient", "remove `level`");
        }
    }

    pub(super) fn condition(&mut self, path: &str, condition: &ConditionConfig) {
        match &condition.path {
            None => self.report_with(&format!("{path}.path"), "`path` is missing", "for example path: $.error"),
            Some(text) => self.selector(&format!("{path}.path"), Some(text)),
        }
        if let Some(text) = &condition.matches
            && let Err(syntax_error) = Pattern::parse(text)
        {
            self.problems.push(self.manifest.origin.syntax_problem(&format!("{path}.matches"), text, syntax_error));
        }
        let looks = condition.equals.is_some() || condition.matches.is_some() || !condition.r#in.is_empty();
        if condition.exists == Some(false) && looks {
            self.report(&format!("{path}.exists"), "an absent value cannot be compared");
        }
    }
}
