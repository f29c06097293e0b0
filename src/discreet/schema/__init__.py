"""All that is public about a table: columns, kinds, bounds, categories, unit of privacy, budget."""

from discreet.schema.address import Address as Address
from discreet.schema.column import Column as Column
from discreet.schema.column import Derived as Derived
from discreet.schema.public import schema_to_public_json as schema_to_public_json
from discreet.schema.read import load_schema as load_schema
from discreet.schema.read import schema_from_text as schema_from_text
from discreet.schema.schema import Budget as Budget
from discreet.schema.schema import Published as Published
from discreet.schema.schema import Schema as Schema
