//! One value of a request: a template, and what must be so of it before it is sent (ING-3.2-10, ING-4.8-06).

use serde::{Deserialize, Serialize};

/// A parameter, header or form field. Written as a text alone, it is a template without conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct RequestParam {
    pub expr: String,
    /// Sent when the template gives null.
    pub default: Option<String>,
    pub required: bool,
    /// What the rendered value must match from end to end.
    pub pattern: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Short(String),
    Long(Long),
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Long {
    expr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<String>,
}

impl RequestParam {
    pub fn plain(expr: impl Into<String>) -> RequestParam {
        RequestParam { expr: expr.into(), ..RequestParam::default() }
    }

    pub fn is_plain(&self) -> bool {
        self.default.is_none() && !self.required && self.pattern.is_none()
    }
}

impl From<Written> for RequestParam {
    fn from(written: Written) -> RequestParam {
        match written {
            Written::Short(expr) => RequestParam::plain(expr),
            Written::Long(Long { expr, default, required, pattern }) => {
                RequestParam { expr, default, required, pattern }
            }
        }
    }
}

impl From<RequestParam> for Written {
    /// One spelling per meaning, so that equal manifests are stored alike.
    fn from(param: RequestParam) -> Written {
        if param.is_plain() {
            return Written::Short(param.expr);
        }
        let RequestParam { expr, default, required, pattern } = param;
        Written::Long(Long { expr, default, required, pattern })
    }
}
