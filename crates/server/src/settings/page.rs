//! Test that the page `docs/operations/configure.md` lists all settings. The list is made
//! from their definitions; with `UPDATE_TRANSCRIPTS=1`, this test writes it.

#![expect(
    clippy::disallowed_methods,
    reason = "the page is a file of this repository"
)]

use std::path::Path;

use super::{Effective, KEYS, Key};

const BEGIN: &str = "<!-- The settings, by `cargo test -p coeval-server configure`. -->\n";
const END: &str = "<!-- Until here. -->\n";

/// The page's entry of one setting.
fn entry(key: &Key) -> String {
    let default = match Effective::new().shown(key) {
        nothing if nothing.is_empty() => "nothing".to_owned(),
        value => format!("`{value}`"),
    };
    let help: Vec<&str> = key.help.split_whitespace().collect();
    format!(
        "### `{name}`\n\n{help}\n\nDefault: {default}. Environment: `COEVAL_{variable}`. \
         Flag: `--{flag} {placeholder}`.\n\n",
        name = key.name,
        help = help.join(" "),
        variable = key.name.to_uppercase(),
        flag = key.name.replace('_', "-"),
        placeholder = key.placeholder,
    )
}

#[test]
fn the_page_configure_lists_the_settings_there_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/configure.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the list begins");
    let (_, after) = rest.split_once(END).expect("the list ends");
    let list: String = KEYS.iter().map(entry).collect();
    let right = format!("{before}{BEGIN}\n{list}{END}{after}");
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(&path, &right).unwrap();
    }
    assert!(
        page == right || std::env::var_os("UPDATE_TRANSCRIPTS").is_some(),
        "docs/operations/configure.md does not list the settings as they are; run \
         `UPDATE_TRANSCRIPTS=1 cargo test -p coeval-server configure`"
    );
}
