//! Strings inside JSON, at all levels. Names of fields are not searched.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::finder::LinkFinder;

impl LinkFinder {
    /// Searches a JSON text. A text that is no JSON, or is nested deeper than the parser's 128 levels, is searched as
    /// plain text: only the difference between names and values is lost.
    pub fn json(&mut self, text: &str) {
        let mut json = serde_json::Deserializer::from_str(text);
        let read = Strings(self).deserialize(&mut json).and_then(|()| json.end());
        if read.is_err() {
            self.text(text);
        }
    }

    /// Searches a value of any depth: the levels are kept in a list, not on the stack.
    pub fn value(&mut self, value: &Value) {
        let mut waiting = vec![value];
        while let Some(value) = waiting.pop() {
            match value {
                Value::String(text) => self.string(text),
                // The last element added comes out first.
                Value::Array(values) => waiting.extend(values.iter().rev()),
                Value::Object(fields) => waiting.extend(fields.values().rev()),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
    }
}

struct Strings<'f>(&'f mut LinkFinder);

impl<'de> DeserializeSeed<'de> for Strings<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strings<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.string(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        while values.next_element_seed(Strings(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key::<IgnoredAny>()?.is_some() {
            fields.next_value_seed(Strings(self.0))?;
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::links::LinkOptions;

    fn urls(look: impl FnOnce(&mut LinkFinder)) -> Vec<String> {
        let mut finder = LinkFinder::new(LinkOptions::default());
        look(&mut finder);
        finder.finish().links.into_iter().map(|link| link.url).collect()
    }

    // covers: POOL-46
    #[test]
    fn strings_at_all_levels_are_looked_through_and_names_are_not() {
        let value = json!({
            "a": "https://example.com/1",
            "b": [1, null, true, {"c": {"d": ["see https://example.com/2, or (https://example.com/3)."]}}],
            "https://example.com/name": 1.5,
            "e": "https://example.com/Apple_Inc.",
            "f": "http://a.example,http://b.example",
            "g": " https://ja.wikipedia.example/wiki/C言語 ",
        });
        let expected = [
            "https://example.com/1",
            "https://example.com/2",
            "https://example.com/3",
            "https://example.com/Apple_Inc.",
            "http://a.example/",
            "http://b.example/",
            "https://ja.wikipedia.example/wiki/C%E8%A8%80%E8%AA%9E",
        ];
        assert_eq!(urls(|finder| finder.value(&value)), expected);
        assert_eq!(urls(|finder| finder.json(&value.to_string())), expected);
        let escaped = value.to_string().replace('/', r"\/");
        assert_eq!(urls(|finder| finder.json(&escaped)), expected);
        assert_eq!(
            urls(|finder| finder.json(r#""https:\u002f\u002fexample.com\u002F?a=1\u0026b=2""#)),
            ["https://example.com/?a=1&b=2"]
        );
    }

    // covers: POOL-46
    #[test]
    fn deep_and_broken_json_is_still_looked_through() {
        let deep = format!(r#"{}"https:\/\/example.com\/deep"{}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(urls(|finder| finder.json(&deep)), ["https://example.com/deep"]);
        let broken = r#"{"a": "https://example.com/a", "b": "https://example.com/b"#;
        assert_eq!(urls(|finder| finder.json(broken)), ["https://example.com/a", "https://example.com/b"]);
        let lines = "{\"a\":\"https://example.com/a\"}\n{\"a\":\"https://example.com/b\"}";
        assert_eq!(urls(|finder| finder.json(lines)), ["https://example.com/a", "https://example.com/b"]);
        let mut value = json!("https://example.com/deep");
        for _ in 0..100_000 {
            value = Value::Array(vec![value]);
        }
        assert_eq!(urls(|finder| finder.value(&value)), ["https://example.com/deep"]);
        // A value this deep cannot be dropped either: that would recurse.
        std::mem::forget(value);
    }
}
