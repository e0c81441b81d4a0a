//! Classes of characters for finding the end of a URL.

/// Ends every URL: white space, control and direction marks, quotes, and the punctuation of scripts that write no
/// spaces, after which the sentence goes on at once.
pub(super) fn is_break(c: char) -> bool {
    if c.is_ascii() {
        return c <= ' ' || matches!(c, '"' | '<' | '>' | '`' | '\\' | '\u{7f}');
    }
    c.is_whitespace() || c.is_control() || is_mark(c) || is_quote(c) || is_wide_punctuation(c)
}

/// Invisible characters, which no URL has. Joiners are not among them: Persian and emoji need them.
fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff9}'..='\u{ffff}')
}

/// Quotes, bullets, arrows and the lines of drawn tables.
fn is_quote(c: char) -> bool {
    matches!(c, '«' | '»' | '“' | '”' | '„' | '‟' | '‚' | '‛' | '‹' | '›' | '…' | '‥' | '•' | '‣')
        || matches!(c, '\u{2190}'..='\u{21ff}' | '\u{2500}'..='\u{259f}')
}

fn is_wide_punctuation(c: char) -> bool {
    matches!(c,
        '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}' | '\u{3030}'
        | '\u{fe10}'..='\u{fe19}' | '\u{fe30}'..='\u{fe6b}'
        | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff65}')
}

/// Punctuation: inside a URL it is kept, but at its end it belongs to the sentence.
pub(super) fn is_trailing(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*');
    }
    matches!(c,
        '\u{200c}' | '\u{200d}' | '‘' | '’' | '·' | '¡' | '¿' | '‽' | '‐'..='―' | '・'
        // Greek, Armenian, Hebrew, Arabic
        | '\u{37e}' | '\u{387}' | '՚'..='՟' | '։' | '־' | '׃' | '،' | '؛' | '؟' | '۔'
        // Indic, Tibetan, Burmese, Ethiopic, Khmer, Mongolian
        | '।' | '॥' | '་'..='༒' | '၊' | '။' | '፡'..='፨' | '។'..='៖' | '᠀'..='᠉')
}

/// A dash that parts a sentence. Titles have it only between underscores.
pub(super) fn is_long_dash(c: char) -> bool {
    matches!(c, '—' | '―' | '⸺' | '⸻')
}

/// Characters of scripts without spaces, and pictures: directly after a Latin letter the sentence goes on.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}'
        | '\u{2190}'..='\u{2bff}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{ff10}'..='\u{ffdc}' | '\u{1f000}'..='\u{1faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Hiragana: far more often the start of a Japanese particle than of a title.
pub(super) fn is_hiragana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{309f}')
}

/// Latin letters other than ASCII in a top-level domain, and the marks of decomposed letters.
pub(super) fn is_latin(c: char) -> bool {
    matches!(c, '\u{c0}'..='\u{24f}' | '\u{300}'..='\u{36f}' | '\u{1e00}'..='\u{1eff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_has_one_meaning() {
        for c in ('\0'..=char::MAX).filter(|c| is_break(*c)) {
            assert!(!is_trailing(c), "{c:?} both ends a URL and may stand in it");
        }
        for c in
            ['a', 'é', 'я', 'ש', 'ع', 'क', '中', 'あ', 'ア', '한', 'ก', '々', '\u{200c}', '-', '_', '~', '/', '%', '\'']
        {
            assert!(!is_break(c), "{c:?}");
        }
        for c in [
            ' ', '\u{a0}', '\u{3000}', '\u{85}', '\0', '"', '”', '。', '，', '）', '」', '\u{200b}', '\u{feff}',
            '\u{fffd}',
        ] {
            assert!(is_break(c), "{c:?}");
        }
        for c in ['.', '।', '؟', '۔', '።', '–', '\'', '’'] {
            assert!(is_trailing(c), "{c:?}");
        }
    }
}
