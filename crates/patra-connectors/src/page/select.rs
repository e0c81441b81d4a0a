//! Rows of a page, by CSS selectors.

use std::collections::BTreeMap;

use scraper::{ElementRef, Selector};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::HtmlPageError;
use super::document::{HtmlDocument, folded};

/// Most rows of a page.
pub const MAX_ROWS: usize = 10_000;

/// How many times the size of its page the text of all rows may have, and what the rows of any page may have.
const MAX_TEXT_GROWTH: usize = 4;
const FREE_TEXT_BYTES: usize = 1024 * 1024;

/// Selectors of the rows and of their fields.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectRules {
    /// Matches one element per row.
    pub item: String,
    pub fields: BTreeMap<String, SelectField>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SelectField {
    /// Inside the row; without one, the row itself.
    pub selector: Option<String>,
    /// The attribute to take. Without one, the text.
    pub attr: Option<String>,
    /// A list of all that match, not the first alone.
    pub many: bool,
    /// Whether the field is required: when no row has it, the layout has changed.
    pub required: bool,
}

/// Field to text, list of texts, or null where nothing matches.
pub type SelectRow = BTreeMap<String, Value>;

/// The rows of a page. A page without rows is an error that names the selector, because layouts change without notice.
pub fn select(html: &str, address: &Url, rules: &SelectRules) -> Result<Vec<SelectRow>, HtmlPageError> {
    let item = compiled(&rules.item)?;
    let selectors = rules.fields.iter().map(|(name, field)| {
        let selector = field.selector.as_deref().map(compiled).transpose()?;
        Ok((name, field, selector))
    });
    let fields: Vec<(&String, &SelectField, Option<Selector>)> = selectors.collect::<Result<_, HtmlPageError>>()?;
    let document = HtmlDocument::parse(html, address)?;
    let mut rows = Vec::new();
    // Rows inside of rows repeat their text.
    let (mut taken_bytes, limit) = (0, MAX_TEXT_GROWTH * html.len() + FREE_TEXT_BYTES);
    for element in document.html.select(&item) {
        if rows.len() == MAX_ROWS {
            return Err(HtmlPageError::TooManyRows { selector: rules.item.clone() });
        }
        let value = |(name, field, selector): &(&String, &SelectField, Option<Selector>)| {
            ((*name).clone(), value(&document, element, field, selector.as_ref()))
        };
        let row = fields.iter().map(value).collect::<SelectRow>();
        taken_bytes += row.values().map(bytes).sum::<usize>();
        if taken_bytes > limit {
            return Err(HtmlPageError::TooMuchText { limit });
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(HtmlPageError::NoRows { selector: rules.item.clone() });
    }
    let gone = |(name, field, _): &&(&String, &SelectField, Option<Selector>)| {
        field.required && rows.iter().all(|row| row.get(*name).is_none_or(is_nothing))
    };
    if let Some((name, field, _)) = fields.iter().find(gone) {
        let selector = field.selector.clone().unwrap_or_else(|| rules.item.clone());
        return Err(HtmlPageError::FieldGone { field: (*name).clone(), selector, rows: rows.len() });
    }
    Ok(rows)
}

fn compiled(selector: &str) -> Result<Selector, HtmlPageError> {
    let failed = |reason: String| HtmlPageError::BadSelector { selector: selector.to_owned(), reason };
    Selector::parse(selector).map_err(|error| failed(error.to_string()))
}

fn value(document: &HtmlDocument, row: ElementRef<'_>, field: &SelectField, selector: Option<&Selector>) -> Value {
    let taken = |element: ElementRef<'_>| taken(document, element, field);
    match selector {
        None => taken(row).map_or(Value::Null, Value::String),
        Some(selector) if field.many => row.select(selector).filter_map(taken).map(Value::String).collect(),
        Some(selector) => row.select(selector).find_map(taken).map_or(Value::Null, Value::String),
    }
}

fn taken(document: &HtmlDocument, element: ElementRef<'_>, field: &SelectField) -> Option<String> {
    let text = match field.attr.as_deref() {
        Some(name @ ("href" | "src")) => document.absolute(element.value().attr(name)?)?,
        Some(name) => folded(element.value().attr(name)?),
        None => folded(&element.text().collect::<String>()),
    };
    Some(text).filter(|text| !text.is_empty())
}

fn bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(bytes).sum(),
        _ => 0,
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(item: &str, fields: &[(&str, Option<&str>, Option<&str>, bool)]) -> SelectRules {
        let field = |(name, selector, attr, many): &(&str, Option<&str>, Option<&str>, bool)| {
            let field = SelectField {
                selector: selector.map(str::to_owned),
                attr: attr.map(str::to_owned),
                many: *many,
                required: *name == "stars",
            };
            ((*name).to_owned(), field)
        };
        SelectRules { item: item.to_owned(), fields: fields.iter().map(field).collect() }
    }

    fn rows(html: &str, rules: &SelectRules) -> Result<String, String> {
        let rows = select(html, &Url::parse("http://example.org/a").unwrap(), rules);
        rows.map(|rows| serde_json::to_string(&rows).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_hold_texts_attributes_and_lists() {
        let rules = rules(
            "li.row",
            &[("link", Some("a"), Some("href"), false), ("name", None, None, false), ("tags", Some("i"), None, true)],
        );
        let html = "<ul><li class=row><a href='/x'> A  b</a> <i>1</i><i>2</i></li><li class=row>c</li><li>d</li></ul>";
        let expected =
            r#"[{"link":"http://example.org/x","name":"A b 12","tags":["1","2"]},{"link":null,"name":"c","tags":[]}]"#;
        assert_eq!(rows(html, &rules).unwrap(), expected);
    }

    // covers: COLL-127
    #[test]
    fn a_layout_that_has_changed_is_an_error_that_names_the_selector() {
        let error = rows("<p>x</p>", &rules("article.row", &[])).unwrap_err();
        assert!(error.contains("`article.row`") && error.contains("layout"), "{error}");
        let error = rows("<p>x</p><p>y</p>", &rules("p", &[("stars", Some(".mr-3"), None, false)])).unwrap_err();
        assert!(error.contains("`stars`") && error.contains(".mr-3") && error.contains('2'), "{error}");
    }

    #[test]
    fn a_selector_that_is_none_is_named() {
        let error = rows("<p>", &rules("p[", &[])).unwrap_err();
        assert!(error.starts_with("`p[` is no CSS selector"), "{error}");
    }

    #[test]
    fn rows_inside_of_rows_have_a_limit() {
        let nested = format!("{}{}", "<div>".repeat(400), "word ".repeat(100_000));
        let error = rows(&nested, &rules("div", &[("text", None, None, false)])).unwrap_err();
        assert!(error.contains("more than") && error.contains("rows inside of rows"), "{error}");
    }

    #[test]
    fn rows_have_a_limit() {
        let error = rows(&"<p>".repeat(MAX_ROWS + 1), &rules("p", &[])).unwrap_err();
        assert!(error.contains("10000"), "{error}");
    }
}
