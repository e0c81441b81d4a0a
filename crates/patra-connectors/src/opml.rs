//! Lists of feeds as OPML, the exchange format of feed readers.

use quick_xml::Reader;
use quick_xml::escape::{escape, unescape};
use quick_xml::events::Event;

/// Most outlines of a list.
pub const MAX_OUTLINES: usize = 1_000_000;
/// Folders within folders.
const MAX_DEPTH: usize = 64;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpmlOutline {
    pub title: Option<String>,
    pub url: String,
    /// The folders of the feed, the outermost first.
    pub folders: Vec<String>,
}

/// The feeds of a list, in their order.
pub fn read(text: &str) -> Result<Vec<OpmlOutline>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = false;
    let (mut outlines, mut open, mut is_opml) = (Vec::new(), Vec::new(), false);
    loop {
        let event = reader.read_event().map_err(|error| format!("this is no OPML: {error}"))?;
        let (start, closes) = match event {
            Event::Start(start) => (start, false),
            Event::Empty(start) => (start, true),
            Event::End(end) => {
                if end.name().as_ref().eq_ignore_ascii_case(b"outline") {
                    open.pop();
                }
                continue;
            }
            Event::Eof => break,
            _ => continue,
        };
        let name = start.name();
        is_opml |= name.as_ref().eq_ignore_ascii_case(b"opml");
        if !name.as_ref().eq_ignore_ascii_case(b"outline") {
            continue;
        }
        let mut found = std::collections::BTreeMap::new();
        for attribute in start.html_attributes().with_checks(false).flatten() {
            let key = String::from_utf8_lossy(attribute.key.as_ref()).to_ascii_lowercase();
            let raw = String::from_utf8_lossy(&attribute.value).into_owned();
            // Text that is no reference is kept as it is written.
            let value = unescape(&raw).map_or_else(|_| raw.clone(), std::borrow::Cow::into_owned);
            found.insert(key, value.trim().to_owned());
        }
        let mut take = |key: &str| found.remove(key).filter(|text| !text.is_empty());
        let (title, url) = (take("title").or_else(|| take("text")), take("xmlurl"));
        if let Some(url) = url {
            let folders = open.iter().flatten().cloned().collect();
            outlines.push(OpmlOutline { title: title.clone(), url, folders });
        }
        if outlines.len() > MAX_OUTLINES || open.len() > MAX_DEPTH {
            return Err(format!("more than {MAX_OUTLINES} feeds, or folders deeper than {MAX_DEPTH}"));
        }
        if !closes {
            open.push(title);
        }
    }
    if !is_opml {
        return Err("this is no OPML: there is no <opml> in it".to_owned());
    }
    Ok(outlines)
}

/// A list of feeds.
pub fn write<'a>(title: &str, feeds: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let title = escape(title);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<opml version=\"2.0\">\n  <head><title>{title}</title></head>\n  <body>\n"
    );
    for (name, url) in feeds {
        let (name, url) = (escape(name), escape(url));
        text.push_str(&format!("    <outline type=\"rss\" text=\"{name}\" title=\"{name}\" xmlUrl=\"{url}\"/>\n"));
    }
    text.push_str("  </body>\n</opml>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: COLL-126
    #[test]
    fn written_list_reads_back() {
        let feeds = [("A & B <c> \"d\"", "https://a.test/?x=1&y=2"), ("Ü", "http://b.test/feed")];
        let read = read(&write("mine", feeds)).unwrap();
        let read: Vec<_> = read.iter().map(|one| (one.title.as_deref().unwrap(), one.url.as_str())).collect();
        assert_eq!(read, feeds);
    }

    #[test]
    fn folders_odd_case_and_bare_ampersands_are_read() {
        let text = r#"<?xml version="1.0"?><OPML version="1.0"><body>
            <outline text="News"><outline TEXT='One' XMLURL='https://a.test/?a=1&b=2'/>
              <outline title="Deep"><outline xmlUrl="https://b.test/"></outline></outline></outline>
            <outline text="no feed"/></body></OPML>"#;
        let read = read(text).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].title.as_deref(), read[0].url.as_str()), (Some("One"), "https://a.test/?a=1&b=2"));
        assert_eq!(read[1].folders, ["News", "Deep"]);
    }

    #[test]
    fn document_without_a_list_is_an_error() {
        for text in ["", "hello", "<rss/>", "{}"] {
            assert!(read(text).unwrap_err().contains("no OPML"), "{text}");
        }
    }
}
