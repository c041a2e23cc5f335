//! CREATE EXTENSION and DROP EXTENSION, for extensions whose functions are built in.

use super::Change;
use crate::access::Privileges;
use crate::catalog::{BUILT_IN, BuiltIn, Extension};
use crate::error::{Error, Result, SqlState};
use crate::output::{Notice, Severity};
use crate::statement::CreateExtension;

impl Change<'_> {
    /// Executes CREATE EXTENSION.
    pub(super) async fn create_extension(
        &mut self,
        create: &CreateExtension,
    ) -> Result<&'static str> {
        const TAG: &str = "CREATE EXTENSION";
        let name = &create.name;
        if self.catalog.extension(name).is_some() {
            if !create.if_not_exists {
                return Err(Error::new(
                    SqlState::DUPLICATE_OBJECT,
                    format!("extension \"{name}\" already exists"),
                ));
            }
            self.notice(
                SqlState::DUPLICATE_OBJECT,
                format!("extension \"{name}\" already exists, skipping"),
            );
            return Ok(TAG);
        }
        if name == "plpgsql" && create.if_not_exists {
            // What makes every PostgreSQL database asks for it, whether it is used or not.
            self.notices.push(Notice::new(
                Severity::Warning,
                SqlState("01000"),
                "extension \"plpgsql\" is not available: functions in PL/pgSQL are refused"
                    .to_owned(),
            ));
            return Ok(TAG);
        }
        let known = built_in(name)?;
        self.require_schema(Privileges::CREATE)?;
        let schema = create.schema.as_deref().unwrap_or(crate::catalog::PUBLIC);
        if !matches!(schema, crate::catalog::PUBLIC | "pg_catalog") {
            return Err(Error::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{schema}\" does not exist"),
            ));
        }
        if let Some(version) = &create.version
            && version != known.version
        {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!(
                    "extension \"{name}\" has no installation script nor update path for version \"{version}\""
                ),
            ));
        }
        self.require_objects("an extension")?;
        let extension = Extension {
            oid: self.context.store.counters.oid(),
            name: name.clone(),
            owner: self.session.role,
            version: known.version.to_owned(),
        };
        self.context
            .store
            .insert_extension(&mut *self.context.transaction, &extension)
            .await?;
        self.changed = true;
        Ok(TAG)
    }

    /// Executes DROP EXTENSION. Nothing depends on an extension: its functions stay.
    pub(super) async fn drop_extensions(
        &mut self,
        names: &[String],
        if_exists: bool,
    ) -> Result<&'static str> {
        for name in names {
            let Some(extension) = self.catalog.extension(name) else {
                let missing = format!("extension \"{name}\" does not exist");
                if !if_exists {
                    return Err(Error::new(SqlState::UNDEFINED_OBJECT, missing));
                }
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("{missing}, skipping"),
                );
                continue;
            };
            let (oid, owner) = (extension.oid, extension.owner);
            let access = self.catalog.access();
            if !access.has_privileges_of(self.session.role, owner) {
                return Err(Error::new(
                    SqlState::INSUFFICIENT_PRIVILEGE,
                    format!("must be owner of extension {name}"),
                ));
            }
            self.context
                .store
                .delete_described(&mut *self.context.transaction, oid)
                .await?;
            self.changed = true;
        }
        Ok("DROP EXTENSION")
    }
}

/// The built-in extension of this name; error 0A000 if there is none.
fn built_in(name: &str) -> Result<&'static BuiltIn> {
    let mut known = BUILT_IN.iter();
    if let Some(known) = known.find(|known| known.name == name) {
        return Ok(known);
    }
    let names: Vec<String> = BUILT_IN
        .iter()
        .map(|known| format!("\"{}\"", known.name))
        .collect();
    Err(Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("extension \"{name}\" is not available"),
    )
    .with_hint(format!(
        "The extensions that are built in: {}.",
        names.join(", ")
    )))
}
