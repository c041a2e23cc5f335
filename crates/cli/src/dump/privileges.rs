//! Owners and privileges of tables and of the schema `public`, as `pg_dump` writes them.
//!
//! ```text
//!   relacl   ada=arwdDxt/ada             the owner has all privileges: no statement
//!            clerk=ar*/ada               GRANT INSERT ON TABLE … TO clerk;
//!                                        GRANT SELECT ON TABLE … TO clerk WITH GRANT OPTION;
//!            eve=r/clerk                 SET SESSION AUTHORIZATION clerk;
//!                                        GRANT SELECT ON TABLE … TO eve;
//!                                        RESET SESSION AUTHORIZATION;
//! ```
//!
//! The restoring role will own everything that the first role owns: the first role's name
//! differs between servers.

use tokio_postgres::Client;

use super::roles::{FIRST_ROLE, Names};
use super::schema::text;
use crate::client::rows;

/// Privileges by their letters.
const PRIVILEGES: [(char, &str); 10] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('m', "MAINTAIN"),
    ('U', "USAGE"),
    ('C', "CREATE"),
];

/// The privileges of an owner on a table, on a sequence, and on a schema.
const TABLE: &str = "arwdDxt";
const SEQUENCE: &str = "rwU";
const SCHEMA: &str = "UC";

/// PostgreSQL's owner of the schema `public` in a new database.
const DATABASE_OWNER: &str = "pg_database_owner";

/// The privileges that one role has granted to another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    /// The role that has the privileges; empty for PUBLIC.
    grantee: String,
    /// Letters; an asterisk follows a privilege with grant option.
    privileges: String,
    grantor: String,
}

impl Item {
    /// Parses `grantee=privileges/grantor`.
    fn parse(text: &str) -> Option<Self> {
        let (grantee, rest) = name(text)?;
        let (privileges, grantor) = rest.strip_prefix('=')?.split_once('/')?;
        let (grantor, rest) = name(grantor)?;
        rest.is_empty().then(|| Self {
            grantee,
            privileges: privileges.to_owned(),
            grantor,
        })
    }

    /// The privileges with grant option, or those without.
    fn words(&self, with_option: bool) -> Vec<&'static str> {
        let known = PRIVILEGES.iter().filter(|(letter, _)| {
            self.privileges
                .find(*letter)
                .is_some_and(|at| self.privileges[at + 1..].starts_with('*') == with_option)
        });
        known.map(|(_, word)| *word).collect()
    }

    fn letters(&self) -> String {
        self.privileges.replace('*', "")
    }
}

/// The name at the beginning, and the text after it.
fn name(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(['=', '/']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let (part, behind) = rest.split_once('"')?;
        name.push_str(part);
        match behind.strip_prefix('"') {
            Some(behind) => {
                name.push('"');
                rest = behind;
            }
            None => return Some((name, behind)),
        }
    }
}

/// The owner that the dump must name: `None` for the first role.
fn owner<'names>(names: &'names Names, number: &str) -> Option<&'names str> {
    if number == FIRST_ROLE {
        return None;
    }
    names
        .of_number(number)
        .filter(|name| *name != DATABASE_OWNER)
}

/// The statement that sets the owner of a table.
pub(super) async fn table_owner(
    client: &Client,
    names: &Names,
    oid: &str,
    table: &str,
) -> Result<Option<String>, String> {
    relation_owner(client, names, oid, &format!("TABLE {table}")).await
}

/// The statement that sets the owner of a sequence.
pub(super) async fn sequence_owner(
    client: &Client,
    names: &Names,
    oid: &str,
    sequence: &str,
) -> Result<Option<String>, String> {
    relation_owner(client, names, oid, &format!("SEQUENCE {sequence}")).await
}

async fn relation_owner(
    client: &Client,
    names: &Names,
    oid: &str,
    relation: &str,
) -> Result<Option<String>, String> {
    let asked = format!("SELECT relowner FROM pg_catalog.pg_class WHERE oid = {oid}");
    let found = rows(client, &asked).await?;
    let number = found.first().map(|row| text(row, 0)).transpose()?;
    let owner = number.and_then(|number| owner(names, number));
    Ok(owner.map(|owner| format!("ALTER {relation} OWNER TO {owner};")))
}

/// The statements that set the privileges on a table.
pub(super) async fn of_table(
    client: &Client,
    names: &Names,
    oid: &str,
    table: &str,
) -> Result<Vec<String>, String> {
    of_relation(client, names, oid, (&format!("TABLE {table}"), TABLE)).await
}

/// The statements that set the privileges on a sequence.
pub(super) async fn of_sequence(
    client: &Client,
    names: &Names,
    oid: &str,
    sequence: &str,
) -> Result<Vec<String>, String> {
    let relation = format!("SEQUENCE {sequence}");
    of_relation(client, names, oid, (&relation, SEQUENCE)).await
}

async fn of_relation(
    client: &Client,
    names: &Names,
    oid: &str,
    (relation, all): (&str, &str),
) -> Result<Vec<String>, String> {
    let asked = format!(
        "SELECT pg_catalog.pg_get_userbyid(relowner), \
         pg_catalog.array_to_string(relacl, E'\\n') \
         FROM pg_catalog.pg_class WHERE oid = {oid}"
    );
    let found = rows(client, &asked).await?;
    let Some((owner, Some(list))) = found.first().map(|row| (text(row, 0), row.get(1))) else {
        return Ok(Vec::new());
    };
    let own = Item {
        grantee: owner?.to_owned(),
        privileges: all.to_owned(),
        grantor: String::new(),
    };
    statements(relation, &[own], &items(list)?, names)
}

/// The statements that set the owner of the schema `public` and the privileges on it.
pub(super) async fn of_schema(client: &Client, names: &Names) -> Result<Vec<String>, String> {
    let asked = "SELECT nspowner, pg_catalog.pg_get_userbyid(nspowner), \
         pg_catalog.array_to_string(nspacl, E'\\n') \
         FROM pg_catalog.pg_namespace WHERE nspname = 'public'";
    let found = rows(client, asked).await?;
    let Some(row) = found.first() else {
        return Ok(Vec::new());
    };
    let mut made = Vec::new();
    if let Some(owner) = owner(names, text(row, 0)?) {
        made.push(format!("ALTER SCHEMA public OWNER TO {owner};"));
    }
    if let Some(list) = row.get(2) {
        let item = |grantee: &str, privileges: &str| Item {
            grantee: grantee.to_owned(),
            privileges: privileges.to_owned(),
            grantor: String::new(),
        };
        let initial = [item(text(row, 1)?, SCHEMA), item("", "U")];
        made.extend(statements("SCHEMA public", &initial, &items(list)?, names)?);
    }
    Ok(made)
}

fn items(list: &str) -> Result<Vec<Item>, String> {
    let lines = list.lines().filter(|line| !line.is_empty());
    let items =
        lines.map(|line| Item::parse(line).ok_or_else(|| format!("privileges as {line:?}")));
    items.collect()
}

/// The statements that lead from the privileges of a new object, whose owner is the first
/// in `initial`, to those in `granted`.
fn statements(
    object: &str,
    initial: &[Item],
    granted: &[Item],
    names: &Names,
) -> Result<Vec<String>, String> {
    let sql = |name: &str| {
        let found = names.of_name(name).map(str::to_owned);
        // The role was dropped, or is one of PostgreSQL's own, which has no entry.
        found.ok_or_else(|| format!("a privilege of a role that is not there: {name:?}"))
    };
    let owner = initial.first().map_or("", |item| item.grantee.as_str());
    let mut made = Vec::new();
    let mut as_it_was = Vec::new();
    for item in initial {
        let now: Vec<&Item> = granted
            .iter()
            .filter(|now| now.grantee == item.grantee)
            .collect();
        if let [now] = now[..]
            && has_all(&item.letters(), &now.letters())
        {
            // The grant only adds privileges, so none need be revoked; an owner has its
            // grant options implicitly.
            if item.grantee == owner || item.letters().len() == now.letters().len() {
                as_it_was.push(item.grantee.clone());
            }
        } else {
            made.push(format!(
                "REVOKE ALL ON {object} FROM {};",
                sql(&item.grantee)?
            ));
        }
    }
    for item in granted {
        if as_it_was.contains(&item.grantee) && item.grantor == owner {
            continue;
        }
        let grantee = sql(&item.grantee)?;
        for (with_option, option) in [(false, ""), (true, " WITH GRANT OPTION")] {
            let words = item.words(with_option);
            if words.is_empty() {
                continue;
            }
            let grant = format!(
                "GRANT {} ON {object} TO {grantee}{option};",
                words.join(",")
            );
            if item.grantor == owner {
                made.push(grant);
            } else {
                let grantor = sql(&item.grantor)?;
                made.push(format!(
                    "SET SESSION AUTHORIZATION {grantor};\n{grant}\nRESET SESSION AUTHORIZATION;"
                ));
            }
        }
    }
    Ok(made)
}

fn has_all(letters: &str, of: &str) -> bool {
    letters.chars().all(|letter| of.contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::of(&["ada", "clerk", "eve", "A b"])
    }

    fn table(list: &str) -> Vec<String> {
        let own = Item::parse("ada=arwdDxt/ada").unwrap();
        statements("TABLE t", &[own], &items(list).unwrap(), &names()).unwrap()
    }

    #[test]
    fn items_are_taken_apart() {
        let item = Item::parse("\"A \"\"b\"=ar*/ada").unwrap();
        assert_eq!(
            (item.grantee.as_str(), item.grantor.as_str()),
            ("A \"b", "ada")
        );
        assert_eq!(
            (item.words(false), item.words(true)),
            (vec!["INSERT"], vec!["SELECT"])
        );
        assert_eq!(Item::parse("=U/ada").unwrap().grantee, "");
        for bad in ["", "ada", "ada=r", "\"ada=r/x", "a=r/b=c"] {
            assert_eq!(Item::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn grants_lead_from_a_new_table_to_what_holds() {
        assert!(table("ada=arwdDxt/ada").is_empty());
        assert_eq!(
            table("ada=arwdDxt/ada\nclerk=ar*/ada\n=r/ada\n\"A b\"=w/clerk"),
            [
                "GRANT INSERT ON TABLE t TO clerk;",
                "GRANT SELECT ON TABLE t TO clerk WITH GRANT OPTION;",
                "GRANT SELECT ON TABLE t TO PUBLIC;",
                "SET SESSION AUTHORIZATION clerk;\nGRANT UPDATE ON TABLE t TO \"A b\";\n\
                 RESET SESSION AUTHORIZATION;",
            ]
        );
        // The owner has revoked some of its own privileges.
        assert_eq!(
            table("ada=r/ada"),
            [
                "REVOKE ALL ON TABLE t FROM ada;",
                "GRANT SELECT ON TABLE t TO ada;"
            ]
        );
        assert_eq!(table("clerk=r/ada").len(), 2);
        assert!(statements("TABLE t", &[], &items("bob=r/ada").unwrap(), &names()).is_err());
    }

    #[test]
    fn the_schema_begins_with_something() {
        let initial = [
            Item::parse("ada=UC/ada").unwrap(),
            Item::parse("=U/ada").unwrap(),
        ];
        let schema = |list: &str| {
            statements("SCHEMA public", &initial, &items(list).unwrap(), &names()).unwrap()
        };
        assert!(schema("ada=UC/ada\n=U/ada").is_empty());
        assert_eq!(
            schema("ada=UC/ada"),
            ["REVOKE ALL ON SCHEMA public FROM PUBLIC;"]
        );
        assert_eq!(
            schema("ada=UC/ada\n=UC/ada\neve=C/ada"),
            [
                "GRANT USAGE,CREATE ON SCHEMA public TO PUBLIC;",
                "GRANT CREATE ON SCHEMA public TO eve;"
            ]
        );
    }
}
