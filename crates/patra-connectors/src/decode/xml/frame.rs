//! An element that is being read, as JSON so far.

use std::io::Write;

/// Different names among the children of one element.
const MAX_NAMES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct ElementFrame {
    name: String,
    /// Whether it is a list in its parent, even when it is alone.
    pub(super) list: bool,
    /// Whether only its text counts.
    pub(super) flat: bool,
    /// Whether it lies on the way to the items.
    pub(super) on_path: bool,
    pub(super) text: String,
    /// Attributes as members.
    attributes: Vec<u8>,
    children: Vec<ElementGroup>,
}

/// The children of one name.
#[derive(Debug)]
struct ElementGroup {
    name: String,
    list: bool,
    count: usize,
    values: Vec<u8>,
}

impl ElementFrame {
    pub(super) fn new(name: &str, on_path: bool) -> ElementFrame {
        ElementFrame { name: name.to_owned(), on_path, ..ElementFrame::default() }
    }

    pub(super) fn document(on_path: bool) -> ElementFrame {
        ElementFrame::new("", on_path)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    pub(super) fn attribute(&mut self, name: &str, value: &str) {
        member(&mut self.attributes, 0, &format!("@{name}"));
        json(&mut self.attributes, value);
    }

    /// Makes sure that there is a list of this name.
    pub(super) fn expect_list(&mut self, name: &str) {
        if !self.children.iter().any(|group| group.name == name) {
            self.children.push(ElementGroup { name: name.to_owned(), list: true, count: 0, values: Vec::new() });
        }
    }

    /// Adds a child; returns the size of the children of its name.
    pub(super) fn child(&mut self, child: ElementFrame) -> Result<usize, String> {
        // Children of one name mostly stand together.
        let known = self.children.iter().rposition(|group| group.name == child.name);
        let at = match known {
            Some(at) => at,
            None if self.children.len() == MAX_NAMES => {
                return Err(format!("an element has children of more than {MAX_NAMES} names"));
            }
            None => {
                let (name, list) = (child.name.clone(), child.list);
                self.children.push(ElementGroup { name, list, count: 0, values: Vec::new() });
                self.children.len() - 1
            }
        };
        let group = &mut self.children[at];
        if group.count > 0 {
            group.values.push(b',');
        }
        group.count += 1;
        child.write(&mut group.values);
        Ok(group.values.len())
    }

    pub(super) fn value(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// Text alone is a JSON text; anything more is an object. Each part is dropped when it is written.
    fn write(self, out: &mut Vec<u8>) {
        let text = self.text.trim();
        if self.attributes.is_empty() && self.children.is_empty() {
            return json(out, text);
        }
        out.push(b'{');
        let from = out.len();
        out.extend_from_slice(&self.attributes);
        for group in self.children {
            member(out, from, &group.name);
            let list = group.list || group.count != 1;
            if list {
                out.push(b'[');
            }
            out.extend_from_slice(&group.values);
            if list {
                out.push(b']');
            }
        }
        if !text.is_empty() {
            member(out, from, "#text");
            json(out, text);
        }
        out.push(b'}');
    }
}

/// Begins a member of the object whose members begin at `from`.
fn member(out: &mut Vec<u8>, from: usize, name: &str) {
    if out.len() > from {
        out.push(b',');
    }
    json(out, name);
    out.push(b':');
}

fn json(out: &mut Vec<u8>, text: &str) {
    // Writing to a text in memory does not fail.
    let _ = serde_json::to_writer(out.by_ref(), text);
}
