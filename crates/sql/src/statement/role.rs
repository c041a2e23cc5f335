//! Parser for CREATE, ALTER and DROP ROLE, SET ROLE and SET SESSION AUTHORIZATION.

use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::command::{Command, RoleCommand, RoleName, RoleOptions};
use super::role_settings;
use super::text::Text;
use super::words::{Parse, eat, fold, need, next_is, unexpected, unsupported, value};
use crate::catalog::{MAX_NAME_BYTES, truncate_name};
use crate::error::{Error, SqlState};

/// Whether a word after CREATE, ALTER or DROP means roles.
pub(super) fn is_role(word: &str) -> bool {
    ["role", "user", "group"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(word))
}

/// Parses a role's name, or a word that stands for a role.
pub(super) fn role_name(parser: &mut Parser<'_>) -> Parse<RoleName> {
    let ident = parser.parse_identifier()?;
    if ident.quote_style.is_some() {
        return Ok(RoleName::Named(fold(&ident)));
    }
    Ok(match ident.value.to_ascii_lowercase().as_str() {
        "current_user" | "current_role" => RoleName::Current,
        "session_user" => RoleName::Session,
        "public" => RoleName::Public,
        "none" => {
            return Err(
                Error::new(crate::SqlState("42939"), "role name \"none\" is reserved").into(),
            );
        }
        _ => RoleName::Named(fold(&ident)),
    })
}

/// Parses a list of roles, separated by commas.
pub(super) fn role_names(parser: &mut Parser<'_>) -> Parse<Vec<RoleName>> {
    let mut names = vec![role_name(parser)?];
    while parser.consume_token(&Token::Comma) {
        names.push(role_name(parser)?);
    }
    Ok(names)
}

/// Parses the name of a new role.
fn new_name(parser: &mut Parser<'_>) -> Parse<String> {
    let name = match role_name(parser)? {
        RoleName::Named(name) => name,
        RoleName::Public => "public".to_owned(),
        RoleName::Current | RoleName::Session => {
            return Err(Error::syntax("a word that stands for a role is no new name").into());
        }
    };
    if matches!(name.as_str(), "public" | "none") || name.starts_with("pg_") {
        return Err(reserved(&name).into());
    }
    Ok(truncate_name(&name, MAX_NAME_BYTES).to_owned())
}

fn reserved(name: &str) -> Error {
    let message = format!("role name \"{name}\" is reserved");
    Error::new(SqlState("42939"), message)
}

/// Parses the rest of CREATE ROLE, from the word ROLE, USER or GROUP on.
pub(super) fn create(parser: &mut Parser<'_>) -> Parse<Command> {
    let kind = parser.next_token();
    let name = new_name(parser)?;
    let mut options = RoleOptions::default();
    // CREATE USER is CREATE ROLE with the attribute LOGIN.
    if super::words::is(&kind.token, "user") {
        options.login = Some(true);
    }
    role_options(parser, &mut options, true)?;
    Ok(Command::Role(RoleCommand::Create { name, options }))
}

/// Parses the rest of ALTER ROLE, from the word ROLE, USER or GROUP on.
pub(super) fn alter(parser: &mut Parser<'_>, text: &Text) -> Parse<Command> {
    let token = parser.next_token();
    let has_settings = !super::words::is(&token.token, "group");
    if has_settings && eat(parser, "all") {
        return role_settings::of_role(parser, None);
    }
    let name = role_name(parser)?;
    if has_settings && role_settings::follow(parser) {
        return role_settings::of_role(parser, Some(name));
    }
    if eat(parser, "rename") {
        need(parser, "to")?;
        return Ok(Command::Role(RoleCommand::Rename {
            name,
            new_name: new_name(parser)?,
        }));
    }
    for word in ["add", "drop"] {
        if next_is(parser, 0, word) {
            let feature = format!("ALTER ROLE … {}", word.to_uppercase());
            return Err(unsupported(&feature, &token, text));
        }
    }
    let mut options = RoleOptions::default();
    role_options(parser, &mut options, false)?;
    Ok(Command::Role(RoleCommand::Alter { name, options }))
}

/// Parses the rest of DROP ROLE, from the word ROLE, USER or GROUP on.
pub(super) fn drop_roles(parser: &mut Parser<'_>) -> Parse<Command> {
    parser.next_token();
    let if_exists = eat(parser, "if");
    if if_exists {
        need(parser, "exists")?;
    }
    Ok(Command::Role(RoleCommand::Drop {
        names: role_names(parser)?,
        if_exists,
    }))
}

fn role_options(parser: &mut Parser<'_>, options: &mut RoleOptions, new: bool) -> Parse<()> {
    eat(parser, "with");
    while parser.peek_token().token != Token::EOF {
        role_option(parser, options, new)?;
    }
    Ok(())
}

fn role_option(parser: &mut Parser<'_>, options: &mut RoleOptions, new: bool) -> Parse<()> {
    let attributes: [(&str, &mut Option<bool>); 7] = [
        ("superuser", &mut options.superuser),
        ("inherit", &mut options.inherit),
        ("createrole", &mut options.create_role),
        ("createdb", &mut options.create_database),
        ("login", &mut options.login),
        ("replication", &mut options.replication),
        ("bypassrls", &mut options.bypass_policies),
    ];
    for (word, place) in attributes {
        if eat(parser, word) {
            *place = Some(true);
            return Ok(());
        }
        if eat(parser, &format!("no{word}")) {
            *place = Some(false);
            return Ok(());
        }
    }
    if eat(parser, "connection") {
        need(parser, "limit")?;
        let limit = value(parser)?;
        let limit = limit.parse().ok().filter(|limit| *limit >= -1);
        options.connection_limit = Some(limit.ok_or_else(|| {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "invalid connection limit",
            )
        })?);
        return Ok(());
    }
    let encrypted = eat(parser, "encrypted");
    if eat(parser, "password") {
        options.password = Some(if !encrypted && eat(parser, "null") {
            None
        } else {
            Some(string(parser)?)
        });
        return Ok(());
    }
    if eat(parser, "valid") {
        need(parser, "until")?;
        options.valid_until = Some(if eat(parser, "null") {
            None
        } else {
            Some(string(parser)?)
        });
        return Ok(());
    }
    if new && eat(parser, "in") {
        if !eat(parser, "role") {
            need(parser, "group")?;
        }
        options.member_of.extend(role_names(parser)?);
        return Ok(());
    }
    if new && (eat(parser, "role") || eat(parser, "user")) {
        options.members.extend(role_names(parser)?);
        return Ok(());
    }
    if new && eat(parser, "admin") {
        options.administrators.extend(role_names(parser)?);
        return Ok(());
    }
    if new && eat(parser, "sysid") {
        value(parser)?;
        return Ok(());
    }
    unexpected(parser, "an attribute of a role")
}

/// Parses a string literal.
fn string(parser: &mut Parser<'_>) -> Parse<String> {
    match parser.next_token().token {
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text) => Ok(text),
        Token::DollarQuotedString(text) => Ok(text.value),
        // The token may be part of a password, so the error does not quote it.
        _ => Err(Error::syntax("a string is expected here").into()),
    }
}

/// Parses the rest of SET [SESSION | LOCAL] ROLE; `None` for NONE.
pub(super) fn set_role(parser: &mut Parser<'_>, local: bool) -> Parse<Command> {
    let name = named_value(parser, "none")?;
    Ok(Command::SetRole {
        tag: "SET",
        local,
        name,
    })
}

/// Parses the rest of SET [SESSION | LOCAL] SESSION AUTHORIZATION.
pub(super) fn set_authorization(parser: &mut Parser<'_>, local: bool) -> Parse<Command> {
    let name = named_value(parser, "default")?;
    Ok(Command::SetAuthorization {
        tag: "SET",
        local,
        name,
    })
}

/// Parses a name, as a word or a string; `None` for the word `none`.
fn named_value(parser: &mut Parser<'_>, none: &str) -> Parse<Option<String>> {
    if eat(parser, none) {
        return Ok(None);
    }
    let name = value(parser)?;
    Ok(Some(name).filter(|name| name != none))
}
