#!/bin/sh
# Writes bank.sql and simple.sql anew: what pg_dump says of source.sql and of
# simple-source.sql. Wants the URLs of two empty PostgreSQL databases of one's own, the
# second one's user called ada, and pg_dump of the same version.
set -eu
cd "$(dirname "$0")"
psql -X -q -v ON_ERROR_STOP=1 -f source.sql "$1"
pg_dump --no-owner --restrict-key=sample "$1" > bank.sql
psql -X -q -v ON_ERROR_STOP=1 -f simple-source.sql "$2"
pg_dump --restrict-key=sample "$2" > simple.sql
