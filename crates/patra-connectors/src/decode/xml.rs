//! XML as JSON: attributes as `@name`, text as `#text`, elements that repeat as lists. Nothing is fetched, declared
//! entities are not expanded, and depth, names and attributes are bounded, so a response costs no more than its size.

mod frame;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use patra_core::Fault;
use patra_spec::selector::PathSegment;
use patra_spec::snapshot::ResponseSpec;

use super::memory::{ProjectionError, as_json, grown};
use super::paths::{broken, parse};
use frame::ElementFrame;

/// Most nested elements: each is two levels of JSON, and serde_json allows 128.
const MAX_DEPTH: usize = 60;
const MAX_ATTRIBUTES: usize = 256;
const MAX_ELEMENTS: usize = 1_000_000;

#[derive(Debug)]
pub(super) struct XmlProjection {
    /// The names from the root to the items, which are a list whatever their number.
    items: Vec<String>,
    lists: Vec<String>,
    texts: Vec<String>,
    lenient: bool,
}

impl XmlProjection {
    pub(super) fn new(response: &ResponseSpec) -> Result<XmlProjection, Fault> {
        let declared = response.xml.clone().unwrap_or_default();
        let mut items = Vec::new();
        for segment in parse(&response.items_path)?.segments() {
            match segment {
                PathSegment::Key(name) => items.push(name.clone()),
                PathSegment::Index(_) => return Err(broken("items_path counts elements of XML")),
            }
        }
        Ok(XmlProjection { items, lists: declared.lists, texts: declared.texts, lenient: response.lenient })
    }

    /// The document as JSON text of at most `limit` bytes.
    pub(super) fn project(&self, text: &str, limit: usize) -> Result<String, ProjectionError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if as_json(text.as_bytes()) > limit {
            return Err(grown(limit));
        }
        let mut reader = Reader::from_str(text);
        reader.config_mut().allow_dangling_amp = self.lenient;
        let mut walk = XmlWalker {
            rules: self,
            open: vec![ElementFrame::document(!self.items.is_empty())],
            flat: 0,
            elements: 0,
            written: 0,
        };
        loop {
            let event = reader.read_event().map_err(|error| at(&reader, &error.to_string()))?;
            if walk.written > limit {
                return Err(grown(limit));
            }
            let done = match event {
                Event::Start(start) => walk.start(&start),
                Event::Empty(start) => walk.start(&start).and_then(|()| walk.end()),
                Event::End(_) => walk.end(),
                Event::Text(text) => {
                    text.xml10_content().map_err(|error| error.to_string()).and_then(|text| walk.text(&text))
                }
                Event::CData(text) => {
                    text.xml10_content().map_err(|error| error.to_string()).and_then(|text| walk.text(&text))
                }
                Event::GeneralRef(reference) => walk.reference(&reference),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => Ok(()),
                Event::Eof => break,
            };
            done.map_err(|reason| at(&reader, &reason))?;
        }
        let json = walk.finish()?;
        if json.len() > limit { Err(grown(limit)) } else { Ok(json) }
    }
}

fn at(reader: &Reader<&[u8]>, reason: &str) -> String {
    format!("{reason} (byte {})", reader.buffer_position())
}

/// The open elements, the document first.
struct XmlWalker<'r> {
    rules: &'r XmlProjection,
    open: Vec<ElementFrame>,
    /// Depth inside an element of which only the text counts.
    flat: usize,
    elements: usize,
    /// Bytes of the largest value so far.
    written: usize,
}

impl XmlWalker<'_> {
    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        self.elements += 1;
        if self.open.len() + self.flat > MAX_DEPTH || self.elements > MAX_ELEMENTS {
            return Err(format!("more than {MAX_DEPTH} levels or {MAX_ELEMENTS} elements"));
        }
        let name = start.name();
        let name = std::str::from_utf8(name.as_ref()).map_err(|error| error.to_string())?;
        if self.flat > 0 || self.current().flat {
            self.flat += 1;
            return Ok(());
        }
        let (depth, rules) = (self.open.len() - 1, self.rules);
        if depth == 0 && !self.current().is_empty() {
            return Err("there are two root elements".into());
        }
        let on_path = self.current().on_path && rules.items.get(depth).is_some_and(|step| step == name);
        let mut frame = ElementFrame::new(name, on_path);
        frame.list = (on_path && depth + 1 == rules.items.len()) || rules.lists.iter().any(|list| list == name);
        frame.flat = rules.texts.iter().any(|text| text == name);
        for (count, attribute) in start.attributes().enumerate() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            if count == MAX_ATTRIBUTES {
                return Err(format!("an element has more than {MAX_ATTRIBUTES} attributes"));
            }
            let key = std::str::from_utf8(attribute.key.as_ref()).map_err(|error| error.to_string())?;
            // Namespaces are declared anywhere, so they are no part of the data.
            if key == "xmlns" || key.starts_with("xmlns:") {
                continue;
            }
            let raw = std::str::from_utf8(&attribute.value).map_err(|error| error.to_string())?;
            frame.attribute(key, &self.unescaped(raw)?);
        }
        self.open.push(frame);
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        if self.flat > 0 {
            self.flat -= 1;
            return Ok(());
        }
        let depth = self.open.len() - 1;
        let (Some(mut frame), true) = (self.open.pop(), depth > 0) else { return Err("an end without a start".into()) };
        // Without items the list is empty, as long as its parent exists.
        if frame.on_path && depth + 1 == self.rules.items.len() {
            frame.expect_list(&self.rules.items[depth]);
        }
        self.written = self.written.max(self.current().child(frame)?);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        if self.open.len() == 1 && !text.trim().is_empty() {
            return Err("there is text outside the root element".into());
        }
        self.current().text.push_str(text);
        Ok(())
    }

    /// Resolves the five names of XML and numbers; entities of the document are not expanded.
    fn reference(&mut self, reference: &BytesRef<'_>) -> Result<(), String> {
        let name = reference.decode().map_err(|error| error.to_string())?;
        let text = self.unescaped(&format!("&{name};"))?;
        self.text(&text)
    }

    fn unescaped(&self, raw: &str) -> Result<String, String> {
        match quick_xml::escape::unescape_with(raw, resolve_xml_entity) {
            Ok(text) => Ok(text.into_owned()),
            Err(_) if self.lenient_about(raw) => Ok(raw.to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn lenient_about(&self, raw: &str) -> bool {
        self.rules.lenient && raw.contains('&')
    }

    fn current(&mut self) -> &mut ElementFrame {
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn finish(mut self) -> Result<String, String> {
        if self.open.len() > 1 || self.flat > 0 {
            return Err("it ends before its root element does".into());
        }
        if self.current().is_empty() {
            return Err("it has no element".into());
        }
        let document = std::mem::take(self.current());
        String::from_utf8(document.value()).map_err(|error| error.to_string())
    }
}
