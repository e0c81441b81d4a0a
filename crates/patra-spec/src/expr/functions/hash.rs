//! Encodings and digests. No keyed digest: that would need a secret, and no secret reaches a template.

use std::fmt::Write;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use md5::{Digest, Md5};
use minijinja::{Error, Value};

use patra_core::hash;

use super::{FunctionCall, MAX_OUTPUT, RenderError, failed, null};

/// Accepts input with and without padding. The URL-safe alphabet is converted before decoding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) fn sha256(call: &FunctionCall<'_>) -> Result<Value, Error> {
    Ok(call.text(0)?.map(|text| hash::sha256_hex(text.as_bytes())).into())
}

pub(super) fn md5(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let Some(text) = call.text(0)? else { return Ok(null()) };
    let mut hex = String::with_capacity(32);
    for byte in Md5::digest(text.as_bytes()) {
        // Writing to a `String` cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex.into())
}

pub(super) fn base64(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let Some(text) = call.text(0)? else { return Ok(null()) };
    check_length(text.len().div_ceil(3) * 4)?;
    Ok(STANDARD.encode(text.as_bytes()).into())
}

pub(super) fn base64_decode(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let Some(text) = call.text(0)? else { return Ok(null()) };
    let standard = text.trim().replace('-', "+").replace('_', "/");
    match LENIENT.decode(standard).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => Ok(text.into()),
        None => call.unusable_value(format!("{} is not base64-encoded text", crate::problem::quote(&text))),
    }
}

/// Encodes everything except letters, digits and `-._~` (RFC 3986).
pub(super) fn urlencode(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let Some(text) = call.text(0)? else { return Ok(null()) };
    check_length(text.bytes().map(|byte| if is_plain(byte) { 1 } else { 3 }).sum())?;
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

fn check_length(length: usize) -> Result<(), Error> {
    if length > MAX_OUTPUT { Err(failed(RenderError::TooLong)) } else { Ok(()) }
}
