//! Dump of the roles of a server, as `pg_dumpall --roles-only` writes them.
//!
//! ```text
//! CREATE ROLE ada;
//! ALTER ROLE ada WITH NOSUPERUSER INHERIT … LOGIN PASSWORD 'SCRAM-SHA-256$…';
//! GRANT clerks TO ada WITH ADMIN OPTION;
//! ALTER ROLE ada SET lock_timeout TO '5s';
//! ```
//!
//! Only superusers may read password verifiers; for other users the dump leaves them out,
//! and says so. The dump does not create the first role, which every server has, but sets
//! its password: without one the restored server would let every client in.

use std::collections::BTreeMap;

use tokio_postgres::Client;

use super::schema::text;
use super::settings;
use crate::client::rows;

/// The number of the role that exists from the beginning, here and in PostgreSQL.
pub(super) const FIRST_ROLE: &str = "10";

const ATTRIBUTES: [(&str, &str); 7] = [
    ("rolsuper", "SUPERUSER"),
    ("rolinherit", "INHERIT"),
    ("rolcreaterole", "CREATEROLE"),
    ("rolcreatedb", "CREATEDB"),
    ("rolcanlogin", "LOGIN"),
    ("rolreplication", "REPLICATION"),
    ("rolbypassrls", "BYPASSRLS"),
];

/// Every role's name, quoted for SQL, by number and by the plain name.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_number: BTreeMap<String, String>,
    by_name: BTreeMap<String, String>,
}

impl Names {
    pub(super) async fn read(client: &Client) -> Result<Self, String> {
        let asked = "SELECT oid, rolname, pg_catalog.quote_ident(rolname) FROM pg_catalog.pg_roles";
        let mut names = Self::default();
        for row in rows(client, asked).await? {
            let quoted = text(&row, 2)?.to_owned();
            names
                .by_number
                .insert(text(&row, 0)?.to_owned(), quoted.clone());
            names.by_name.insert(text(&row, 1)?.to_owned(), quoted);
        }
        Ok(names)
    }

    /// Roles of these names.
    #[cfg(test)]
    pub(super) fn of(names: &[&str]) -> Self {
        let quoted = |name: &&str| match name.contains(' ') {
            true => format!("\"{name}\""),
            false => (*name).to_owned(),
        };
        Self {
            by_number: BTreeMap::new(),
            by_name: names
                .iter()
                .map(|name| ((*name).to_owned(), quoted(name)))
                .collect(),
        }
    }

    pub(super) fn of_number(&self, number: &str) -> Option<&str> {
        self.by_number.get(number).map(String::as_str)
    }

    /// The quoted name; an empty name is PUBLIC.
    pub(super) fn of_name(&self, name: &str) -> Option<&str> {
        match name {
            "" => Some("PUBLIC"),
            name => self.by_name.get(name).map(String::as_str),
        }
    }
}

/// The roles as statements, comments among them.
pub(super) async fn read(client: &Client, names: &Names) -> Result<Vec<String>, String> {
    let asked = "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user";
    let superuser = rows(client, asked).await?;
    let superuser = superuser.first().is_some_and(|row| row.get(0) == Some("t"));
    let (password, table) = match superuser {
        true => ("rolpassword", "pg_authid"),
        false => ("NULL", "pg_roles"),
    };
    let columns: Vec<&str> = ATTRIBUTES.iter().map(|(column, _)| *column).collect();
    let asked = format!(
        "SELECT oid, rolconnlimit, {password}, rolvaliduntil, {} FROM pg_catalog.{table} \
         WHERE rolname NOT LIKE 'pg\\_%' ORDER BY rolname",
        columns.join(", ")
    );
    let mut statements = Vec::new();
    if !superuser {
        statements.push(
            "-- Passwords are not among what follows: only superusers may read what is kept of \
             them."
                .to_owned(),
        );
    }
    let mut changes = Vec::new();
    for row in rows(client, &asked).await? {
        let number = text(&row, 0)?;
        let Some(name) = names.of_number(number) else {
            continue;
        };
        let password = row
            .get(2)
            .map(|password| format!(" PASSWORD {}", quoted(password)));
        if number == FIRST_ROLE {
            if let Some(password) = password {
                changes.push(format!("ALTER ROLE {name} WITH{password};"));
            }
            continue;
        }
        statements.push(format!("CREATE ROLE {name};"));
        let mut change = format!("ALTER ROLE {name} WITH");
        for (place, (_, attribute)) in ATTRIBUTES.iter().enumerate() {
            let no = if row.get(place + 4) == Some("t") {
                ""
            } else {
                "NO"
            };
            change.push_str(&format!(" {no}{attribute}"));
        }
        let limit = text(&row, 1)?;
        if limit != "-1" {
            change.push_str(&format!(" CONNECTION LIMIT {limit}"));
        }
        change.push_str(&password.unwrap_or_default());
        if let Some(until) = row.get(3) {
            change.push_str(&format!(" VALID UNTIL {}", quoted(until)));
        }
        changes.push(change + ";");
    }
    statements.append(&mut changes);
    let asked = "SELECT roleid, member, admin_option FROM pg_catalog.pg_auth_members \
         ORDER BY roleid, member";
    for row in rows(client, asked).await? {
        let of = |column| text(&row, column).map(|number| names.of_number(number));
        let (Some(role), Some(member)) = (of(0)?, of(1)?) else {
            continue;
        };
        if role.starts_with("pg_") {
            continue;
        }
        let option = match text(&row, 2)? {
            "t" => " WITH ADMIN OPTION",
            _ => "",
        };
        statements.push(format!("GRANT {role} TO {member}{option};"));
    }
    statements.append(&mut settings::read(client, names).await?);
    Ok(statements)
}

/// Formats a string literal.
pub(super) fn quoted(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!(
        "{escape}'{}'",
        text.replace('\\', "\\\\").replace('\'', "''")
    )
}
