//! The words of dates and times: names of months and weekdays, units, special values.

/// The unit that a word in front of a number gives it: `y2026m11d21`, `j2451187`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Julian,
    /// The time of ISO 8601 behind its `T`.
    Time,
    /// A unit that no number has.
    Other,
}

/// A value with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Now,
    Yesterday,
    Today,
    Tomorrow,
    /// Midnight in UTC.
    Zulu,
    Epoch,
    Infinity,
    MinusInfinity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Ignored,
    Named(Named),
    Month(i64),
    Weekday,
    Label(Label),
    Afternoon(bool),
    BeforeChrist(bool),
    /// `DST`: an hour more than the zone in front of it.
    Daylight,
}

/// Maximum length at which two words differ.
pub(in crate::value) const SIGNIFICANT: usize = 10;

const WORDS: &[(&str, Word)] = &[
    ("+infinity", Word::Named(Named::Infinity)),
    ("-infinity", Word::Named(Named::MinusInfinity)),
    ("ad", Word::BeforeChrist(false)),
    ("allballs", Word::Named(Named::Zulu)),
    ("am", Word::Afternoon(false)),
    ("apr", Word::Month(4)),
    ("april", Word::Month(4)),
    ("at", Word::Ignored),
    ("aug", Word::Month(8)),
    ("august", Word::Month(8)),
    ("bc", Word::BeforeChrist(true)),
    ("d", Word::Label(Label::Day)),
    ("dec", Word::Month(12)),
    ("december", Word::Month(12)),
    ("dow", Word::Label(Label::Other)),
    ("doy", Word::Label(Label::Other)),
    ("dst", Word::Daylight),
    ("epoch", Word::Named(Named::Epoch)),
    ("feb", Word::Month(2)),
    ("february", Word::Month(2)),
    ("fri", Word::Weekday),
    ("friday", Word::Weekday),
    ("h", Word::Label(Label::Hour)),
    ("infinity", Word::Named(Named::Infinity)),
    ("isodow", Word::Label(Label::Other)),
    ("isoyear", Word::Label(Label::Other)),
    ("j", Word::Label(Label::Julian)),
    ("jan", Word::Month(1)),
    ("january", Word::Month(1)),
    ("jd", Word::Label(Label::Julian)),
    ("jul", Word::Month(7)),
    ("julian", Word::Label(Label::Julian)),
    ("july", Word::Month(7)),
    ("jun", Word::Month(6)),
    ("june", Word::Month(6)),
    ("m", Word::Label(Label::Month)),
    ("mar", Word::Month(3)),
    ("march", Word::Month(3)),
    ("may", Word::Month(5)),
    ("mm", Word::Label(Label::Minute)),
    ("mon", Word::Weekday),
    ("monday", Word::Weekday),
    ("nov", Word::Month(11)),
    ("november", Word::Month(11)),
    ("now", Word::Named(Named::Now)),
    ("oct", Word::Month(10)),
    ("october", Word::Month(10)),
    ("on", Word::Ignored),
    ("pm", Word::Afternoon(true)),
    ("s", Word::Label(Label::Second)),
    ("sat", Word::Weekday),
    ("saturday", Word::Weekday),
    ("sep", Word::Month(9)),
    ("sept", Word::Month(9)),
    ("september", Word::Month(9)),
    ("sun", Word::Weekday),
    ("sunday", Word::Weekday),
    ("t", Word::Label(Label::Time)),
    ("thu", Word::Weekday),
    ("thur", Word::Weekday),
    ("thurs", Word::Weekday),
    ("thursday", Word::Weekday),
    ("today", Word::Named(Named::Today)),
    ("tomorrow", Word::Named(Named::Tomorrow)),
    ("tue", Word::Weekday),
    ("tues", Word::Weekday),
    ("tuesday", Word::Weekday),
    ("wed", Word::Weekday),
    ("wednesday", Word::Weekday),
    ("weds", Word::Weekday),
    ("y", Word::Label(Label::Year)),
    ("yesterday", Word::Named(Named::Yesterday)),
];

/// The meaning of a word in lower case.
pub(super) fn lookup(word: &str) -> Option<Word> {
    let word = cut(word);
    let found = WORDS
        .binary_search_by(|(known, _)| (*known).cmp(word))
        .ok()?;
    Some(WORDS[found].1)
}

/// The part of a word that counts.
pub(in crate::value) fn cut(word: &str) -> &str {
    word.get(..SIGNIFICANT).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted() {
        assert!(WORDS.is_sorted_by(|left, right| left.0 < right.0));
        assert_eq!(lookup("sept"), Some(Word::Month(9)));
        assert_eq!(lookup("septem"), None);
    }
}
