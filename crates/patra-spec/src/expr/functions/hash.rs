//! Encodings and digests. No keyed digest: that would need a secret, and no secret reaches a template.

use std::fmt::Write;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use md5::{Digest, Md5};
use minijinja::{Error, Value};

use patra_core::hash;

use super::{Call, MAX_OUTPUT, RenderError, failed, null};

/// Both alphabets come as the standard one, with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) fn sha256(call: &Call<'_>) -> Result<Value, Error> {
    Ok(call.text(0)?.map(|text| hash::sha256_hex(text.as_bytes())).into())
}

pub(super) fn md5(call: &Call<'_>) -> Result<Value, Error> {
    let Some(text) = call.text(0)? else { return Ok(null()) };
    let mut hex = String::with_capacity(32);
    for byte in Md5::digest(text.as_bytes()) {
        // Writing to a text cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex.into())
}

pub(super) fn base64(call: &Call<'_>) -> Result<Value, Error> {
    let Some(text) = call.text(0)? else { return Ok(null()) };
    room(text.len().div_ceil(3) * 4)?;
    Ok(STANDARD.encode(text.as_bytes()).into())
}

pub(super) fn base64_decode(call: &Call<'_>) -> Result<Value, Error> {
    let Some(text) = call.text(0)? else { return Ok(null()) };
    let standard = text.trim().replace('-', "+").replace('_', "/");
    match LENIENT.decode(standard).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => Ok(text.into()),
        None => call.unfit(format!("{} is no text in base64", crate::problem::quote(&text))),
    }
}

/// Everything but letters, digits and `-._~` (RFC 3986).
pub(super) fn urlencode(call: &Call<'_>) -> Result<Value, Error> {
    let Some(text) = call.text(0)? else { return Ok(null()) };
    room(text.bytes().map(|byte| if is_plain(byte) { 1 } else { 3 }).sum())?;
    Ok(percent_encoded(&text).into())
}

pub(in super::super) fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn room(length: usize) -> Result<(), Error> {
    if length > MAX_OUTPUT { Err(failed(RenderError::TooLong)) } else { Ok(()) }
}
