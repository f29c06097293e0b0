"""Questions: from SQL text to a resolved query, its canonical form, and the scans that a source is asked for."""

from discreet.query.resolve import Question as Question
from discreet.query.resolve import parse_question as parse_question
from discreet.query.resolve import parse_sql as parse_sql
from discreet.query.to_sql import to_sql as to_sql
