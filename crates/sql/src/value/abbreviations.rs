//! Abbreviations of time zones that a text may have behind a time: those of
//! PostgreSQL's set `Default`.
//!
//! An abbreviation is an offset, or, where what it means has changed over the years, it
//! names a zone whose history says what it meant at the time. Names that people of
//! several countries use for different zones (`CST`, `IST`) mean what they mean in that
//! set.

use chrono_tz::Tz;

use super::TimeZone;

/// What an abbreviation means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abbreviation {
    /// Seconds east of Greenwich, and whether that is daylight saving time.
    Offset {
        /// Seconds east of Greenwich.
        east: i32,
        /// Whether it is daylight saving time.
        daylight: bool,
    },
    /// What it means in this zone at the time.
    Place(TimeZone),
}

const fn offset(east: i32) -> Abbreviation {
    Abbreviation::Offset {
        east,
        daylight: false,
    }
}

const fn daylight(east: i32) -> Abbreviation {
    Abbreviation::Offset {
        east,
        daylight: true,
    }
}

const fn place(zone: Tz) -> Abbreviation {
    Abbreviation::Place(TimeZone::Place(zone))
}

/// The meaning of an abbreviation, in lower case.
pub(crate) fn lookup(name: &str) -> Option<Abbreviation> {
    let found = ALL.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    Some(ALL[found].1)
}

/// All abbreviations, in lower case and sorted.
pub(crate) const ALL: &[(&str, Abbreviation)] = &[
    ("acdt", daylight(37800)),
    ("acsst", daylight(37800)),
    ("acst", offset(34200)),
    ("act", offset(-18000)),
    ("acwst", offset(31500)),
    ("adt", daylight(-10800)),
    ("aedt", daylight(39600)),
    ("aesst", daylight(39600)),
    ("aest", offset(36000)),
    ("aft", offset(16200)),
    ("akdt", daylight(-28800)),
    ("akst", offset(-32400)),
    ("almst", daylight(25200)),
    ("almt", offset(21600)),
    ("amst", place(Tz::Asia__Yerevan)),
    ("amt", offset(-14400)),
    ("anast", place(Tz::Asia__Anadyr)),
    ("anat", place(Tz::Asia__Anadyr)),
    ("arst", place(Tz::America__Argentina__Buenos_Aires)),
    ("art", place(Tz::America__Argentina__Buenos_Aires)),
    ("ast", offset(-14400)),
    ("awsst", daylight(32400)),
    ("awst", offset(28800)),
    ("azost", daylight(0)),
    ("azot", offset(-3600)),
    ("azst", place(Tz::Asia__Baku)),
    ("azt", place(Tz::Asia__Baku)),
    ("bdst", daylight(7200)),
    ("bdt", offset(21600)),
    ("bnt", offset(28800)),
    ("bort", offset(28800)),
    ("bot", offset(-14400)),
    ("bra", offset(-10800)),
    ("brst", daylight(-7200)),
    ("brt", offset(-10800)),
    ("bst", daylight(3600)),
    ("btt", offset(21600)),
    ("cadt", daylight(37800)),
    ("cast", offset(34200)),
    ("cct", offset(28800)),
    ("cdt", daylight(-18000)),
    ("cest", daylight(7200)),
    ("cet", offset(3600)),
    ("cetdst", daylight(7200)),
    ("chadt", daylight(49500)),
    ("chast", offset(45900)),
    ("chut", offset(36000)),
    ("ckt", place(Tz::Pacific__Rarotonga)),
    ("clst", daylight(-10800)),
    ("clt", place(Tz::America__Santiago)),
    ("cot", offset(-18000)),
    ("cst", offset(-21600)),
    ("cxt", offset(25200)),
    ("davt", place(Tz::Antarctica__Davis)),
    ("ddut", offset(36000)),
    ("easst", place(Tz::Pacific__Easter)),
    ("east", place(Tz::Pacific__Easter)),
    ("eat", offset(10800)),
    ("edt", daylight(-14400)),
    ("eest", daylight(10800)),
    ("eet", offset(7200)),
    ("eetdst", daylight(10800)),
    ("egst", daylight(0)),
    ("egt", offset(-3600)),
    ("est", offset(-18000)),
    ("fet", offset(10800)),
    ("fjst", daylight(46800)),
    ("fjt", offset(43200)),
    ("fkst", place(Tz::Atlantic__Stanley)),
    ("fkt", place(Tz::Atlantic__Stanley)),
    ("fnst", daylight(-3600)),
    ("fnt", offset(-7200)),
    ("galt", offset(-21600)),
    ("gamt", offset(-32400)),
    ("gest", place(Tz::Asia__Tbilisi)),
    ("get", place(Tz::Asia__Tbilisi)),
    ("gft", offset(-10800)),
    ("gilt", offset(43200)),
    ("gmt", offset(0)),
    ("gyt", place(Tz::America__Guyana)),
    ("hkt", offset(28800)),
    ("hst", offset(-36000)),
    ("ict", offset(25200)),
    ("idt", daylight(10800)),
    ("iot", place(Tz::Indian__Chagos)),
    ("irkst", place(Tz::Asia__Irkutsk)),
    ("irkt", place(Tz::Asia__Irkutsk)),
    ("irt", offset(12600)),
    ("ist", offset(7200)),
    ("jayt", offset(32400)),
    ("jst", offset(32400)),
    ("kdt", daylight(36000)),
    ("kgst", daylight(21600)),
    ("kgt", place(Tz::Asia__Bishkek)),
    ("kost", place(Tz::Pacific__Kosrae)),
    ("krast", place(Tz::Asia__Krasnoyarsk)),
    ("krat", place(Tz::Asia__Krasnoyarsk)),
    ("kst", offset(32400)),
    ("lhdt", place(Tz::Australia__Lord_Howe)),
    ("lhst", offset(37800)),
    ("ligt", offset(36000)),
    ("lint", place(Tz::Pacific__Kiritimati)),
    ("lkt", place(Tz::Asia__Colombo)),
    ("magst", place(Tz::Asia__Magadan)),
    ("magt", place(Tz::Asia__Magadan)),
    ("mart", offset(-34200)),
    ("mawt", place(Tz::Antarctica__Mawson)),
    ("mdt", daylight(-21600)),
    ("mest", daylight(7200)),
    ("mesz", daylight(7200)),
    ("met", offset(3600)),
    ("metdst", daylight(7200)),
    ("mez", offset(3600)),
    ("mht", offset(43200)),
    ("mmt", offset(23400)),
    ("mpt", offset(36000)),
    ("msd", daylight(14400)),
    ("msk", place(Tz::Europe__Moscow)),
    ("mst", offset(-25200)),
    ("must", daylight(18000)),
    ("mut", offset(14400)),
    ("mvt", offset(18000)),
    ("myt", offset(28800)),
    ("ndt", daylight(-9000)),
    ("nft", offset(-12600)),
    ("novst", place(Tz::Asia__Novosibirsk)),
    ("novt", place(Tz::Asia__Novosibirsk)),
    ("npt", offset(20700)),
    ("nst", offset(-12600)),
    ("nut", place(Tz::Pacific__Niue)),
    ("nzdt", daylight(46800)),
    ("nzst", offset(43200)),
    ("nzt", offset(43200)),
    ("omsst", place(Tz::Asia__Omsk)),
    ("omst", place(Tz::Asia__Omsk)),
    ("pdt", daylight(-25200)),
    ("pet", offset(-18000)),
    ("petst", place(Tz::Asia__Kamchatka)),
    ("pett", place(Tz::Asia__Kamchatka)),
    ("pgt", offset(36000)),
    ("pht", offset(28800)),
    ("pkst", daylight(21600)),
    ("pkt", offset(18000)),
    ("pmdt", daylight(-7200)),
    ("pmst", offset(-10800)),
    ("pont", offset(39600)),
    ("pst", offset(-28800)),
    ("pwt", offset(32400)),
    ("pyst", daylight(-10800)),
    ("pyt", place(Tz::America__Asuncion)),
    ("ret", offset(14400)),
    ("sadt", daylight(37800)),
    ("sast", offset(7200)),
    ("sct", offset(14400)),
    ("sgt", place(Tz::Asia__Singapore)),
    ("taht", offset(-36000)),
    ("tft", offset(18000)),
    ("tjt", offset(18000)),
    ("tkt", place(Tz::Pacific__Fakaofo)),
    ("tmt", place(Tz::Asia__Ashgabat)),
    ("tot", offset(46800)),
    ("trut", offset(36000)),
    ("tvt", offset(43200)),
    ("uct", offset(0)),
    ("ulast", daylight(32400)),
    ("ulat", place(Tz::Asia__Ulaanbaatar)),
    ("ut", offset(0)),
    ("utc", offset(0)),
    ("uyst", daylight(-7200)),
    ("uyt", offset(-10800)),
    ("uzst", daylight(21600)),
    ("uzt", offset(18000)),
    ("vet", place(Tz::America__Caracas)),
    ("vlast", place(Tz::Asia__Vladivostok)),
    ("vlat", place(Tz::Asia__Vladivostok)),
    ("volt", place(Tz::Europe__Volgograd)),
    ("vut", offset(39600)),
    ("wadt", daylight(28800)),
    ("wakt", offset(43200)),
    ("wast", offset(25200)),
    ("wat", offset(3600)),
    ("wdt", daylight(32400)),
    ("wet", offset(0)),
    ("wetdst", daylight(3600)),
    ("wft", offset(43200)),
    ("wgst", daylight(-7200)),
    ("wgt", offset(-10800)),
    ("xjt", offset(21600)),
    ("yakst", place(Tz::Asia__Yakutsk)),
    ("yakt", place(Tz::Asia__Yakutsk)),
    ("yapt", offset(36000)),
    ("yekst", daylight(21600)),
    ("yekt", place(Tz::Asia__Yekaterinburg)),
    ("z", offset(0)),
    ("zulu", offset(0)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_are_sorted() {
        assert!(ALL.is_sorted_by(|left, right| left.0 < right.0));
        assert_eq!(lookup("pdt"), Some(daylight(-25_200)));
        assert_eq!(lookup("xyz"), None);
    }
}
