//! Operations of the cookie pool.

use std::time::Duration;

use patra_core::cookie::CookieLimits;
use patra_core::credential::Binding;
use patra_core::registry::WHOLE;
use patra_core::tx::{
    PauseCookie, PickCookie, ReactivateCookie, RecordCookieOutcome, ReleaseCookie, SaveCookie, SealedText, Tx,
};
use patra_core::{CredentialId, Ts};

use super::Generator;
use crate::contract::make;

const PLATFORM: &str = "xhs";
/// Times around those that both stores have.
const EARLY: Ts = Ts::from_secs(1_700_000_000);
const LATE: Ts = Ts::from_secs(4_000_000_000);

impl Generator {
    pub(super) fn cookie(&mut self) -> Tx {
        let name = ["a", "b", "c"][self.cookies.below(3) as usize].to_owned();
        match self.cookies.below(20) {
            0..4 => self.save_cookie(name),
            4..11 => self.pick_cookie(name),
            11..14 => {
                let holder = format!("use {}", self.uses.saturating_sub(self.cookies.below(4)));
                ReleaseCookie { holder }.into()
            }
            14..18 => self.judge_cookie(),
            18 => PauseCookie { name, paused: self.cookies.chance(400) }.into(),
            _ => ReactivateCookie { name }.into(),
        }
    }

    fn save_cookie(&mut self, name: String) -> Tx {
        let value = SealedText { text: format!("sealed {}", self.cookies.below(3)), key_id: "key".into() };
        let provenance_code = if self.cookies.chance(50) { "dy" } else { PLATFORM }.to_owned();
        SaveCookie {
            binding: Binding { alias: name, provenance_code, endpoint_name: WHOLE.into() },
            version: 1 + i64::from(self.cookies.chance(50)),
            value: self.cookies.chance(700).then_some(value),
            priority: self.cookies.chance(300).then(|| self.cookies.below(3) as i32),
            daily_limit: self.cookies.chance(300).then(|| 1 + self.cookies.below(5) as u32),
            expires_at: self.cookies.chance(150).then(|| if self.cookies.chance(500) { EARLY } else { LATE }),
            max_parallel: self.cookies.chance(400).then(|| self.cookies.below(3) as u32),
        }
        .into()
    }

    fn pick_cookie(&mut self, name: String) -> Tx {
        self.uses += 1;
        PickCookie {
            provenance_code: PLATFORM.into(),
            endpoint_name: make::ENDPOINT.into(),
            name: self.cookies.chance(300).then_some(name),
            exclude: if self.cookies.chance(200) { vec!["a".into()] } else { Vec::new() },
            day: EARLY,
            check: self.cookies.chance(200),
            holder: format!("use {}", self.uses),
            lease: if self.cookies.chance(500) { make::LONG } else { make::SHORT },
        }
        .into()
    }

    fn judge_cookie(&mut self) -> Tx {
        RecordCookieOutcome {
            credential: CredentialId(1 + self.cookies.below(3) as i64),
            seen_version: self.cookies.below(2) as i64,
            started: EARLY,
            error: self.cookies.chance(500).then(|| "refused".into()),
            rules: CookieLimits { cooling: Duration::from_millis(100), ..CookieLimits::default() },
        }
        .into()
    }
}
