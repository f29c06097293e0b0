"""What is asked of a table."""

from discreet.query.sql import parse_sql as parse_sql
from discreet.query.text import to_sql as to_sql
