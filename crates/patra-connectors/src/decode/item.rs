//! One item to one record.

use std::borrow::Cow;

use bytestring::ByteString;
use serde_json::value::RawValue;

use patra_core::record::{DetailCandidate, MAX_KEY_BYTES, MAX_RECORD_BYTES, Record, RecordVersion, RejectedRecord};
use patra_core::{Code, Fault, Window};
use patra_spec::{Snapshot, TimeFormat};

use super::cast::FieldCasts;
use super::condition::RecordCondition;
use super::paths::{SelectorList, broken};
use super::scalar::text;
use super::strip::FieldStripper;
use super::time;
use super::walk::PathTree;

#[derive(Debug)]
pub(super) struct ItemDecoder {
    wanted: PathTree,
    ids: Vec<(usize, String)>,
    separator: char,
    updated_at: Option<usize>,
    /// Records need no time of their own: they have the time of their window (ING-4.4-16), or the earliest time for
    /// polls.
    undated: bool,
    /// That time is the end of the window: when the pass over the list began.
    by_end: bool,
    updated_at_path: String,
    time_format: TimeFormat,
    version: Option<usize>,
    filter: Vec<RecordCondition>,
    fields: FieldCasts,
    strip: Option<FieldStripper>,
    /// Hash of the parts of a request, besides the version, that the content behind an id depends on.
    form: String,
}

impl ItemDecoder {
    pub(super) fn new(spec: &Snapshot) -> Result<ItemDecoder, Fault> {
        let (response, mapping) = (&spec.response, &spec.mapping);
        let mut paths = SelectorList::default();
        let time_format = response.updated_at_format.as_deref().map(TimeFormat::parse).transpose();
        let mut ids = Vec::new();
        for path in &response.id_path.0 {
            ids.push((paths.add(path)?, path.clone()));
        }
        let filter = mapping.filter.iter().map(|condition| RecordCondition::new(condition, &mut paths));
        Ok(ItemDecoder {
            filter: filter.collect::<Result<_, _>>()?,
            updated_at: paths.maybe(response.updated_at_path.as_deref())?,
            undated: spec.is_undated(),
            by_end: spec.reads_whole_list(),
            updated_at_path: response.updated_at_path.clone().unwrap_or_default(),
            version: paths.maybe(response.version_path.as_deref())?,
            fields: FieldCasts::new(mapping, &mut paths)?,
            strip: FieldStripper::new(&mapping.remove)?,
            wanted: paths.wanted(),
            form: String::new(),
            ids,
            separator: response.id_separator.as_ref().and_then(|text| text.chars().next()).unwrap_or(':'),
            time_format: time_format.map_err(|flaw| broken(&flaw.message))?.unwrap_or_default(),
        })
    }

    /// Records need no time.
    pub(super) fn undated(self) -> ItemDecoder {
        ItemDecoder { undated: true, ..self }
    }

    /// Decodes ids alone: nothing of the item is mapped or stored.
    pub(super) fn of_ids(spec: &Snapshot, version_path: Option<&str>) -> Result<ItemDecoder, Fault> {
        let mut bare = spec.clone();
        bare.mapping.output_fields.clear();
        bare.mapping.remove.clear();
        if let Some(path) = version_path {
            bare.response.version_path = Some(path.to_owned());
        }
        // Details of another request are different content.
        let detail = spec.two_phase.as_ref().map(|two_phase| two_phase.detail.selection_hash());
        let form = detail.map_or_else(String::new, |hash| format!("#{}", &hash[hash.len().saturating_sub(8)..]));
        Ok(ItemDecoder { form, ..ItemDecoder::new(&bare)? })
    }

    /// The id of the item with its version: a declared version, else its update time, else the window. `None` when the
    /// filter excludes it.
    pub(super) fn candidate<'a>(
        &self,
        raw: &'a RawValue,
        window: Window,
        found: &mut Vec<Option<&'a RawValue>>,
    ) -> Result<Option<DetailCandidate>, ItemRejection> {
        self.wanted
            .find_into(raw.get(), found)
            .map_err(|error| ItemRejection::new(None, format!("unreadable: {error}")))?;
        if !self.filter.iter().all(|condition| condition.holds(found)) {
            return Ok(None);
        }
        let id = self.key(found)?;
        let at = |slot: Option<usize>| slot.and_then(|slot| found[slot]).and_then(text);
        let said = at(self.version).or_else(|| at(self.updated_at)).filter(|said| said.len() <= MAX_KEY_BYTES);
        let version = said.map_or_else(|| format!("{}/{}", window.from, window.to), Cow::into_owned);
        Ok(Some(DetailCandidate { id, version: format!("{version}{}", self.form) }))
    }

    /// The stored payload of the item: a slice of the body, or a copy without removed members.
    pub(super) fn payload(&self, body: &ByteString, raw: &RawValue) -> ByteString {
        match &self.strip {
            None => body.slice_ref(raw.get()),
            Some(strip) => strip.apply(raw).into(),
        }
    }

    /// The record; `None` when the filter excludes it.
    pub(super) fn record<'a>(
        &self,
        raw: &'a RawValue,
        payload: ByteString,
        content_hash: [u8; 16],
        window: Window,
        found: &mut Vec<Option<&'a RawValue>>,
    ) -> Result<Option<Record>, ItemRejection> {
        self.wanted
            .find_into(raw.get(), found)
            .map_err(|error| ItemRejection::new(None, format!("unreadable: {error}")))?;
        if !self.filter.iter().all(|condition| condition.holds(found)) {
            return Ok(None);
        }
        let key = self.key(found)?;
        check_size(Some(key.as_str()), payload.len())?;
        let at = |slot: Option<usize>| slot.and_then(|slot| found[slot]);
        let own = at(self.updated_at).and_then(|raw| time::instant(&self.time_format, raw));
        let Some(updated_at) = own.or(self.undated.then_some(if self.by_end { window.to } else { window.from })) else {
            return Err(ItemRejection::new(
                Some(key),
                format!("updated_at_path {} finds no time", self.updated_at_path),
            ));
        };
        let source_version = at(self.version).and_then(text).and_then(|text| text.parse().ok()).unwrap_or(0);
        let fields = match self.fields.map(found) {
            Ok(fields) => fields,
            Err(reason) => return Err(ItemRejection::new(Some(key), reason)),
        };
        check_size(Some(key.as_str()), payload.len() + fields.len())?;
        Ok(Some(Record { key, version: RecordVersion { updated_at, source_version }, fields, payload, content_hash }))
    }

    /// The mapped fields of an item that is identified otherwise; `None` when the filter excludes it.
    pub(super) fn fields<'a>(
        &self,
        raw: &'a RawValue,
        found: &mut Vec<Option<&'a RawValue>>,
    ) -> Result<Option<String>, ItemRejection> {
        self.wanted
            .find_into(raw.get(), found)
            .map_err(|error| ItemRejection::new(None, format!("unreadable: {error}")))?;
        if !self.filter.iter().all(|condition| condition.holds(found)) {
            return Ok(None);
        }
        self.fields.map(found).map(Some).map_err(|reason| ItemRejection::new(None, reason))
    }

    /// The id of an item, if it can be read.
    pub(super) fn id_of<'a>(&self, raw: &'a RawValue, found: &mut Vec<Option<&'a RawValue>>) -> Option<String> {
        self.wanted.find_into(raw.get(), found).ok()?;
        self.key(found).ok()
    }

    /// The id of the last item.
    pub(super) fn id(&self, found: &[Option<&RawValue>]) -> Option<DetailCandidate> {
        self.key(found).ok().map(|id| DetailCandidate { id, version: String::new() })
    }

    fn key(&self, found: &[Option<&RawValue>]) -> Result<String, ItemRejection> {
        let key = match &self.ids[..] {
            [(slot, path)] => part(found[*slot], path)?.into_owned(),
            parts => self.joined(parts, found)?,
        };
        if key.len() > MAX_KEY_BYTES || key.contains('\0') {
            let reason = format!("the id has {} bytes or a NUL; at most {MAX_KEY_BYTES} are kept", key.len());
            return Err(ItemRejection::new(None, reason));
        }
        Ok(key)
    }

    /// A separator within a part is marked, so that different parts never make the same id.
    fn joined(&self, parts: &[(usize, String)], found: &[Option<&RawValue>]) -> Result<String, ItemRejection> {
        let mut key = String::new();
        for (at, (slot, path)) in parts.iter().enumerate() {
            if at > 0 {
                key.push(self.separator);
            }
            for c in part(found[*slot], path)?.chars() {
                if c == self.separator || c == '\\' {
                    key.push('\\');
                }
                key.push(c);
            }
        }
        Ok(key)
    }
}

/// Sets a record aside that is too large to be stored.
pub(super) fn check_size(key: Option<&str>, bytes: usize) -> Result<(), ItemRejection> {
    if bytes <= MAX_RECORD_BYTES {
        return Ok(());
    }
    let reason = format!("the record has {bytes} bytes with its fields; at most {MAX_RECORD_BYTES} are stored");
    Err(ItemRejection::new(key.map(str::to_owned), reason))
}

fn part<'a>(raw: Option<&'a RawValue>, path: &str) -> Result<Cow<'a, str>, ItemRejection> {
    match raw.and_then(text) {
        None => Err(ItemRejection::new(None, format!("id_path {path} finds no text or number"))),
        Some(key) if key.is_empty() => Err(ItemRejection::new(None, format!("id_path {path} finds an empty text"))),
        Some(key) => Ok(key),
    }
}

/// Why an item is set aside.
pub(super) struct ItemRejection {
    key: Option<String>,
    reason: String,
}

impl ItemRejection {
    pub(super) fn new(key: Option<String>, reason: String) -> ItemRejection {
        ItemRejection { key, reason }
    }

    pub(super) fn of(self, key: Option<String>) -> ItemRejection {
        ItemRejection { key, ..self }
    }

    pub(super) fn reject(self, index: usize, raw: &RawValue) -> RejectedRecord {
        let sample = patra_core::text::beginning(raw.get(), RejectedRecord::MAX_SAMPLE);
        RejectedRecord {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            key: self.key,
            code: Code::ValidationError,
            reason: self.reason,
            sample: super::private::without_addresses(sample),
        }
    }
}
