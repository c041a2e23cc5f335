//! Parser for ALTER ROLE … SET and RESET, and for ALTER DATABASE.

use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::command::{Command, RoleCommand, RoleName, SettingName};
use super::setting::{setting, setting_name};
use super::text::Text;
use super::words::{Parse, eat, identifier, need, next_is, unexpected, unsupported, value};
use crate::error::Error;

/// ALTER ROLE … SET or RESET, or the same of a database.
#[derive(Clone, Debug)]
pub(crate) struct RoleSettingsCommand {
    /// The role; `None` for all roles.
    pub role: Option<RoleName>,
    /// The database, if the settings are for it alone.
    pub database: Option<String>,
    /// Whether the statement is ALTER DATABASE.
    pub is_of_database: bool,
    /// What becomes of the settings.
    pub change: SettingChange,
}

impl RoleSettingsCommand {
    /// The command tag.
    pub(crate) const fn tag(&self) -> &'static str {
        match self.is_of_database {
            true => "ALTER DATABASE",
            false => "ALTER ROLE",
        }
    }
}

/// A change of settings that are kept.
#[derive(Clone, Debug)]
pub(crate) enum SettingChange {
    /// SET name TO values.
    Set(String, Vec<String>),
    /// SET name FROM CURRENT.
    FromCurrent(String),
    /// RESET, and SET name TO DEFAULT.
    Reset(SettingName),
}

/// Whether settings follow, at the place after the role of an ALTER ROLE.
pub(super) fn follow(parser: &Parser<'_>) -> bool {
    ["in", "set", "reset"]
        .iter()
        .any(|word| next_is(parser, 0, word))
}

/// Parses the rest of ALTER ROLE, from IN DATABASE, SET or RESET on.
pub(super) fn of_role(parser: &mut Parser<'_>, role: Option<RoleName>) -> Parse<Command> {
    let mut database = None;
    if eat(parser, "in") {
        need(parser, "database")?;
        database = Some(identifier(parser)?);
    }
    command(RoleSettingsCommand {
        role,
        database,
        is_of_database: false,
        change: change(parser)?,
    })
}

/// Parses the rest of ALTER DATABASE, from the word DATABASE on.
pub(super) fn of_database(parser: &mut Parser<'_>, text: &Text) -> Parse<Command> {
    let token = parser.next_token();
    let database = Some(identifier(parser)?);
    if !next_is(parser, 0, "reset")
        && (!next_is(parser, 0, "set") || next_is(parser, 1, "tablespace"))
    {
        let feature = "ALTER DATABASE other than SET and RESET of a setting";
        return Err(unsupported(feature, &token, text));
    }
    command(RoleSettingsCommand {
        role: None,
        database,
        is_of_database: true,
        change: change(parser)?,
    })
}

fn command(command: RoleSettingsCommand) -> Parse<Command> {
    Ok(Command::Role(RoleCommand::Settings(command)))
}

fn change(parser: &mut Parser<'_>) -> Parse<SettingChange> {
    if eat(parser, "reset") {
        return Ok(SettingChange::Reset(setting(parser)?));
    }
    if !eat(parser, "set") {
        return unexpected(parser, "SET or RESET");
    }
    if next_is(parser, 0, "session") && next_is(parser, 1, "authorization")
        || next_is(parser, 0, "role") && !assigns(parser, 1)
    {
        return Err(Error::unsupported("a role as a setting of a role").into());
    }
    let name = if next_is(parser, 0, "time") && next_is(parser, 1, "zone") {
        parser.next_token();
        parser.next_token();
        "timezone".to_owned()
    } else if next_is(parser, 0, "names") && !assigns(parser, 1) {
        parser.next_token();
        "client_encoding".to_owned()
    } else {
        let name = setting_name(parser)?;
        if eat(parser, "from") {
            need(parser, "current")?;
            return Ok(SettingChange::FromCurrent(name));
        }
        if !parser.consume_token(&Token::Eq) {
            need(parser, "to")?;
        }
        name
    };
    if eat(parser, "default") || (name == "timezone" && eat(parser, "local")) {
        return Ok(SettingChange::Reset(SettingName::One(name)));
    }
    let values = parser.parse_comma_separated(value)?;
    Ok(SettingChange::Set(name, values))
}

/// Whether the token this far ahead assigns a value to a setting.
fn assigns(parser: &Parser<'_>, ahead: usize) -> bool {
    parser.peek_nth_token(ahead).token == Token::Eq || next_is(parser, ahead, "to")
}
