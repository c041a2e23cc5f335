//! Parameters and results of times and intervals in binary.

use coeval_sql::output::Format;

use crate::client::{Lines, must, session, tag};
use crate::engines::{database, occ, serial};

/// An interval of microseconds, days and months.
fn interval(micros: i64, days: i32, months: i32) -> Vec<u8> {
    let mut bytes = micros.to_be_bytes().to_vec();
    bytes.extend_from_slice(&days.to_be_bytes());
    bytes.extend_from_slice(&months.to_be_bytes());
    bytes
}

#[tokio::test]
async fn binary_parameters() {
    for engine in [serial(), occ()] {
        let mut session = session(&database(engine).await);
        must(
            &mut session,
            "create table t (i interval primary key, t time, z timetz)",
        )
        .await;
        let statement = session.parse("insert into t values ($1, $2, $3)").unwrap();
        let prepared = session.prepare(statement[0].clone(), &[]).await.unwrap();
        assert_eq!(prepared.parameter_types(), [1186, 1083, 1266]);
        session.finish().await.unwrap();
        let clock = 3_723_500_000_i64.to_be_bytes();
        let mut zoned = clock.to_vec();
        zoned.extend_from_slice(&(-7200_i32).to_be_bytes());
        let mut portal = session
            .bind(
                &prepared,
                &[
                    Some(&interval(1_500_000, -3, 14)),
                    Some(&clock),
                    Some(&zoned),
                ],
                &[Format::Binary],
                &[],
            )
            .unwrap();
        let mut lines = Lines::default();
        let done = session
            .execute(&mut portal, None, &mut lines)
            .await
            .unwrap();
        assert_eq!(tag(&done).unwrap().to_string(), "INSERT 0 1");
        session.finish().await.unwrap();
        let rows = must(&mut session, "select * from t").await;
        assert_eq!(
            rows[1],
            "  1 year 2 mons -3 days +00:00:01.5 | 01:02:03.5 | 01:02:03.5+02"
        );
    }
}

#[tokio::test]
async fn binary_parameters_out_of_range_are_refused() {
    let mut session = session(&database(occ()).await);
    let statement = session
        .parse("select $1::interval, $2::time, $3::timetz")
        .unwrap();
    let prepared = session.prepare(statement[0].clone(), &[]).await.unwrap();
    let day = 86_400_000_000_i64;
    let zoned = |time: i64, west: i32| {
        let mut bytes = time.to_be_bytes().to_vec();
        bytes.extend_from_slice(&west.to_be_bytes());
        bytes
    };
    let good = (interval(0, 0, 0), day.to_be_bytes().to_vec(), zoned(0, 0));
    for (parameters, state) in [
        (good.clone(), None),
        ((vec![0; 12], good.1.clone(), good.2.clone()), Some("22P03")),
        (
            (
                good.0.clone(),
                (day + 1).to_be_bytes().to_vec(),
                good.2.clone(),
            ),
            Some("22008"),
        ),
        (
            (
                good.0.clone(),
                (-1_i64).to_be_bytes().to_vec(),
                good.2.clone(),
            ),
            Some("22008"),
        ),
        (
            (good.0.clone(), good.1.clone(), zoned(0, 57_600)),
            Some("22009"),
        ),
        (
            (good.0.clone(), good.1.clone(), zoned(day + 1, 0)),
            Some("22008"),
        ),
    ] {
        let (one, two, three) = &parameters;
        let bound = session.bind(
            &prepared,
            &[Some(one), Some(two), Some(three)],
            &[Format::Binary],
            &[],
        );
        assert_eq!(bound.err().map(|error| error.state().0), state);
    }
}
