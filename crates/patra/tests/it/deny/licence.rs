//! SPDX licence expressions: `MIT OR Apache-2.0`, `(MIT OR Apache-2.0) AND Unicode-3.0`.

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// One licence, with its exception: `Apache-2.0 WITH LLVM-exception`.
    Licence(String),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

impl Expression {
    pub(super) fn is_met(&self, allowed: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Expression::Licence(id) => allowed(id),
            Expression::All(parts) => parts.iter().all(|part| part.is_met(allowed)),
            Expression::Any(parts) => parts.iter().any(|part| part.is_met(allowed)),
        }
    }

    /// All licences of the expression.
    pub(super) fn ids(&self) -> Vec<String> {
        match self {
            Expression::Licence(id) => vec![id.clone()],
            Expression::All(parts) | Expression::Any(parts) => parts.iter().flat_map(Expression::ids).collect(),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Expression, String> {
    // Old crates write `MIT/Apache-2.0` for a choice.
    let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    let expression = any(&mut words)?;
    match words.pop() {
        None => Ok(expression),
        Some(word) => Err(format!("`{word}` is not expected")),
    }
}

/// `AND` binds more tightly than `OR`. Words are taken from the end.
fn any(words: &mut Vec<&str>) -> Result<Expression, String> {
    let mut parts = vec![all(words)?];
    while words.pop_if(|word| *word == "OR").is_some() {
        parts.push(all(words)?);
    }
    Ok(single(parts, Expression::Any))
}

fn all(words: &mut Vec<&str>) -> Result<Expression, String> {
    let mut parts = vec![one(words)?];
    while words.pop_if(|word| *word == "AND").is_some() {
        parts.push(one(words)?);
    }
    Ok(single(parts, Expression::All))
}

fn single(mut parts: Vec<Expression>, join: fn(Vec<Expression>) -> Expression) -> Expression {
    if parts.len() == 1 { parts.remove(0) } else { join(parts) }
}

fn one(words: &mut Vec<&str>) -> Result<Expression, String> {
    if words.pop_if(|word| *word == "(").is_some() {
        let inner = any(words)?;
        return words.pop_if(|word| *word == ")").map(|_| inner).ok_or_else(|| "a bracket is not closed".to_owned());
    }
    let licence = id(words)?;
    if words.pop_if(|word| *word == "WITH").is_none() {
        return Ok(Expression::Licence(licence.to_owned()));
    }
    let exception = id(words)?;
    Ok(Expression::Licence(format!("{licence} WITH {exception}")))
}

fn id<'t>(words: &mut Vec<&'t str>) -> Result<&'t str, String> {
    let word = words.pop().ok_or("a licence is missing")?;
    let known = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'+' | b':'));
    let is_operator = ["AND", "OR", "WITH"].iter().any(|operator| operator.eq_ignore_ascii_case(word));
    if known && !is_operator { Ok(word) } else { Err(format!("`{word}` is no licence")) }
}

#[test]
fn expressions_are_met_by_what_they_allow() {
    let met = |text: &str| parse(text).unwrap().is_met(&|id| ["MIT", "Zlib", "A WITH B"].contains(&id));
    for allowed in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-3.0",
        "(GPL-3.0 OR MIT) AND Zlib",
        "GPL-3.0 AND BSL-1.0 OR MIT AND Zlib",
        "A WITH B",
        "MIT AND (Zlib)",
    ] {
        assert!(met(allowed), "{allowed}");
    }
    for refused in ["GPL-3.0-only", "MIT AND GPL-3.0", "MIT AND (Zlib AND X)", "A", "MIT WITH B", "MIT+", "mit"] {
        assert!(!met(refused), "{refused}");
    }
    for broken in ["", "MIT OR", "MIT Zlib", "(MIT", "MIT)", "OR MIT", "MIT AND OR Zlib", "see LICENSE", "MIT, Zlib"] {
        assert!(parse(broken).is_err(), "{broken}");
    }
}
