//! One named value of a request, and its rules, which are checked before the request is sent (ING-4.8-06).

use std::collections::BTreeMap;

use patra_core::{Code, Fault, Level};
use patra_spec::expr::{NullPolicy, RenderContext, TemplateRules};
use patra_spec::{ParamLocation, Pattern, Snapshot, Template};

use super::{broken, compiled};

#[derive(Debug)]
pub(super) struct ParamTemplate {
    pub(super) name: String,
    location: ParamLocation,
    template: Template,
    default: Option<String>,
    required: bool,
    pattern: Option<Pattern>,
}

impl ParamTemplate {
    pub(super) fn all<'t>(
        spec: &Snapshot,
        rules: &TemplateRules,
        location: ParamLocation,
        templates: impl IntoIterator<Item = (&'t String, &'t String)>,
    ) -> Result<Vec<ParamTemplate>, Fault> {
        let declared = spec.mapping.request_params.iter().filter(|param| param.location == location);
        let declared: BTreeMap<_, _> = declared.map(|param| (&param.name, param)).collect();
        let param = |(name, text): (&String, &String)| {
            let declared = declared.get(name).copied().cloned().unwrap_or_default();
            let pattern = declared.pattern.as_deref().map(Pattern::whole).transpose();
            Ok(ParamTemplate {
                name: name.clone(),
                location,
                template: compiled(text, rules)?,
                default: declared.default,
                required: declared.required,
                pattern: pattern.map_err(|flaw| broken(&flaw.message))?,
            })
        };
        templates.into_iter().map(param).collect()
    }

    /// The value to send; `None` when it is left out. A fault names the value and never shows it.
    pub(super) fn render(&self, context: &RenderContext) -> Result<Option<String>, Fault> {
        let value = match &self.default {
            Some(default) if self.rendered(context, Some(NullPolicy::Omit))?.is_none() => Some(default.clone()),
            _ => self.rendered(context, None)?,
        };
        let some = value.as_deref().filter(|value| !value.is_empty());
        if self.required && some.is_none() {
            return Err(self.refused("is required and has no value"));
        }
        if let (Some(value), Some(pattern)) = (&value, &self.pattern)
            && !pattern.matches(value)
        {
            return Err(self.refused("does not match its pattern"));
        }
        // A line break in a header value would start another header. The mark of a credential is checked when it is
        // filled.
        let control = |byte: u8| (byte < b' ' && byte != b'\t' && byte != 1) || byte == 0x7f;
        if self.location == ParamLocation::Header && value.as_ref().is_some_and(|value| value.bytes().any(control)) {
            return Err(self.refused("would hold a control character"));
        }
        Ok(value)
    }

    fn rendered(&self, context: &RenderContext, nulls: Option<NullPolicy>) -> Result<Option<String>, Fault> {
        let rendered = match nulls {
            Some(nulls) => self.template.render_with(context, nulls),
            None => self.template.render(context),
        };
        rendered.map_err(|error| {
            Fault::new(
                Code::ConfigError,
                Level::L2,
                format!("{} {} cannot be rendered: {error}", self.what(), self.name),
            )
        })
    }

    fn refused(&self, why: &str) -> Fault {
        Fault::new(Code::InvalidInput, Level::L2, format!("{} {} {why}", self.what(), self.name))
    }

    fn what(&self) -> &'static str {
        match self.location {
            ParamLocation::Query => "query parameter",
            ParamLocation::Header => "header",
            ParamLocation::Body => "form field",
        }
    }
}
