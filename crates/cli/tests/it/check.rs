//! `coeval check`: what it says of a history, and its exit codes.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at what another process has written"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code, standard output and standard error, of a run with this on its input.
fn check(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .arg("check")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may refuse its arguments before it reads.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("it ends by itself");
    (code, text(output.stdout), text(output.stderr))
}

fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../check/tests/golden");
    folder.join(name).display().to_string()
}

#[test]
fn a_model_is_permitted_or_violated() {
    let skew = golden("g2-item.edn");
    let (code, said, complaint) = check(&[&skew, "--model", "snapshot-isolation"], "");
    assert_eq!((code, complaint.as_str()), (0, ""));
    assert!(
        said.contains("3 transactions, 3 of which took effect"),
        "{said}"
    );
    assert!(
        said.ends_with("snapshot-isolation: no violation found\n"),
        "{said}"
    );

    let models = ["--model", "snapshot-isolation", "--model", "serializable"];
    let (code, said, _) = check(&[&[skew.as_str()][..], &models].concat(), "");
    assert_eq!(code, 1);
    assert!(
        said.contains("rw: T0 read list 1 empty, and T1 appended 1"),
        "{said}"
    );
    assert!(
        said.contains("So T0 would have to come before itself"),
        "{said}"
    );
    assert!(
        said.ends_with("serializable: violated (G2-item 1)\n"),
        "{said}"
    );
}

#[test]
fn anomalies_are_drawn_and_scores_written() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = folder.path().join("pictures");
    let pictures_name = pictures.display().to_string();
    let skew = golden("g2-item.edn");
    let arguments = [&skew, "--model", "serializable", "--svg", &pictures_name];
    assert_eq!(check(&arguments, "").0, 1);
    let picture = std::fs::read_to_string(pictures.join("01-G2-item.svg")).unwrap();
    assert!(picture.starts_with("<svg "));

    let scores = folder.path().join("scores.csv");
    let scores_name = scores.display().to_string();
    let stale = golden("g-single-realtime-register.edn");
    let arguments = [&stale, "--model", "linearizable", "--scores", &scores_name];
    let (code, said, _) = check(&arguments, "");
    assert_eq!(code, 1);
    assert!(said.contains("gamma 10 ns"), "{said}");
    let scores = std::fs::read_to_string(scores).unwrap();
    assert!(
        scores.starts_with("time_ns,key,value,gamma_ns\n"),
        "{scores}"
    );
    assert_eq!(scores.lines().count(), 3);
}

#[test]
fn gamma_is_told_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let name = |file: &str| folder.path().join(file).display().to_string();
    let (history, pauses) = (
        golden("../gamma/gamma.csv"),
        golden("../gamma/gamma-pauses.csv"),
    );
    let (scores, pictures) = (name("scores.csv"), name("pictures"));
    let model = [&history, "--model", "gamma"];
    let files = [
        "--every-ms",
        "20",
        "--pauses",
        &pauses,
        "--scores",
        &scores,
        "--svg",
        &pictures,
    ];
    let (code, said, complaint) = check(&[&model[..], &files].concat(), "");
    assert_eq!((code, complaint.as_str()), (1, ""), "{said}");
    // As documented, behind the file's name.
    let documented = said.split_once('\n').unwrap().1;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/check.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(documented), "{said}");
    let scores = std::fs::read_to_string(scores).unwrap();
    assert!(scores.starts_with("time_ns,key,value,gamma_ns,begins_ns,ends_ns\n"));
    assert!(
        scores.contains(",user7,42,58000000,22000000,80000000\n"),
        "{scores}"
    );
    let picture = std::fs::read_to_string(folder.path().join("pictures/gamma.svg")).unwrap();
    assert!(picture.contains("above 5 ms</text>"), "{picture}");

    let (code, said, _) = check(&[&model[..], &["--threshold-ms", "58"]].concat(), "");
    assert_eq!(code, 0);
    assert!(said.ends_with("above 58 ms\n"), "{said}");
    let (code, said, _) = check(&[&model[..], &["--json", "--every-ms", "10"]].concat(), "");
    assert_eq!(code, 1);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json["gamma_ns"], 58_000_000);
    assert_eq!(json["rows"].as_array().unwrap().len(), 11);

    // Beside another model, from standard input, and what is refused.
    let both = [
        "-",
        "--format",
        "csv",
        "--model",
        "gamma",
        "--model",
        "linearizable",
    ];
    let text = std::fs::read_to_string(&history).unwrap();
    let (code, said, _) = check(&both, &text);
    assert_eq!(code, 1);
    assert!(
        said.contains("\ngamma: violated (2 found in 10 operations on 2 registers"),
        "{said}"
    );
    assert!(
        said.contains("\nlinearizable: violated (3 found in"),
        "{said}"
    );
    for (arguments, expected) in [
        (
            &[&both[..], &["--json"]].concat()[..],
            "--json prints one model",
        ),
        (
            &[
                "-",
                "--format",
                "csv",
                "--model",
                "sessions",
                "--shadow-ms",
                "1",
            ],
            "--shadow-ms is for",
        ),
        (
            &[
                "-",
                "--format",
                "csv",
                "--model",
                "gamma",
                "--every-ms",
                "0",
            ],
            "a row has a length",
        ),
        (
            &[
                "-", "--format", "csv", "--model", "gamma", "--pauses", &history,
            ],
            "column \"process\"",
        ),
        (
            &["-", "--format", "edn", "--model", "gamma"],
            "nothing to judge",
        ),
    ] {
        let (code, _, said) = check(arguments, "");
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let (code, _, said) = check(&["-", "--format", "csv", "--model", "gamma"], "operation\n");
    assert_eq!(
        (code, said.contains("-, line 1, column 1")),
        (2, true),
        "{said}"
    );
}

#[test]
fn every_judge_can_be_asked() {
    let late = r#"{"process":0,"started":1,"finished":2,"outcome":"committed","operations":[["write",1,5]]}
{"process":0,"started":3,"finished":4,"outcome":"committed","operations":[["read",1,null]]}"#;
    for model in [
        "recency",
        "sessions",
        "linearizable",
        "strict-serializable",
        "bank",
    ] {
        let arguments = ["-", "--format", "jsonl", "--model", model, "--total", "5"];
        let (code, said, _) = check(&arguments, late);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(&format!("\n{model}: violated (")), "{said}");
    }
    let (code, said, _) = check(&["-", "--format", "jsonl", "--model", "serializable"], late);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn what_cannot_be_used_says_why() {
    let (code, _, said) = check(
        &["-", "--format", "edn", "--model", "bank"],
        "\n {:type :x}",
    );
    assert_eq!(code, 2);
    assert!(said.contains("line 2, column 2: type \"x\""), "{said}");
    let (code, _, said) = check(&["history", "--model", "bank"], "");
    assert_eq!(code, 2);
    assert!(
        said.contains("say --format edn, --format jsonl or --format csv"),
        "{said}"
    );
    let (code, _, said) = check(&["gone.edn", "--model", "bank"], "");
    assert_eq!(code, 2);
    assert!(said.contains("cannot read gone.edn"), "{said}");
    let (code, _, said) = check(&["-", "--format", "edn", "--model", "fast"], "");
    assert_eq!(code, 2);
    assert!(said.contains("strict-serializable"), "{said}");
    let twice = "{:type :ok :value [[:w 1 1]]} {:type :ok :value [[:w 1 1]]}";
    let (code, _, said) = check(&["-", "--format", "edn", "--model", "serializable"], twice);
    assert_eq!(code, 2);
    assert!(
        said.contains("1 was written to key 1 twice, by T0 and T1"),
        "{said}"
    );
    let nobody = "{:type :ok :value [[:w 1 1]]}";
    let (code, _, said) = check(&["-", "--format", "edn", "--model", "bank"], nobody);
    assert_eq!(code, 2);
    assert!(said.contains("nothing to judge: no committed"), "{said}");
    for (model, text) in [
        ("serializable", ""),
        ("serializable", "{:type :ok :value []}"),
        (
            "strict-serializable",
            "{:type :ok :value []} {:type :ok :value []}",
        ),
        // Sums, and no transaction that has moved anything.
        ("serializable", "{:type :ok :value [[:r 1 50] [:r 2 50]]}"),
        ("linearizable", "{:type :ok :value [[:r 1 50] [:r 2 50]]}"),
        ("linearizable", "{:type :ok :value [[:append 1 1]]}"),
        ("recency", "{:type :ok :value [[:append 1 1]]}"),
        ("sessions", "{:type :ok :value [[:append 1 1]]}"),
    ] {
        let (code, _, said) = check(&["-", "--format", "edn", "--model", model], text);
        assert_eq!(code, 2);
        assert!(said.contains("nothing to judge"), "{said}");
    }
}
