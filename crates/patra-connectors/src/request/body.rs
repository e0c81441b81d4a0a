//! Bodies of requests: JSON with templates in it, a form, or a text.

use bytes::Bytes;
use serde_json::{Map, Value};
use url::form_urlencoded;

use patra_core::{Code, Fault, Level, Ts, Window};
use patra_spec::expr::{Context, Page};
use patra_spec::{Snapshot, Template};

use super::{Render, broken, compiled};

/// Each text is bounded by its template; this bounds their sum.
const MAX_BODY: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) enum Body {
    None,
    Raw(Template),
    Form(Vec<(String, Template)>),
    Json(Node),
}

/// JSON with a template for every text.
#[derive(Debug)]
pub(super) enum Node {
    Fixed(Value),
    Text(Template),
    /// A text that is one expression, and that expression gives a number.
    Number(Template),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Body {
    pub(super) fn new(spec: &Snapshot) -> Result<Body, Fault> {
        let http = &spec.http;
        match (&http.body_json, &http.body_form, &http.body_template) {
            (Some(json), None, None) => Ok(Body::Json(Node::new(json)?)),
            (None, Some(form), None) => {
                let pairs = form.iter().map(|(name, text)| Ok((name.clone(), compiled(text)?)));
                Ok(Body::Form(pairs.collect::<Result<_, Fault>>()?))
            }
            (None, None, Some(text)) => Ok(Body::Raw(compiled(text)?)),
            (None, None, None) => Ok(Body::None),
            _ => Err(broken("it has more than one body")),
        }
    }

    /// What the body is, when its kind says so.
    pub(super) fn content_type(&self) -> Option<&'static str> {
        match self {
            Body::Json(_) => Some("application/json"),
            Body::Form(_) => Some("application/x-www-form-urlencoded"),
            Body::Raw(_) | Body::None => None,
        }
    }

    pub(super) fn render(&self, render: &Render<'_>) -> Result<Option<Bytes>, Fault> {
        let bytes: Bytes = match self {
            Body::None => return Ok(None),
            Body::Raw(template) => return Ok(render("the body", template)?.map(Bytes::from)),
            Body::Form(pairs) => {
                let mut form = form_urlencoded::Serializer::new(String::new());
                for (name, template) in pairs {
                    // Encoded here, so that no value can become another field (G-25).
                    if let Some(value) = render(name, template)? {
                        form.append_pair(name, &value);
                    }
                }
                form.finish().into()
            }
            Body::Json(node) => node.render(render)?.unwrap_or_default().to_string().into(),
        };
        if bytes.len() > MAX_BODY {
            let reason = format!("the body has {} bytes, at most {MAX_BODY} are sent", bytes.len());
            return Err(Fault::new(Code::ConfigError, Level::L2, reason));
        }
        Ok(Some(bytes))
    }
}

impl Node {
    fn new(json: &Value) -> Result<Node, Fault> {
        Ok(match json {
            Value::String(text) => {
                let template = compiled(text)?;
                if gives_number(&template) { Node::Number(template) } else { Node::Text(template) }
            }
            Value::Array(items) => Node::List(items.iter().map(Node::new).collect::<Result<_, _>>()?),
            Value::Object(map) => {
                let members = map.iter().map(|(key, value)| Ok((key.clone(), Node::new(value)?)));
                Node::Object(members.collect::<Result<_, Fault>>()?)
            }
            fixed => Node::Fixed(fixed.clone()),
        })
    }

    /// Null where a template gives nothing: such a member or element is left out (ING-4.8-02). Texts become JSON texts,
    /// whatever is in them, so no value can end its string (G-25).
    fn render(&self, render: &Render<'_>) -> Result<Option<Value>, Fault> {
        Ok(match self {
            Node::Fixed(value) => Some(value.clone()),
            Node::Text(template) => render("the body", template)?.map(Value::String),
            Node::Number(template) => {
                let text = render("the body", template)?;
                text.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)))
            }
            Node::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.extend(item.render(render)?);
                }
                Some(Value::Array(list))
            }
            Node::Object(members) => {
                let mut map = Map::new();
                for (key, node) in members {
                    if let Some(value) = node.render(render)? {
                        map.insert(key.clone(), value);
                    }
                }
                Some(Value::Object(map))
            }
        })
    }
}

/// Whether a template is one expression whose value is a number or boolean by nature, as `${ page.size }` is: found by
/// rendering it where everything that may be any text is a text without digits.
fn gives_number(template: &Template) -> bool {
    let text = template.as_str().trim();
    let alone = text.starts_with("${") && text.ends_with('}') && text.matches("${").count() == 1;
    let from = Ts::from_secs(0);
    let page = Page { no: 1, offset: 1, size: Some(1), token: Some("x".into()) };
    let context = Context { window: Some(Window { from, to: from }), page, ..Context::default() };
    let rendered = template.render(&context).ok().flatten();
    alone && rendered.is_some_and(|text| serde_json::from_str::<serde_json::Number>(&text).is_ok())
}
