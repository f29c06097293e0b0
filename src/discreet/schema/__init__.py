"""All that is public about a table: columns, kinds, bounds, categories, unit of privacy, budget."""

from discreet.schema.loader import load_schema as load_schema
from discreet.schema.loader import schema_from_text as schema_from_text
from discreet.schema.schema import Budget as Budget
from discreet.schema.schema import Column as Column
from discreet.schema.schema import DerivedCodes as DerivedCodes
from discreet.schema.schema import PublishedStatistic as PublishedStatistic
from discreet.schema.schema import Schema as Schema
from discreet.schema.schema import SourceAddress as SourceAddress
from discreet.schema.schema import schema_to_public_json as schema_to_public_json
