//! Building blocks of pages. Handlers combine blocks; only the templates know HTML, and they escape all values.

use askama::Template;

use patra_core::Ts;
use patra_core::port::query::Cell;
use patra_core::text::beginning;

/// A page without its frame.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) title: String,
    /// Breadcrumbs: label and address.
    pub(super) crumbs: Vec<(String, String)>,
    pub(super) blocks: Vec<Block>,
    /// Whether the page reloads itself when data changes.
    pub(super) live: bool,
}

impl Page {
    pub(super) fn new(title: impl Into<String>) -> Page {
        Page { title: title.into(), ..Page::default() }
    }

    pub(super) fn under(mut self, word: impl Into<String>, href: impl Into<String>) -> Page {
        self.crumbs.push((word.into(), href.into()));
        self
    }

    pub(super) fn live(self) -> Page {
        Page { live: true, ..self }
    }

    pub(super) fn with(mut self, block: impl Into<Block>) -> Page {
        self.blocks.push(block.into());
        self
    }

    pub(super) fn with_all(mut self, blocks: impl IntoIterator<Item = impl Into<Block>>) -> Page {
        self.blocks.extend(blocks.into_iter().map(Into::into));
        self
    }
}

macro_rules! blocks {
    ($($name:ident),*) => {
        #[derive(Debug)]
        pub(super) enum Block { $($name($name)),* }

        $(impl From<$name> for Block {
            fn from(block: $name) -> Block { Block::$name(block) }
        })*
    };
}

blocks![Tiles, Facts, Table, Code, Drawings, Note, Strip, Form, Actions];

/// The state of something as a colour; text repeats it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Tone {
    #[default]
    Plain,
    Good,
    Busy,
    Warn,
    Bad,
}

impl Tone {
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Good => "good",
            Tone::Busy => "busy",
            Tone::Warn => "warn",
            Tone::Bad => "bad",
        }
    }

    /// The tone of a status of any view.
    pub(super) fn of(status: &str) -> Tone {
        match status {
            "SUCCEEDED" | "FINISHED" | "READY" | "PLANNED" | "ACTIVE" | "DELIVERED" | "RESOLVED" | "ok" => Tone::Good,
            "EXECUTING" | "DISPATCHED" | "RUNNING" | "SLICING" | "REFRESHING" => Tone::Busy,
            "PARTIAL" | "COOLING" | "SUSPECT" | "OPEN" | "paused" | "unsupported" | "L1" | "P2" => Tone::Warn,
            "FAILED" | "BAD" | "EXPIRED" | "REVOKED" | "INVALID" | "error" | "firing" => Tone::Bad,
            "L2" | "L3" | "L4" | "P0" | "P1" => Tone::Bad,
            _ => Tone::Plain,
        }
    }
}

/// A value to display.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) href: Option<String>,
    pub(super) is: Is,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum Is {
    #[default]
    Text,
    Number,
    /// A time, with its exact value for machines and as a tooltip.
    Time(String),
    Code,
    Status(Tone),
}

/// Most characters in a cell of a table.
const WIDEST: usize = 120;

impl Shown {
    pub(super) fn text(text: impl Into<String>) -> Shown {
        Shown { text: text.into(), ..Shown::default() }
    }

    pub(super) fn number(number: impl Copy + ToString) -> Shown {
        Shown::amount(number.to_string())
    }

    /// A number with its unit.
    pub(super) fn amount(text: impl Into<String>) -> Shown {
        Shown { text: text.into(), is: Is::Number, ..Shown::default() }
    }

    pub(super) fn code(text: impl Into<String>) -> Shown {
        Shown { text: text.into(), is: Is::Code, ..Shown::default() }
    }

    pub(super) fn status(word: impl Into<String>) -> Shown {
        let text = word.into();
        Shown { is: Is::Status(Tone::of(&text)), text, ..Shown::default() }
    }

    pub(super) fn time(at: Ts) -> Shown {
        let exact = at.to_micros_text();
        // Shows `2026-11-16T23:14:05.123456Z` to the second.
        let text = exact.get(..19).unwrap_or(&exact).replace('T', " ");
        Shown { text, is: Is::Time(exact), href: None }
    }

    pub(super) fn maybe_time(at: Option<Ts>) -> Shown {
        at.map_or_else(|| Shown::text("–"), Shown::time)
    }

    pub(super) fn cell(cell: &Cell) -> Shown {
        match cell {
            Cell::Null => Shown::text("–"),
            Cell::Int(number) => Shown::number(number),
            Cell::Text(text) => Shown::text(short(text)),
            Cell::Time(at) => Shown::time(*at),
            Cell::Json(text) => Shown::code(short(text)),
        }
    }

    pub(super) fn to(self, href: impl Into<String>) -> Shown {
        Shown { href: Some(href.into()), ..self }
    }
}

fn short(text: &str) -> String {
    match text.chars().nth(WIDEST) {
        Some(_) => text.chars().take(WIDEST - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// Figures in a row.
#[derive(Debug, Default)]
pub(super) struct Tiles(pub(super) Vec<Tile>);

#[derive(Debug)]
pub(super) struct Tile {
    pub(super) label: String,
    pub(super) value: String,
    pub(super) note: String,
    pub(super) href: String,
    pub(super) tone: Tone,
}

/// Names and values of one subject.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) title: String,
    pub(super) facts: Vec<(String, Shown)>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Text for a table without rows.
    pub(super) empty: String,
    /// Link to the next page.
    pub(super) next: Option<String>,
    /// Link to the full list.
    pub(super) more: Option<String>,
    /// Anchor for links to this table.
    pub(super) anchor: &'static str,
}

#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) cells: Vec<Shown>,
    pub(super) tone: Tone,
    pub(super) actions: Vec<Action>,
}

impl Table {
    pub(super) fn new(title: impl Into<String>, head: &[&str], empty: &str) -> Table {
        let head = head.iter().map(|word| (*word).to_owned()).collect();
        Table { title: title.into(), head, empty: empty.to_owned(), ..Table::default() }
    }

    pub(super) fn row(&mut self, tone: Tone, cells: Vec<Shown>) {
        self.rows.push(Row { cells, tone, actions: Vec::new() });
    }

    pub(super) fn has_actions(&self) -> bool {
        self.rows.iter().any(|line| !line.actions.is_empty())
    }
}

/// Preformatted text.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) title: String,
    pub(super) text: String,
}

impl Code {
    /// Most bytes of text; pages stay under 100 kB.
    const MAX: usize = 16 << 10;

    pub(super) fn new(title: impl Into<String>, text: &str) -> Code {
        let shown = beginning(text, Self::MAX);
        let rest = text.len() - shown.len();
        let rest = if rest > 0 { format!("\n… {rest} more bytes") } else { String::new() };
        Code { title: title.into(), text: format!("{shown}{rest}") }
    }

    pub(super) fn json(title: impl Into<String>, value: &serde_json::Value) -> Code {
        Code::new(title, &serde_json::to_string_pretty(value).unwrap_or_default())
    }
}

/// Charts in a row.
#[derive(Debug)]
pub(super) struct Drawings(pub(super) Vec<Drawing>);

/// A chart as SVG.
#[derive(Debug)]
pub(super) struct Drawing {
    pub(super) title: String,
    /// Description for screen readers.
    pub(super) summary: String,
    pub(super) svg: String,
    /// Label and CSS class of each line.
    pub(super) legend: Vec<(String, &'static str)>,
}

#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) tone: Tone,
    pub(super) text: String,
    pub(super) hint: Option<String>,
    pub(super) href: Option<String>,
}

impl Note {
    pub(super) fn new(tone: Tone, text: impl Into<String>) -> Note {
        Note { tone, text: text.into(), hint: None, href: None }
    }

    pub(super) fn good(text: impl Into<String>) -> Note {
        Note::new(Tone::Good, text)
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Note {
        Note { hint: Some(hint.into()), ..self }
    }

    pub(super) fn to(self, href: impl Into<String>) -> Note {
        Note { href: Some(href.into()), ..self }
    }
}

/// Steps in order, each a link: the batches of a run.
#[derive(Debug)]
pub(super) struct Strip {
    pub(super) title: String,
    pub(super) steps: Vec<Step>,
    pub(super) left_out: u64,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) word: String,
    pub(super) says: String,
    pub(super) href: String,
    pub(super) tone: Tone,
}

/// A form.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) title: String,
    /// `get` for queries, `post` for changes.
    pub(super) method: &'static str,
    pub(super) action: String,
    pub(super) fields: Vec<Field>,
    pub(super) button: String,
    /// The equivalent command.
    pub(super) twin: String,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) value: String,
    pub(super) kind: FieldKind,
    pub(super) hint: &'static str,
}

#[derive(Debug)]
pub(super) enum FieldKind {
    Line,
    Text,
    /// A choice among these values.
    Choice(Vec<String>),
    Tick,
}

impl Field {
    pub(super) fn new(name: &'static str, label: &'static str, value: impl Into<String>, kind: FieldKind) -> Field {
        Field { name, label, value: value.into(), kind, hint: "" }
    }

    pub(super) fn hint(self, hint: &'static str) -> Field {
        Field { hint, ..self }
    }
}

/// Buttons, each with its equivalent command.
#[derive(Debug)]
pub(super) struct Actions(pub(super) Vec<Action>);

#[derive(Debug)]
pub(super) struct Action {
    pub(super) label: &'static str,
    pub(super) to: String,
    pub(super) twin: String,
    /// Whether the action cannot be undone.
    pub(super) final_: bool,
    /// Hidden fields of the form.
    pub(super) with: Vec<(&'static str, String)>,
}

impl Action {
    pub(super) fn new(label: &'static str, to: impl Into<String>, twin: impl Into<String>) -> Action {
        Action { label, to: to.into(), twin: twin.into(), final_: false, with: Vec::new() }
    }

    pub(super) fn final_(self) -> Action {
        Action { final_: true, ..self }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Action {
        self.with.push((name, value.into()));
        self
    }
}

/// The frame around every page of a logged-in user.
#[derive(Debug, Template)]
#[template(path = "page.html")]
pub(super) struct Framed<'a> {
    pub(super) page: &'a Page,
    pub(super) notice: Option<Note>,
    pub(super) csrf: &'a str,
    pub(super) menu: Vec<Entry>,
    pub(super) who: String,
    pub(super) project: &'a str,
    pub(super) projects: &'a [String],
    pub(super) searched: &'a str,
    pub(super) assets: &'static str,
}

/// A group of the menu.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) group: &'static str,
    pub(super) links: Vec<Link>,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) word: &'static str,
    pub(super) href: &'static str,
    pub(super) here: bool,
}

#[derive(Debug, Template)]
#[template(path = "login.html")]
pub(super) struct LoginForm<'a> {
    pub(super) token: &'a str,
    pub(super) next: &'a str,
    pub(super) problem: Option<&'a str>,
    pub(super) assets: &'static str,
}
