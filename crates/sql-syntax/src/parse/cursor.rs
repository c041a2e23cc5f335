//! Cursors, prepared statements, EXPLAIN, notifications.

use super::Parser;
use crate::error::Parsed;
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    Declare, DoItem, Execute, Explain, Fetch, FetchDirection, Notify, Prepare, StatementKind,
    UtilityOption, UtilityValue,
};

impl Parser<'_> {
    pub(super) fn declare(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let name = self.column_name()?;
        let (mut binary, mut scroll, mut no_scroll) = (false, false, false);
        let (mut insensitive, mut asensitive) = (false, false);
        loop {
            match self.keyword() {
                K::No => {
                    self.bump();
                    if !self.is(K::Scroll) {
                        return Err(self.error());
                    }
                    no_scroll = true;
                }
                K::Scroll => scroll = true,
                K::Binary => binary = true,
                K::Insensitive => insensitive = true,
                K::Asensitive => asensitive = true,
                _ => break,
            }
            self.bump();
        }
        self.expect(K::Cursor)?;
        let hold = self.eat(K::With);
        if hold || self.eat(K::Without) {
            self.expect(K::Hold)?;
        }
        self.expect(K::For)?;
        Ok(StatementKind::Declare(Box::new(Declare {
            name,
            binary,
            scroll,
            no_scroll,
            insensitive,
            asensitive,
            hold,
            query: self.query()?,
        })))
    }

    pub(super) fn fetch(&mut self) -> Parsed<StatementKind> {
        use FetchDirection::{Absolute, Backward, Forward, Relative};
        let only_move = self.is(K::Move);
        self.bump();
        // The words may also be the cursor's name.
        let is_name = self.is_column_name(0)
            && matches!(self.peek(1).kind, TokenKind::Semicolon | TokenKind::End);
        let (direction, count) = if is_name || self.any(&[K::From, K::In]) {
            (Forward, Some(1))
        } else {
            let word = self.keyword();
            match word {
                K::Next | K::Prior | K::First | K::Last => {
                    self.bump();
                    match word {
                        K::Next => (Forward, Some(1)),
                        K::Prior => (Backward, Some(1)),
                        K::First => (Absolute, Some(1)),
                        _ => (Absolute, Some(-1)),
                    }
                }
                K::Absolute | K::Relative => {
                    self.bump();
                    let direction = if word == K::Absolute {
                        Absolute
                    } else {
                        Relative
                    };
                    (direction, Some(self.signed_integer()?))
                }
                K::Forward | K::Backward => {
                    self.bump();
                    let direction = if word == K::Forward {
                        Forward
                    } else {
                        Backward
                    };
                    let count = if self.eat(K::All) {
                        None
                    } else if self.is_numeric() {
                        Some(self.signed_integer()?)
                    } else {
                        Some(1)
                    };
                    (direction, count)
                }
                K::All => {
                    self.bump();
                    (Forward, None)
                }
                _ if self.is_numeric() => (Forward, Some(self.signed_integer()?)),
                _ => (Forward, Some(1)),
            }
        };
        if self.any(&[K::From, K::In]) {
            self.bump();
        }
        Ok(StatementKind::Fetch(Fetch {
            only_move,
            direction,
            count,
            cursor: self.column_name()?,
        }))
    }

    pub(super) fn close(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let name = if self.eat(K::All) {
            None
        } else {
            Some(self.column_name()?)
        };
        Ok(StatementKind::Close(name))
    }

    pub(super) fn prepare(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let name = self.column_name()?;
        let types = if self.kind() == TokenKind::Open {
            self.bracketed_list(Self::type_name)?
        } else {
            Vec::new()
        };
        self.expect(K::As)?;
        Ok(StatementKind::Prepare(Prepare {
            name,
            types,
            statement: Box::new(self.preparable()?),
        }))
    }

    pub(super) fn execute(&mut self) -> Parsed<Execute> {
        self.bump();
        Ok(Execute {
            name: self.column_name()?,
            arguments: if self.kind() == TokenKind::Open {
                self.bracketed_list(Self::expr)?
            } else {
                Vec::new()
            },
        })
    }

    pub(super) fn deallocate(&mut self) -> Parsed<StatementKind> {
        self.bump();
        if self.is(K::Prepare) && (self.is_column_name(1) || self.is_at(1, K::All)) {
            self.bump();
        }
        let name = if self.eat(K::All) {
            None
        } else {
            Some(self.column_name()?)
        };
        Ok(StatementKind::Deallocate(name))
    }

    pub(super) fn explain(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let mut options = Vec::new();
        if self.kind() == TokenKind::Open && !self.is_query_behind_brackets() {
            options = self.utility_options()?;
        } else {
            self.flag_options(&mut options, &[&[K::Analyze, K::Analyse], &[K::Verbose]])?;
        }
        let statement = match self.keyword() {
            K::Declare | K::Refresh | K::Execute => self.statement()?,
            K::Create => self.create_table_by_query()?,
            _ => self.preparable()?,
        };
        Ok(StatementKind::Explain(Explain {
            options,
            statement: Box::new(statement),
        }))
    }

    /// Options as words in a fixed order, each of which may be missing.
    pub(super) fn flag_options(
        &mut self,
        options: &mut Vec<UtilityOption>,
        flags: &[&[K]],
    ) -> Parsed<()> {
        for words in flags {
            if self.any(words) {
                let mut name = self.label()?;
                name.text = smol_str::SmolStr::new_static(words[0].text());
                options.push(UtilityOption {
                    name,
                    value: UtilityValue::Omitted,
                });
            }
        }
        Ok(())
    }

    /// `utility_option_list`
    pub(super) fn utility_options(&mut self) -> Parsed<Vec<UtilityOption>> {
        self.bracketed_list(|parser| {
            let name = if parser.any(&[K::Analyze, K::Analyse]) {
                let mut name = parser.label()?;
                name.text = smol_str::SmolStr::new_static("analyze");
                name
            } else {
                parser.non_reserved()?
            };
            let value = match parser.kind() {
                TokenKind::Comma | TokenKind::Close => UtilityValue::Omitted,
                _ if parser.is_numeric() => UtilityValue::Number(parser.numeric()?),
                _ => UtilityValue::Word(parser.boolean_or_string()?),
            };
            Ok(UtilityOption { name, value })
        })
    }

    pub(super) fn notification(&mut self) -> Parsed<StatementKind> {
        let word = self.keyword();
        self.bump();
        if word == K::Unlisten && self.eat_kind(TokenKind::Star) {
            return Ok(StatementKind::Unlisten(None));
        }
        let channel = self.column_name()?;
        Ok(match word {
            K::Listen => StatementKind::Listen(channel),
            K::Unlisten => StatementKind::Unlisten(Some(channel)),
            _ => {
                let payload = if self.eat_kind(TokenKind::Comma) {
                    Some(self.string()?)
                } else {
                    None
                };
                StatementKind::Notify(Notify { channel, payload })
            }
        })
    }

    pub(super) fn do_block(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let mut items = Vec::new();
        loop {
            if self.eat(K::Language) {
                items.push(DoItem::Language(self.word_or_string()?));
            } else if self.kind() == TokenKind::String {
                items.push(DoItem::Code(self.string()?));
            } else if items.is_empty() {
                return Err(self.error());
            } else {
                return Ok(StatementKind::Do(items));
            }
        }
    }
}
