"""What is asked of a table."""

from discreet.query.resolve import parse_sql as parse_sql
from discreet.query.to_sql import to_sql as to_sql
