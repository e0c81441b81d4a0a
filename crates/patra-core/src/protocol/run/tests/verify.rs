//! Lists that move while they are read: every record that is there the whole time is stored, or the slice does not end
//! as complete.

use std::collections::BTreeSet;

use super::*;
use crate::hash::{content_hash, id_hash};
use crate::paging::{Verification, Verify};

/// A list of records in a stable order, which is edited between requests.
struct MovingList {
    rows: Vec<u32>,
    /// Rows that were there all the time.
    stayed: BTreeSet<u32>,
    next: u32,
    rng: Rng,
    /// An edit comes before one in so many requests; 0: never.
    every: u64,
    edits: Edits,
    total: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Edits {
    /// A row leaves, or another joins at the end.
    Any,
    /// One leaves and one joins, so that the total stays the same.
    Swaps,
    /// Rows only leave.
    Removals,
    /// A row moves to the front, whether it was read or not, or a new one joins there.
    Front,
}

impl MovingList {
    fn new(rows: u32, seed: u64, every: u64, edits: Edits, total: bool) -> MovingList {
        let rows: Vec<u32> = (0..rows).collect();
        MovingList {
            stayed: rows.iter().copied().collect(),
            next: 1_000,
            rows,
            rng: Rng::new(seed),
            every,
            edits,
            total,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.rng.next_u64() % limit.max(1)
    }

    fn edit(&mut self) {
        if self.every == 0 || self.below(self.every) > 0 {
            return;
        }
        if self.edits == Edits::Front {
            let row = match self.below(3) {
                0 => self.next + self.rows.len() as u32,
                _ => {
                    let at = self.below(self.rows.len() as u64) as usize;
                    self.rows.remove(at)
                }
            };
            self.rows.insert(0, row);
            self.next += 1;
            return;
        }
        let leaves = self.edits != Edits::Any || self.below(2) == 0;
        if leaves && !self.rows.is_empty() {
            let at = self.below(self.rows.len() as u64) as usize;
            self.stayed.remove(&self.rows.remove(at));
        }
        if self.edits == Edits::Swaps || !leaves {
            self.rows.push(self.next);
            self.next += 1;
        }
    }

    fn page(&mut self, fetch: &PageFetch) -> FetchedPage {
        self.edit();
        let size = u64::from(fetch.page_size);
        let from = match &fetch.position {
            Position::Offset(offset) => *offset,
            Position::Page(no) => (no - 1) * size,
            Position::Url(url) => url.as_deref().map_or(0, |url| url.parse().unwrap()),
            // A token names the last row that was returned.
            Position::Token(token) => token.as_deref().map_or(0, |last| {
                let last = last.bytes().fold(0, |row, letter| row * 26 + u32::from(letter - b'a'));
                self.rows.iter().filter(|row| **row <= last).count() as u64
            }),
            other => panic!("{other:?}"),
        };
        let (from, to) = (from.min(self.rows.len() as u64), (from + size).min(self.rows.len() as u64));
        let rows = &self.rows[from as usize..to as usize];
        let more = to < self.rows.len() as u64;
        let records: Vec<_> = rows.iter().map(|row| record(&format!("{row}"), at(1))).collect();
        let facts = PageFacts {
            items: rows.len() as u32,
            total: self.total.then_some(self.rows.len() as u64),
            next_token: rows.last().filter(|_| more).map(|row| in_letters(*row)),
            next_url: Some(to.to_string()).filter(|_| more),
            ids: rows.iter().map(|row| id_hash(row.to_string().as_bytes())).collect(),
            ..PageFacts::default()
        };
        FetchedPage { facts, content: content_hash(format!("{rows:?}").as_bytes()), records, ..FetchedPage::default() }
    }
}

/// A number would look like a place in the list.
fn in_letters(row: u32) -> String {
    [row / 17_576, row / 676, row / 26, row].iter().map(|digit| char::from(b'a' + (digit % 26) as u8)).collect()
}

fn rule(kind: PagingKind, verify: Verify) -> paging::PagingRule {
    paging::PagingRule { verify, ..paging::PagingRule::new(kind, 10) }
}

/// Reads the list, in a new run after each number of commits of `crashes`.
fn read(list: &mut MovingList, rule: &paging::PagingRule, crashes: &[usize]) -> (BTreeSet<u32>, Arc<EndRun>, usize) {
    let (mut stored, mut resume, mut requests) = (BTreeSet::new(), None, 0);
    for stop in crashes.iter().copied().chain([usize::MAX]) {
        let mut driver = Driver::new(at_once());
        driver.on(started_behind(resume.clone()));
        let mut wants = VecDeque::from(driver.on(RunInput::Prepared(Ok(policy(rule.clone())))));
        let mut commits = 0;
        while let Some(want) = wants.pop_front() {
            let more = match want {
                Want::Permit { .. } => driver.on(RunInput::Permit(Allow, Advice::default())),
                Want::Fetch(fetch) => {
                    requests += 1;
                    assert!(requests < 5_000, "the reading does not end");
                    let page = list.page(&fetch);
                    driver.on(RunInput::Fetched(Ok(Box::new(page))))
                }
                Want::Tx(Tx::EndRun(end)) => return (stored, end, requests),
                Want::Tx(tx) => {
                    let pages = tx.pages();
                    for page in pages {
                        stored.extend(page.records.iter().map(|record| record.key.parse::<u32>().unwrap()));
                        let (next, stats) = (page.next.clone(), page.stats);
                        let (total, taken, walk) = (stats.total, stats.taken, stats.walk.map(Box::new));
                        resume = Some(ResumePoint { run: RUN, batch_no: page.batch_no, next, total, taken, walk });
                    }
                    commits += pages.len();
                    let done = if pages.len() == 1 { committed() } else { committed_together(pages.len()) };
                    if commits >= stop { Vec::new() } else { driver.on(done) }
                }
                other => panic!("{other:?}"),
            };
            if commits >= stop {
                break;
            }
            wants.extend(more);
        }
    }
    unreachable!("the last run has no end")
}

/// The slice is shown as complete only if nothing is missing. Returns whether it is.
#[track_caller]
fn keeps_the_promise(list: &mut MovingList, rule: &paging::PagingRule, crashes: &[usize], case: &str) -> bool {
    let (stored, end, _) = read(list, rule, crashes);
    let missing: Vec<_> = list.stayed.difference(&stored).collect();
    let verified = end.stats.verification.is_some_and(Verification::is_complete);
    let complete = end.end == RunEnd::Succeeded && (verified || end.stats.verification.is_none());
    assert!(
        !complete || missing.is_empty(),
        "{case}: {:?} as {:?} without {missing:?}",
        end.end,
        end.stats.verification
    );
    complete
}

// covers: G-23
#[test]
fn moving_list_is_complete_or_not_called_so() {
    let kinds = [
        (PagingKind::Offset, Verify::Seams),
        (PagingKind::Page { base: 1 }, Verify::Total),
        (PagingKind::Page { base: 1 }, Verify::Twice),
        (PagingKind::Offset, Verify::Twice),
        (PagingKind::Url, Verify::Total),
        (PagingKind::Url, Verify::Twice),
        (PagingKind::Token { initial: None }, Verify::Total),
    ];
    for (kind, verify) in kinds {
        let rule = rule(kind.clone(), verify);
        let mut complete = 0;
        for seed in 0..400 {
            let edits = match seed % 4 {
                0 => Edits::Any,
                1 => Edits::Swaps,
                2 => Edits::Removals,
                // A token that names a row keeps its place only while rows keep theirs, and passes that agree are no proof
                // against records that go on moving.
                _ if verify == Verify::Seams => Edits::Front,
                _ => Edits::Any,
            };
            let mut list = MovingList::new(60, seed, [0, 2, 5, 20][seed as usize / 4 % 4], edits, seed % 5 < 3);
            let crashes: &[usize] = [&[][..], &[2], &[3, 1], &[1, 1, 1]][seed as usize / 16 % 4];
            let case = format!("{kind:?} {verify:?} {edits:?} seed {seed} crashes {crashes:?}");
            complete += u32::from(keeps_the_promise(&mut list, &rule, crashes, &case));
        }
        // Otherwise the promise would be kept by never ending.
        let never = verify == Verify::Total && !matches!(kind, PagingKind::Token { .. });
        let expected = if never { 0 } else { 100 };
        assert!(complete >= expected, "{kind:?} {verify:?}: only {complete} of 400 complete");
    }
}

#[test]
fn record_that_leaves_between_two_pages_takes_no_other_with_it() {
    let mut list = MovingList::new(60, 1, 0, Edits::Any, false);
    let rule = rule(PagingKind::Offset, Verify::Seams);
    let (mut driver, wants) = Driver::prepared(lease(), (*policy(rule)).clone(), None);
    let played = driver.play(wants, Advice::default, |fetch| {
        let page = list.page(fetch);
        if fetch.batch_no == 2 {
            list.rows.remove(3);
        }
        page
    });
    let offsets: Vec<_> = played.fetches.iter().filter_map(|fetch| fetch.position.number()).collect();
    assert_eq!(offsets, [0, 9, 18, 9, 18, 27, 36, 45, 54], "the page at 18 begins with an unknown record");
    let stored: BTreeSet<String> = played.keys().into_iter().collect();
    assert!((0..60).all(|row| stored.contains(&row.to_string())), "{stored:?}");
    assert_eq!((&played.end.end, played.end.stats.verification), (&RunEnd::Succeeded, Some(Verification::Seams)));
}

#[test]
fn unchanged_list_costs_one_record_a_page() {
    let mut list = MovingList::new(60, 1, 0, Edits::Any, true);
    let (stored, end, requests) = read(&mut list, &rule(PagingKind::Offset, Verify::Seams), &[]);
    assert_eq!((stored.len(), requests), (60, 7), "pages of 10 that overlap by one");
    assert_eq!(end.stats.verification, Some(Verification::Seams));
}

#[test]
fn total_that_is_not_reached_ends_partial_with_both_numbers() {
    let mut list = MovingList::new(60, 1, 0, Edits::Any, false);
    for (kind, verify) in [
        (PagingKind::Offset, Verify::Seams),
        (PagingKind::Page { base: 1 }, Verify::Total),
        (PagingKind::Url, Verify::Total),
        (PagingKind::Token { initial: None }, Verify::Total),
    ] {
        let mut over = |rule: paging::PagingRule| {
            let (mut driver, wants) = Driver::prepared(lease(), (*policy(rule)).clone(), None);
            driver.play(wants, Advice::default, |fetch| {
                let mut page = list.page(fetch);
                page.facts.total = Some(200);
                page
            })
        };
        let played = over(rule(kind.clone(), verify));
        let RunEnd::Partial { error } = &played.end.end else { panic!("{kind:?}: {:?}", played.end.end) };
        assert!(error.message.contains("reports 200 records and returned 60"), "{}", error.message);
        let estimate = paging::PagingRule { estimates: true, ..rule(kind.clone(), verify) };
        assert_eq!(over(estimate).end.end, RunEnd::Succeeded, "{kind:?}");
    }
}

#[test]
fn single_page_needs_no_other_evidence() {
    for kind in [PagingKind::Offset, PagingKind::Page { base: 1 }, PagingKind::Url] {
        let mut list = MovingList::new(7, 1, 0, Edits::Any, false);
        let (_, end, requests) = read(&mut list, &rule(kind, Verify::Total), &[]);
        assert_eq!((requests, end.stats.verification), (1, Some(Verification::Single)));
    }
}

#[test]
fn list_without_a_stable_order_ends_partial() {
    let mut order = Rng::new(3);
    let mut list = MovingList::new(60, 1, 0, Edits::Any, false);
    let rule = rule(PagingKind::Offset, Verify::Seams);
    let (mut driver, wants) = Driver::prepared(lease(), (*policy(rule)).clone(), None);
    let played = driver.play(wants, Advice::default, |fetch| {
        for at in (1..list.rows.len()).rev() {
            list.rows.swap(at, order.next_u64() as usize % (at + 1));
        }
        list.page(fetch)
    });
    let RunEnd::Partial { error } = &played.end.end else { panic!("{:?}", played.end.end) };
    assert!(error.message.contains("order of the list is not stable"), "{}", error.message);
}

/// A server that takes only offsets that are multiples of the page size.
#[test]
fn offset_that_is_rounded_down_or_refused_is_read_like_a_page_number() {
    for refuses in [false, true] {
        let mut list = MovingList::new(35, 1, 0, Edits::Any, false);
        let (mut driver, wants) =
            Driver::prepared(lease(), (*policy(rule(PagingKind::Offset, Verify::Seams))).clone(), None);
        let (mut wants, mut stored, mut offsets) = (VecDeque::from(wants), BTreeSet::new(), Vec::new());
        let end = loop {
            let more = match wants.pop_front().expect("the run waits for nothing") {
                Want::Permit { .. } => driver.on(RunInput::Permit(Allow, Advice::default())),
                Want::Fetch(fetch) => {
                    let offset = fetch.position.number().unwrap();
                    offsets.push(offset);
                    if refuses && !offset.is_multiple_of(10) {
                        let fault = Fault::new(Code::PlatformError, Level::L2, "offset must be a multiple of limit");
                        let evidence = ExchangeEvidence { status: 400, ..ExchangeEvidence::default() };
                        driver.on(RunInput::Fetched(Err(Box::new(PageFailure {
                            fault,
                            evidence,
                            ..refusal(Level::L2)
                        }))))
                    } else {
                        let fetch = PageFetch { position: Position::Offset(offset / 10 * 10), ..fetch };
                        driver.on(RunInput::Fetched(Ok(Box::new(list.page(&fetch)))))
                    }
                }
                Want::Tx(Tx::EndRun(end)) => break end,
                Want::Tx(tx) => {
                    let records = tx.pages().iter().flat_map(|page| page.records.clone()).collect::<Vec<_>>();
                    stored.extend(records.into_iter().map(|record| record.key));
                    driver.on(committed())
                }
                other => panic!("{other:?}"),
            };
            wants.extend(more);
        };
        assert_eq!((offsets, stored.len()), (vec![0, 9, 10, 20, 30], 35), "refuses: {refuses}");
        assert_eq!((&end.end, end.stats.verification), (&RunEnd::Succeeded, Some(Verification::Unverified)));
    }
}

#[test]
fn circle_of_tokens_ends_with_an_error() {
    // 300 pages of one record, after which the first comes again.
    let rule = paging::PagingRule::new(PagingKind::Token { initial: None }, 1);
    let (mut driver, wants) = Driver::prepared(lease(), (*policy(rule)).clone(), None);
    let played = driver.play(wants, Advice::default, |fetch| {
        let page: u32 = match &fetch.position {
            Position::Token(token) => token.as_deref().map_or(0, |token| token.parse().unwrap()),
            other => panic!("{other:?}"),
        };
        let facts = PageFacts {
            items: 1,
            next_token: Some(((page + 1) % 300).to_string()),
            ids: vec![id_hash(&page.to_be_bytes())],
            ..PageFacts::default()
        };
        // A counter in each page: no two have the same content.
        let content = content_hash(&fetch.batch_no.to_be_bytes());
        FetchedPage { facts, content, records: vec![record(&page.to_string(), at(1))], ..FetchedPage::default() }
    });
    let RunEnd::Failed { error } = &played.end.end else { panic!("{:?}", played.end.end) };
    assert!(error.message.contains("max_requests_without_new_records"), "{}", error.message);
    assert_eq!(played.fetches.len(), 400);
}

/// A server that returns the first records only, and refuses what is beyond them.
#[test]
fn page_with_nothing_but_the_overlap_is_not_taken_for_the_end() {
    let mut list = MovingList::new(30, 1, 0, Edits::Any, false);
    let (mut driver, wants) =
        Driver::prepared(lease(), (*policy(rule(PagingKind::Offset, Verify::Seams))).clone(), None);
    let (mut wants, mut offsets) = (VecDeque::from(wants), Vec::new());
    let end = loop {
        let more = match wants.pop_front().expect("the run waits for nothing") {
            Want::Permit { .. } => driver.on(RunInput::Permit(Allow, Advice::default())),
            Want::Fetch(fetch) => {
                let offset = fetch.position.number().unwrap();
                offsets.push(offset);
                if offset >= 10 {
                    driver.on(RunInput::Fetched(Err(Box::new(refusal(Level::L2)))))
                } else {
                    list.rows.truncate(10);
                    driver.on(RunInput::Fetched(Ok(Box::new(list.page(&fetch)))))
                }
            }
            Want::Tx(Tx::EndRun(end)) => break end,
            Want::Tx(_) => driver.on(committed()),
            other => panic!("{other:?}"),
        };
        wants.extend(more);
    };
    assert_eq!(offsets, [0, 9, 10]);
    assert!(matches!(end.end, RunEnd::Failed { .. }), "{:?}", end.end);
}
