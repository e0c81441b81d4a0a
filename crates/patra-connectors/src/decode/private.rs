//! Redacts personal data from samples that people see (ING-14.10-02). Secrets are redacted before that.

/// Replacement for an e-mail address.
const ADDRESS: &str = "***@***";

/// The text without e-mail addresses. The domain is redacted too: it may name a person.
pub(super) fn without_addresses(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.match_indices('@') {
        if at < from {
            continue;
        }
        let local = text[from..at].bytes().rev().take_while(|byte| is_local(*byte)).count();
        let domain = text[at + 1..].bytes().take_while(|byte| is_domain(*byte)).count();
        if local == 0 || domain == 0 {
            continue;
        }
        clean.push_str(&text[from..at - local]);
        clean.push_str(ADDRESS);
        from = at + 1 + domain;
    }
    clean.push_str(&text[from..]);
    clean
}

fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".!#$%&'*+-/=?^_`{|}~".contains(&byte) || byte >= 0x80
}

fn is_domain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-".contains(&byte) || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_any_place_are_redacted() {
        let check = |text: &str, clean: &str| assert_eq!(without_addresses(text), clean);
        check("nothing here", "nothing here");
        check(r#"{"mail":"ann.b+x@example.org","n":1}"#, r#"{"mail":"***@***","n":1}"#);
        check("a@b.c, d@e.f", "***@***, ***@***");
        check("<jörg@müller.example>", "<***@***>");
        check("@handle and 3 @ 4 and x@", "@handle and 3 @ 4 and x@");
        check("a@b@c", "***@***@c");
    }
}
