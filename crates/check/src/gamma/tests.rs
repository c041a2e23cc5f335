//! Tests of Γ over time: rows, percentiles, shadows against their definition, and limits.

use super::*;

const MS: u64 = 1_000_000;

/// A history in which one register is read stale: at `at` ms the write of a newer value has
/// been answered and is seen, and for `late` ms more the old value is read.
fn stale(key: u64, at: u64, late: u64) -> String {
    let line = |operation: &str, value: u64, from: u64, to: u64| {
        let (from, to) = (from * MS, to * MS);
        format!("{operation},k{key},{value},{from},{to}\n")
    };
    [
        line("write", 2 * key, 0, 1),
        line("write", 2 * key + 1, at - 1, at),
        line("read", 2 * key + 1, at + late, at + late + 1),
        line("read", 2 * key, at + late, at + late + 1),
    ]
    .concat()
}

fn analysed(lines: &[String], options: Options, pauses: Option<&str>) -> Analysis {
    let text = format!("operation,key,value,started,finished\n{}", lines.concat());
    let pauses = pauses.map(|text| pauses::read(&mut text.as_bytes()).unwrap());
    judge(&mut text.as_bytes(), Format::Csv, options, pauses).unwrap()
}

#[test]
fn scores_are_grouped_and_counted() {
    let lines = [stale(1, 100, 4), stale(2, 500, 40), stale(3, 520, 60)];
    let options = Options {
        every: Some(Duration::from_millis(250)),
        ..Options::default()
    };
    let found = analysed(&lines, options, None);
    assert_eq!((found.report.gamma, found.above), (60 * MS, 4));
    assert_eq!((found.report.values, found.report.operations), (6, 12));
    assert!((found.share_above() - 4.0 / 6.0).abs() < 1e-9);
    let row = |from, positive, above, gamma| Row {
        from: from * MS,
        positive,
        above,
        gamma: gamma * MS,
    };
    assert_eq!(
        found.rows,
        [row(0, 2, 0, 4), row(250, 0, 0, 0), row(500, 4, 4, 60)]
    );
    assert_eq!(found.percentiles[0], (500, 40 * MS));
    assert_eq!(found.percentiles[3], (999, 60 * MS));
    let scores = &found.report.scores;
    let worst = scores.iter().find(|score| score.gamma == 60 * MS).unwrap();
    assert_eq!((worst.begins, worst.ends), (520 * MS, 580 * MS));
    let said = found.to_string();
    assert!(said.contains("above 5 ms: 4 values, 66.67 %"), "{said}");
    assert!(said.contains("k3: 6 and 7 each had to last"), "{said}");
    assert!(said.contains("by 60 ms, from 0.520 s to 0.580 s"), "{said}");
    let mut csv = Vec::new();
    found.scores_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), 7);
    assert!(
        csv.contains("\n550000000,k3,6,60000000,520000000,580000000\n"),
        "{csv}"
    );
    let json = found.json();
    assert_eq!(
        (&json["above"], &json["gamma_ns"]),
        (&4.into(), &(60 * MS).into())
    );
    assert_eq!(json["rows"][2]["positive"], 4);
    assert!(json.get("pauses").is_none());
}

#[test]
fn a_history_without_violations_says_so() {
    let line = "write,1,1,0,9\nread,1,1,10,20\n".to_owned();
    let found = analysed(&[line], Options::default(), Some("started,finished\n"));
    assert!(!found.is_violated());
    assert_eq!((found.report.gamma, found.percentiles.len()), (0, 0));
    assert!(found.to_string().contains("gamma 0 ms\n"));
    assert!(found.to_string().contains("pauses: 0,"));
    assert!(!found.picture("x").contains("<circle"));
}

#[test]
fn a_read_before_its_write_hints_at_the_clock() {
    let line = "read,1,1,0,9\nwrite,1,1,20,30\n".to_owned();
    let found = analysed(&[line], Options::default(), None);
    assert!(
        found
            .to_string()
            .contains("1 of 1 values were read before they were written")
    );
}

#[test]
fn violations_in_shadows_are_told_from_others() {
    // One begins in the pause, one in its shadow, one outside.
    let lines = [stale(1, 110, 50), stale(2, 160, 10), stale(3, 400, 20)];
    let pauses = "started_ms,finished_ms,node\n100,150,a\n300,310,b\n";
    let options = Options {
        shadow: Duration::from_millis(20),
        ..Options::default()
    };
    let found = analysed(&lines, options, Some(pauses));
    let (_, correlation) = found.pauses.as_ref().unwrap();
    assert_eq!((correlation.in_shadow, correlation.outside), (4, 2));
    assert_eq!(correlation.followed, 1);
    let covered = f64::from(70 + 30) / 421.0;
    assert!((correlation.covered - covered).abs() < 1e-9);
    // The second begins 60 ms after the pause's start, and ends 20 ms after its end.
    assert_eq!(correlation.begins_after[3].1, 60 * MS);
    assert_eq!(correlation.ends_after[3].1, 20 * MS);
    let said = found.to_string();
    assert!(said.contains("4 violations began in a shadow, 66.67 %, of 1 pauses; 2 outside"));
    assert_eq!(found.json()["pauses"]["outside"], 2);
    let picture = found.picture("a <b> & c");
    assert!(picture.contains("a &lt;b&gt; &amp; c"));
    assert_eq!(picture.matches("<circle").count(), 3);
    assert_eq!(picture.matches(r#"stroke-dasharray="2 3""#).count(), 2);
}

#[test]
fn shadows_are_as_defined() {
    let mut state = 7_u64;
    let mut below = move |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % bound
    };
    for _ in 0..500 {
        let shadow = below(20);
        let mut pauses: Vec<Pause> = (0..below(8))
            .map(|_| {
                let started = below(100);
                Pause {
                    started,
                    finished: started + below(30),
                    node: String::new(),
                    what: String::new(),
                }
            })
            .collect();
        pauses.sort_by_key(|pause| (pause.started, pause.finished));
        let scores: Vec<Score> = (0..below(10))
            .map(|value| Score {
                key: 0,
                value: Register::Value(value as i64),
                gamma: 1,
                time: 0,
                begins: below(150),
                ends: 150,
                because: registers::Because::ReadBeforeWrite,
            })
            .collect();
        let options = Options {
            shadow: Duration::from_nanos(shadow),
            ..Options::default()
        };
        let report = Report {
            span: Some((0, 150)),
            ..Report::default()
        };
        let is_in =
            |time: u64, pause: &Pause| (pause.started..=pause.finished + shadow).contains(&time);
        let violations: Vec<&Score> = scores.iter().collect();
        let found = correlate(&violations, &pauses, &report, &options);
        let inside = |score: &&&Score| pauses.iter().any(|pause| is_in(score.begins, pause));
        assert_eq!(found.in_shadow, violations.iter().filter(inside).count());
        assert_eq!(found.in_shadow + found.outside, scores.len());
        // Of moments, not of intervals: each is in a shadow from its start on.
        let is_covered = |time: &u64| {
            pauses
                .iter()
                .any(|pause| (pause.started..pause.finished + shadow).contains(time))
        };
        let covered = (0..150).filter(is_covered).count() as f64 / 150.0;
        assert!((found.covered - covered).abs() < 1e-9, "{pauses:?}");
    }
}

#[test]
fn there_are_limits() {
    let text = "operation,key,value,started,finished\nwrite,1,1,0,1\nread,1,1,2,3\nwrite,1,2,4,5\n";
    let judged = |most_values: usize| {
        let mut judge = Judge {
            most_values,
            ..Judge::default()
        };
        stream(&mut text.as_bytes(), Format::Csv, &mut |transaction| {
            judge.take(&transaction).map_err(|error| error.to_string())
        })
        .map_err(|error| error.to_string())
    };
    assert!(judged(2).is_ok());
    let said = judged(1).unwrap_err();
    assert!(said.starts_with("line 4: it has more than"), "{said}");
    let options = Options {
        every: Some(Duration::from_nanos(1)),
        ..Options::default()
    };
    let lines = stale(1, 10, 10);
    let text = format!("operation,key,value,started,finished\n{lines}");
    let refused = judge(&mut text.as_bytes(), Format::Csv, options, None);
    assert!(matches!(refused, Err(GammaError::Rows)));
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let refused = |lines: &str| {
        let text = format!("operation,key,value,started,finished\n{lines}");
        let judged = judge(&mut text.as_bytes(), Format::Csv, Options::default(), None);
        judged.unwrap_err().to_string()
    };
    assert!(refused("").contains("nothing to judge"));
    assert!(refused("read,1,1,2,\n").contains("nothing to judge"));
    assert!(refused("read,1,1,2,3\n").contains("none was written"));
    let twice = refused("write,a,1,2,3\n\nwrite,a,1,4,5\n");
    assert!(twice.starts_with("line 4: 1 was written"), "{twice}");
}

#[test]
fn rows_are_round() {
    assert_eq!([1, 2, 3, 6, 11, 90].map(round), [1, 2, 5, 10, 20, 100]);
    assert_eq!(round(u64::MAX), u64::MAX);
    let lines = [stale(1, 4_321, 10)];
    let found = analysed(&lines, Options::default(), None);
    assert_eq!(found.rows[1].from - found.rows[0].from, 200 * MS);
    assert!(found.rows.len() <= MOST_ROWS as usize + 1);
}
