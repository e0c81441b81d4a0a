//! The upstream: records with update times, revisions that appear while the world runs, and pages cut by a key-set
//! token. It knows nothing of Patra; a fault is something that its caller decides.

use std::sync::LazyLock;
use std::time::Duration;

use patra_core::paging::{PageFacts, Position};
use patra_core::protocol::run::{ExchangeEvidence, FetchedPage, RecordOrder};
use patra_core::record::{DetailCandidate, HeldMemory, Record, RecordVersion, RejectedRecord};
use patra_core::rng::Rng;
use patra_core::tx::SkipReasons;
use patra_core::{Code, Ts, Window};

use super::api_behavior::Pages;
use super::profile::Profile;

/// The upstream: all records, revisions and limits of one world.
#[derive(Debug)]
pub(super) struct MockApi {
    pub(super) records: Vec<ApiRecord>,
    pub(super) poison: Option<Poison>,
    /// Lists show ids only.
    pub(super) ids_only: bool,
    /// A query returns at most so many records, and reports how many there are.
    pub(super) ceiling: Option<u64>,
    pages: Pages,
    descending: bool,
    pub(super) lookback: Duration,
    /// Moves of records may be hidden from those who read the lists.
    pub(super) hides_moves: bool,
    /// The lists of the partitions do not filter by time; whether they report totals.
    pub(super) whole_lists: Option<bool>,
    /// A whole list may be empty by mistake.
    pub(super) empties: bool,
}

#[derive(Debug)]
pub(super) struct ApiRecord {
    pub(super) key: &'static str,
    /// The partition that it is shown in; `None` for a record of the endpoint that has none.
    pub(super) partition: Option<usize>,
    /// The first revision. Each revision replaces the one before from its `visible_at` on.
    first: Revision,
    later: Vec<Revision>,
    /// Old revisions of the record stay in the lists, as in an index that is cleaned up late.
    ghost: bool,
    /// Requests for details of the record are rejected, with whatever else they name.
    pub(super) bad: bool,
    /// When the lists are without it.
    pub(super) away: Vec<(Ts, Ts)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Revision {
    pub(super) updated_at: Ts,
    visible_at: Ts,
    malformed: bool,
    /// Shown only after the safety lag: windows that look back must find it.
    late: bool,
}

/// A window with this instant can never be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poison {
    pub(super) at: Ts,
    pub(super) kind: PoisonKind,
    /// Applies from the second page on, so that there is a page to resume from.
    pub(super) later_pages_only: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PoisonKind {
    Transient,
    Refused,
    /// A process that reads it crashes.
    Deadly,
}

impl Revision {
    /// Shown no earlier than the one before.
    fn draw(rng: &mut Rng, profile: &Profile, updated_at: Ts, before: Ts) -> Revision {
        let late = if rng.chance(400) { rng.below(profile.lag.as_micros() as u64 - 1_000_000) } else { 0 };
        let mut visible_at = before.max(updated_at + Duration::from_micros(late));
        if let Some(lookback) = profile.api.lookback.filter(|_| rng.chance(250)) {
            visible_at = visible_at.max(updated_at + profile.lag + lookback / (1 + rng.below(3) as u32));
        }
        let late = visible_at > updated_at + profile.lag;
        Revision { updated_at, visible_at, malformed: rng.chance(profile.malformed), late }
    }
}

impl Poison {
    pub(super) fn draw(rng: &mut Rng, profile: &Profile, start: Ts) -> Poison {
        let reach = profile.history + profile.rough;
        Poison {
            at: start - profile.history + Duration::from_secs(rng.below(reach.as_secs())),
            kind: [PoisonKind::Transient, PoisonKind::Refused, PoisonKind::Deadly][rng.below(3) as usize],
            later_pages_only: rng.chance(500),
        }
    }
}

impl MockApi {
    pub(super) fn new(rng: &mut Rng, profile: &Profile, start: Ts, records: Vec<ApiRecord>) -> MockApi {
        let mut api = MockApi {
            records,
            poison: None,
            ids_only: profile.details.is_some(),
            ceiling: None,
            pages: profile.api.pages,
            descending: profile.api.order == Some(RecordOrder::Descending),
            lookback: profile.api.lookback.unwrap_or_default(),
            hides_moves: profile.api.hides_moves(),
            whole_lists: None,
            empties: false,
        };
        api.add(rng, profile, start, profile.records);
        // With less, a window would be cut into a slice for each record.
        api.ceiling = profile.ceiling.then(|| api.densest().max(3) + 1 + rng.below(2));
        api.poison = profile.poison.then(|| Poison::draw(rng, profile, start));
        api
    }

    /// Records of the whole time of a world that begins at `start`; none appears later than the safety lag after its
    /// update time.
    pub(super) fn add(&mut self, rng: &mut Rng, profile: &Profile, start: Ts, count: u64) {
        let (from, to) = (start - profile.history, start + profile.rough);
        let seconds = to.since(from).as_secs();
        self.records.reserve(count as usize);
        let mut last = from;
        for _ in 0..count {
            // Runs of equal times, and whole seconds, so that records lie exactly on the borders of windows.
            let mut at =
                if rng.chance(profile.clustered) { last } else { from + Duration::from_secs(rng.below(seconds)) };
            last = at;
            let first = Revision::draw(rng, profile, at, Ts::MIN);
            let (mut newest, mut later) = (first, Vec::new());
            loop {
                at = at + Duration::from_secs(1 + rng.below(60));
                if at >= to || !rng.chance(300) {
                    break;
                }
                newest = Revision::draw(rng, profile, at, newest.visible_at);
                later.push(newest);
            }
            self.records.push(ApiRecord {
                key: KEYS.get(self.records.len()).map_or("", String::as_str),
                partition: None,
                first,
                later,
                ghost: rng.chance(250),
                // Three bad records alone in a page look like an upstream without any details.
                away: Vec::new(),
                bad: rng.chance(40) && self.records.iter().filter(|record| record.bad).count() < 2,
            });
        }
    }

    /// The most records that share a second: a window cannot be cut below that.
    pub(super) fn densest(&self) -> u64 {
        let mut seconds = std::collections::BTreeMap::new();
        for revision in self.records.iter().flat_map(ApiRecord::revisions) {
            *seconds.entry(revision.updated_at.floor_to(Duration::from_secs(1))).or_insert(0) += 1;
        }
        seconds.into_values().max().unwrap_or(0)
    }

    pub(super) fn poisons(&self, window: Window, position: &Position) -> Option<PoisonKind> {
        let poison = self.poison.filter(|poison| window.contains(poison.at))?;
        let first = matches!(position, Position::Token(None)) || self.pages.before(position, 1) == Some(0);
        (!first || !poison.later_pages_only).then_some(poison.kind)
    }

    /// The details of these ids at `now`; `None` if one of them is bad. Hidden ids are left out.
    pub(super) fn details(&self, ids: &[String], now: Ts) -> Option<FetchedPage> {
        let mut page = blank_page();
        for record in ids.iter().filter_map(|id| self.records.get(number(id)?)) {
            let Some(shown) = record.shown(now) else { continue };
            if record.bad {
                return None;
            }
            if shown.malformed {
                page.rejected.push(record.rejected(page.facts.items, shown.updated_at));
            } else {
                page.records.push(record.at(shown.updated_at));
            }
            page.facts.items += 1;
        }
        Some(page)
    }

    /// The page of this window behind `position`, as it looks at `now`.
    pub(super) fn page(
        &self,
        window: Window,
        position: &Position,
        size: usize,
        now: Ts,
        from_inclusive: bool,
    ) -> FetchedPage {
        self.page_of(None, window, position, size, now, from_inclusive)
    }

    /// The page of one partition, whose lists contain whole records.
    pub(super) fn page_of(
        &self,
        partition: Option<usize>,
        window: Window,
        position: &Position,
        size: usize,
        now: Ts,
        from_inclusive: bool,
    ) -> FetchedPage {
        let window = Window { from: window.from - self.lookback, ..window };
        // The endpoint of the partitions is read by tokens, in its own order.
        let numbered = self.pages.before(position, size).filter(|_| partition.is_none());
        let descending = self.descending && partition.is_none();
        let rank = |at: Ts, id: u32| if descending { (-at.micros(), -i64::from(id)) } else { (at.micros(), id.into()) };
        let after = parse_token(position).map(|(at, id)| rank(at, id));
        let upto = numbered.unwrap_or(0) + size;
        let mut found: Vec<(Ts, u32, bool)> = Vec::with_capacity(8);
        let (mut more, mut total) = (false, 0);
        let whole = self.whole_lists.filter(|_| partition.is_some());
        let own = |record: &ApiRecord| record.partition == partition && (whole.is_none() || record.is_there(now));
        for (id, record) in self.records.iter().enumerate().filter(|(_, record)| own(record)) {
            for shown in record.listed(now) {
                let inside = whole.is_some()
                    || window.contains(shown.updated_at) && (from_inclusive || shown.updated_at > window.from);
                total += u64::from(inside);
                let own = rank(shown.updated_at, id as u32);
                if !inside || after.is_some_and(|after| own <= after) {
                    continue;
                }
                let place = found.partition_point(|other| rank(other.0, other.1) < own);
                if place < upto {
                    found.insert(place, (shown.updated_at, id as u32, shown.malformed));
                }
                if found.len() > upto || place >= upto {
                    found.truncate(upto);
                    more = true;
                }
            }
        }
        found.drain(..numbered.unwrap_or(0).min(found.len()));
        let mut page = blank_page();
        page.facts.items = found.len() as u32;
        page.facts.total = numbered.or(whole.filter(|counted| *counted).map(|_| 0)).map(|_| total);
        if let (Some(ceiling), None) = (self.ceiling, partition) {
            page.facts.total = Some(total);
            // Records beyond the ceiling are not returned, and only the total shows it.
            more &= total <= ceiling;
        }
        for (index, (updated_at, id, malformed)) in found.iter().enumerate() {
            let record = &self.records[*id as usize];
            // Exact, not a hash: at most eight records of at most 255, and when the newest changed.
            page.content[index] = *id as u8 + 1;
            page.content[8..].copy_from_slice(&updated_at.micros().to_be_bytes());
            // Revisions of one record that are listed together count as two.
            let revision = (updated_at.micros() as u64) ^ (u64::from(*id) << 48);
            let mut own = [0; 16];
            own[..8].copy_from_slice(&revision.to_be_bytes());
            page.facts.ids.push(own);
            if self.ids_only && partition.is_none() {
                let version = updated_at.micros().to_string();
                page.candidates.push(DetailCandidate { id: record.key.to_owned(), version });
            } else if *malformed {
                page.rejected.push(record.rejected(index as u32, *updated_at));
            } else {
                page.records.push(record.at(*updated_at));
            }
        }
        if let (true, Pages::Urls, Some(before)) = (more, self.pages, numbered) {
            page.facts.next_url = Some((before + found.len()).to_string());
        }
        if let (true, None, Some((at, id, _))) = (more, numbered, found.last()) {
            page.facts.next_token = Some(format!("{}.{id}", at.micros()));
        }
        page
    }
}

impl ApiRecord {
    /// Oldest first.
    fn revisions(&self) -> impl DoubleEndedIterator<Item = &Revision> {
        std::iter::once(&self.first).chain(&self.later)
    }

    /// The revision that a collector must have at `now`; without `late`, only revisions that appeared in time.
    pub(super) fn owed(&self, now: Ts, late: bool) -> Option<Revision> {
        // A record that comes and goes need not have been there when its page was read.
        self.shown(now).filter(|shown| (late || !shown.late) && self.away.is_empty())
    }

    /// The visible revision at `now`.
    pub(super) fn shown(&self, now: Ts) -> Option<Revision> {
        self.revisions().rev().find(|revision| revision.visible_at <= now).copied()
    }

    /// The revisions in the lists at `now`.
    fn listed(&self, now: Ts) -> impl Iterator<Item = &Revision> {
        let visible = self.revisions().rev().filter(move |revision| revision.visible_at <= now);
        visible.take(if self.ghost { usize::MAX } else { 1 })
    }

    fn at(&self, updated_at: Ts) -> Record {
        Record {
            key: self.key.to_owned(),
            version: RecordVersion { updated_at, source_version: 0 },
            fields: String::new(),
            payload: "{}".into(),
            content_hash: [0; 16],
        }
    }

    fn rejected(&self, index: u32, updated_at: Ts) -> RejectedRecord {
        RejectedRecord {
            index,
            key: Some(self.key.to_owned()),
            code: Code::ParseError,
            reason: updated_at.micros().to_string(),
            sample: String::new(),
        }
    }
}

pub(super) fn blank_page() -> FetchedPage {
    FetchedPage {
        facts: PageFacts::default(),
        records: Vec::new(),
        rejected: Vec::new(),
        skipped: SkipReasons::default(),
        excluded: Vec::new(),
        candidates: Vec::new(),
        content: [0; 16],
        evidence: no_evidence(),
        validators: None,
        moved_to: None,
        capture: None,
        warnings: Vec::new(),
        cut: None,
        memory: HeldMemory::default(),
    }
}

/// Empty evidence, for an exchange that never happened.
pub(super) fn no_evidence() -> ExchangeEvidence {
    ExchangeEvidence {
        latency_ms: 0,
        status: 0,
        bytes: 0,
        request_digest: String::new(),
        response_digest: String::new(),
        raw: None,
        quota: Ok(None),
    }
}

/// The keys of all records that a world may have.
static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| (0..255).map(|number| format!("r{number}")).collect());

/// The key of the record with this number.
pub(super) fn key(number: u64) -> String {
    format!("r{number}")
}

/// The number of a record in its key.
pub(super) fn number(key: &str) -> Option<usize> {
    key.strip_prefix('r')?.parse().ok()
}

fn parse_token(position: &Position) -> Option<(Ts, u32)> {
    let Position::Token(Some(token)) = position else { return None };
    // Behind an empty page, the same place has another name.
    let (at, id) = token.trim_end_matches('+').split_once('.')?;
    Some((Ts::from_micros(at.parse().ok()?), id.parse().ok()?))
}
