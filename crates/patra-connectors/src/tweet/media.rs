//! Photos and videos of a tweet object of any form.

use serde_json::Value;

use patra_core::tweet::Media;

use super::parse::text;

/// The media of a tweet: `media`, a list or an object of lists, else `extendedEntities.media` (TWEET-35).
pub(super) fn of_tweet(tweet: &Value) -> Vec<Media> {
    let own = match &tweet["media"] {
        own @ Value::Array(_) => list(own),
        Value::Object(lists) => {
            let all =
                lists.iter().flat_map(|(kind, list)| list.as_array().into_iter().flatten().map(move |one| (kind, one)));
            all.filter_map(|(kind, media)| one(media, Some(kind.trim_end_matches('s')))).collect()
        }
        _ => Vec::new(),
    };
    if !own.is_empty() {
        return own;
    }
    ["extendedEntities", "extended_entities"].iter().flat_map(|name| list(&tweet[*name]["media"])).collect()
}

/// Media of a list.
pub(super) fn list(list: &Value) -> Vec<Media> {
    list.as_array().into_iter().flatten().filter_map(|media| one(media, None)).collect()
}

/// One medium; `None` without a key and a type (TWEET-132). `kind` is the name of its list.
pub(super) fn one(media: &Value, kind: Option<&str>) -> Option<Media> {
    let media_key = ["media_key", "id_str", "id", "url"].iter().find_map(|name| text(media, name))?;
    let r#type = text(media, "type").or_else(|| kind.map(str::to_owned))?;
    let still =
        || ["media_url_https", "media_url", "url", "preview_image_url"].iter().find_map(|name| text(media, name));
    let url = film(media).or_else(still);
    let size = |long: &str, short: &str| {
        let found = [&media["original_info"][long], &media["sizes"]["large"][short], &media[long]];
        found.into_iter().find_map(Value::as_u64).and_then(|size| u32::try_from(size).ok())
    };
    Some(Media { media_key, r#type, url, width: size("width", "w"), height: size("height", "h") })
}

/// The best video: mp4 with the highest bit rate; any other format without mp4.
fn film(media: &Value) -> Option<String> {
    let lists = [&media["video_info"]["variants"], &media["variants"]];
    let variants = lists.into_iter().find_map(Value::as_array)?;
    let rate = |variant: &Value| ["bitrate", "bit_rate"].iter().find_map(|name| variant[*name].as_u64()).unwrap_or(0);
    let mp4 = variants.iter().filter(|variant| variant["content_type"] == "video/mp4");
    // The first of equal ones.
    let best = mp4.rev().max_by_key(|variant| rate(variant)).or_else(|| variants.first())?;
    text(best, "url")
}
