//! COPY, LOCK, VACUUM, CLUSTER, REINDEX, DISCARD.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    Cluster, Copy, CopyOption, CopySource, CopyValue, Discard, Lock, LockMode, Name, Reindex,
    ReindexKind, StatementKind, Vacuum,
};

impl Parser<'_> {
    pub(super) fn copy(&mut self) -> Parsed<StatementKind> {
        let start = self.pos();
        self.bump();
        let mut options = Vec::new();
        let source = if self.kind() == TokenKind::Open {
            CopySource::Query(self.in_brackets(Self::preparable)?)
        } else {
            if self.eat(K::Binary) {
                options.push(CopyOption::Binary);
            }
            let table = self.qualified_name()?;
            CopySource::Table(table, self.optional_column_names()?)
        };
        let of_query = matches!(source, CopySource::Query(_));
        let from = !of_query && self.eat(K::From);
        if !from {
            self.expect(K::To)?;
        }
        let program = self.eat(K::Program);
        let at = self.pos();
        let file = if self.any(&[K::Stdin, K::Stdout]) {
            self.bump();
            if program {
                let message = "STDIN/STDOUT not allowed with PROGRAM";
                return Err(SyntaxError::new(Fault::Syntax, message, at));
            }
            None
        } else {
            Some(self.string()?)
        };
        if !of_query {
            let using = self.eat(K::Using);
            if using || self.is(K::Delimiters) {
                self.expect(K::Delimiters)?;
                options.push(CopyOption::Delimiter(self.string()?));
            }
        }
        self.eat(K::With);
        if self.kind() == TokenKind::Open {
            options.extend(self.bracketed_list(Self::copy_option)?);
        } else {
            while let Some(option) = self.copy_word()? {
                options.push(option);
            }
        }
        let at = self.pos();
        let filter = if of_query {
            None
        } else {
            self.optional_where()?
        };
        if filter.is_some() && !from {
            let message = "WHERE clause not allowed with COPY TO";
            return Err(SyntaxError::new(Fault::Syntax, message, at.max(start)));
        }
        Ok(StatementKind::Copy(Box::new(Copy {
            source,
            from,
            program,
            file,
            options,
            filter,
        })))
    }

    /// An option in brackets.
    fn copy_option(&mut self) -> Parsed<CopyOption> {
        let name = self.label()?;
        let value = match self.kind() {
            TokenKind::Comma | TokenKind::Close => CopyValue::Omitted,
            TokenKind::Star => {
                self.bump();
                CopyValue::Star
            }
            TokenKind::Open => CopyValue::List(self.bracketed_list(Self::boolean_or_string)?),
            _ if self.is_numeric() => CopyValue::Number(self.numeric()?),
            _ => CopyValue::Word(self.boolean_or_string()?),
        };
        Ok(CopyOption::Listed(name, value))
    }

    /// An option without brackets.
    fn copy_word(&mut self) -> Parsed<Option<CopyOption>> {
        let word = self.keyword();
        let has_string = matches!(
            word,
            K::Delimiter | K::Null | K::Quote | K::Escape | K::Encoding
        );
        if has_string {
            self.bump();
            if word != K::Encoding {
                self.eat(K::As);
            }
            let value = self.string()?;
            return Ok(Some(match word {
                K::Delimiter => CopyOption::Delimiter(value),
                K::Null => CopyOption::Null(value),
                K::Quote => CopyOption::Quote(value),
                K::Escape => CopyOption::Escape(value),
                _ => CopyOption::Encoding(value),
            }));
        }
        let option = match word {
            K::Binary => CopyOption::Binary,
            K::Freeze => CopyOption::Freeze,
            K::Csv => CopyOption::Csv,
            K::Header => CopyOption::Header,
            K::Force => {
                self.bump();
                return self.copy_force().map(Some);
            }
            _ => return Ok(None),
        };
        self.bump();
        Ok(Some(option))
    }

    fn copy_force(&mut self) -> Parsed<CopyOption> {
        if self.eat(K::Quote) {
            if self.eat_kind(TokenKind::Star) {
                return Ok(CopyOption::ForceQuote(None));
            }
            return Ok(CopyOption::ForceQuote(Some(self.list(Self::column_name)?)));
        }
        let not = self.eat(K::Not);
        self.expect(K::Null)?;
        let columns = self.list(Self::column_name)?;
        Ok(if not {
            CopyOption::ForceNotNull(columns)
        } else {
            CopyOption::ForceNull(columns)
        })
    }

    pub(super) fn lock(&mut self) -> Parsed<StatementKind> {
        self.bump();
        self.eat(K::Table);
        let tables = self.list(Self::relation)?;
        let mode = if self.eat(K::In) {
            let mode = self.lock_mode()?;
            self.expect(K::Mode)?;
            mode
        } else {
            LockMode::AccessExclusive
        };
        Ok(StatementKind::Lock(Lock {
            tables,
            mode,
            nowait: self.eat(K::Nowait),
        }))
    }

    fn lock_mode(&mut self) -> Parsed<LockMode> {
        let modes: [(&[K], LockMode); 8] = [
            (&[K::Access, K::Share], LockMode::AccessShare),
            (&[K::Access, K::Exclusive], LockMode::AccessExclusive),
            (&[K::Row, K::Share], LockMode::RowShare),
            (&[K::Row, K::Exclusive], LockMode::RowExclusive),
            (
                &[K::Share, K::Update, K::Exclusive],
                LockMode::ShareUpdateExclusive,
            ),
            (
                &[K::Share, K::Row, K::Exclusive],
                LockMode::ShareRowExclusive,
            ),
            (&[K::Share], LockMode::Share),
            (&[K::Exclusive], LockMode::Exclusive),
        ];
        for (words, mode) in modes {
            if self.eat_all(words) {
                return Ok(mode);
            }
        }
        if self.any(&[K::Access, K::Row]) {
            self.bump();
        }
        Err(self.error())
    }

    pub(super) fn vacuum(&mut self) -> Parsed<StatementKind> {
        let only_analyze = !self.is(K::Vacuum);
        self.bump();
        let mut options = Vec::new();
        if self.kind() == TokenKind::Open {
            options = self.utility_options()?;
        } else if only_analyze {
            self.flag_options(&mut options, &[&[K::Verbose]])?;
        } else {
            let flags: [&[K]; 4] = [
                &[K::Full],
                &[K::Freeze],
                &[K::Verbose],
                &[K::Analyze, K::Analyse],
            ];
            self.flag_options(&mut options, &flags)?;
        }
        let tables = if self.is_column_name(0) {
            self.list(|parser| Ok((parser.qualified_name()?, parser.optional_column_names()?)))?
        } else {
            Vec::new()
        };
        Ok(StatementKind::Vacuum(Vacuum {
            only_analyze,
            options,
            tables,
        }))
    }

    pub(super) fn cluster(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let mut options = Vec::new();
        let listed = self.kind() == TokenKind::Open;
        if listed {
            options = self.utility_options()?;
        } else {
            self.flag_options(&mut options, &[&[K::Verbose]])?;
        }
        let mut cluster = Cluster {
            options,
            table: None,
            index: None,
        };
        if self.is_column_name(0) {
            let name: Option<Name> = if !listed && self.is_at(1, K::On) {
                let name = self.column_name()?;
                self.bump();
                Some(name)
            } else {
                None
            };
            cluster.table = Some(self.qualified_name()?);
            cluster.index = match name {
                None if self.eat(K::Using) => Some(self.column_name()?),
                name => name,
            };
        } else if listed {
            return Err(self.error());
        }
        Ok(StatementKind::Cluster(cluster))
    }

    pub(super) fn reindex(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let options = if self.kind() == TokenKind::Open {
            self.utility_options()?
        } else {
            Vec::new()
        };
        let kind = match self.keyword() {
            K::Index => ReindexKind::Index,
            K::Table => ReindexKind::Table,
            K::Schema => ReindexKind::Schema,
            K::System => ReindexKind::System,
            K::Database => ReindexKind::Database,
            _ => return Err(self.error()),
        };
        self.bump();
        let concurrently = self.eat(K::Concurrently);
        let name = if matches!(kind, ReindexKind::Index | ReindexKind::Table) {
            self.qualified_name()?
        } else {
            self.object_name(false)?
        };
        Ok(StatementKind::Reindex(Reindex {
            options,
            kind,
            concurrently,
            name,
        }))
    }

    pub(super) fn discard(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let what = match self.keyword() {
            K::All => Discard::All,
            K::Temp | K::Temporary => Discard::Temporary,
            K::Plans => Discard::Plans,
            K::Sequences => Discard::Sequences,
            _ => return Err(self.error()),
        };
        self.bump();
        Ok(StatementKind::Discard(what))
    }
}
