//! Bodies of requests: JSON with templates, a form, or a text.

use bytes::Bytes;
use serde_json::{Map, Value};
use url::form_urlencoded;

use patra_core::{Code, Fault, Level, Ts, Window};
use patra_spec::expr::{PageVariables, RenderContext, TemplateRules};
use patra_spec::{ParamLocation, Snapshot, Template};

use super::param::ParamTemplate;
use super::{broken, compiled, unrendered};

/// Most bytes of a body; each text is bounded by its template too.
const MAX_BODY: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) enum BodyTemplate {
    None,
    Raw(Template),
    Form(Vec<ParamTemplate>),
    Json(BodyNode),
}

/// JSON with a template for every text.
#[derive(Debug)]
pub(super) enum BodyNode {
    Fixed(Value),
    Text(Template),
    /// Whether a text is one expression with a numeric value.
    Number(Template),
    List(Vec<BodyNode>),
    Object(Vec<(String, BodyNode)>),
}

impl BodyTemplate {
    pub(super) fn new(spec: &Snapshot, rules: &TemplateRules) -> Result<BodyTemplate, Fault> {
        let http = &spec.http;
        match (&http.body_json, &http.body_form, &http.body_template) {
            (Some(json), None, None) => Ok(BodyTemplate::Json(BodyNode::new(json, rules)?)),
            (None, Some(form), None) => {
                Ok(BodyTemplate::Form(ParamTemplate::all(spec, rules, ParamLocation::Body, form)?))
            }
            (None, None, Some(text)) => Ok(BodyTemplate::Raw(compiled(text, rules)?)),
            (None, None, None) => Ok(BodyTemplate::None),
            _ => Err(broken("it has more than one body")),
        }
    }

    /// The media type of the body, where its kind has one.
    pub(super) fn content_type(&self) -> Option<&'static str> {
        match self {
            BodyTemplate::Json(_) => Some("application/json"),
            BodyTemplate::Form(_) => Some("application/x-www-form-urlencoded"),
            BodyTemplate::Raw(_) | BodyTemplate::None => None,
        }
    }

    pub(super) fn render(&self, context: &RenderContext) -> Result<Option<Bytes>, Fault> {
        let bytes: Bytes = match self {
            BodyTemplate::None => return Ok(None),
            BodyTemplate::Raw(template) => return Ok(text(template, context)?.map(Bytes::from)),
            BodyTemplate::Form(params) => {
                let mut form = form_urlencoded::Serializer::new(String::new());
                for param in params {
                    // Encoded here, so that no value can become another field (G-25).
                    if let Some(value) = param.render(context)? {
                        form.append_pair(&param.name, &value);
                    }
                }
                form.finish().into()
            }
            BodyTemplate::Json(node) => node.render(context)?.unwrap_or_default().to_string().into(),
        };
        if bytes.len() > MAX_BODY {
            let reason = format!("the body has {} bytes, at most {MAX_BODY} are sent", bytes.len());
            return Err(Fault::new(Code::ConfigError, Level::L2, reason));
        }
        Ok(Some(bytes))
    }
}

impl BodyNode {
    fn new(json: &Value, rules: &TemplateRules) -> Result<BodyNode, Fault> {
        Ok(match json {
            Value::String(text) => {
                let template = compiled(text, rules)?;
                if gives_number(&template) { BodyNode::Number(template) } else { BodyNode::Text(template) }
            }
            Value::Array(items) => {
                BodyNode::List(items.iter().map(|item| BodyNode::new(item, rules)).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let members = map.iter().map(|(key, value)| Ok((key.clone(), BodyNode::new(value, rules)?)));
                BodyNode::Object(members.collect::<Result<_, Fault>>()?)
            }
            fixed => BodyNode::Fixed(fixed.clone()),
        })
    }

    /// Renders a value; null where a template gives nothing: such a member or element is left out (ING-4.8-02). Texts
    /// become JSON texts, whatever is in them, so no value can end its string (G-25).
    fn render(&self, context: &RenderContext) -> Result<Option<Value>, Fault> {
        Ok(match self {
            BodyNode::Fixed(value) => Some(value.clone()),
            BodyNode::Text(template) => text(template, context)?.map(Value::String),
            BodyNode::Number(template) => {
                let text = text(template, context)?;
                text.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)))
            }
            BodyNode::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.extend(item.render(context)?);
                }
                Some(Value::Array(list))
            }
            BodyNode::Object(members) => {
                let mut map = Map::new();
                for (key, node) in members {
                    if let Some(value) = node.render(context)? {
                        map.insert(key.clone(), value);
                    }
                }
                Some(Value::Object(map))
            }
        })
    }
}

fn text(template: &Template, context: &RenderContext) -> Result<Option<String>, Fault> {
    template.render(context).map_err(|error| unrendered("the body", &error))
}

/// Whether a template is one expression whose value is a number or boolean by nature, like `${ page.size }`: decided by
/// rendering it with texts without digits in place of every text.
fn gives_number(template: &Template) -> bool {
    let text = template.as_str().trim();
    let alone = text.starts_with("${") && text.ends_with('}') && text.matches("${").count() == 1;
    let from = Ts::from_secs(0);
    let page = PageVariables { no: 1, offset: 1, size: Some(1), token: Some("x".into()) };
    let context = RenderContext { window: Some(Window { from, to: from }), page, ..RenderContext::default() };
    let rendered = template.render(&context).ok().flatten();
    alone && rendered.is_some_and(|text| serde_json::from_str::<serde_json::Number>(&text).is_ok())
}
