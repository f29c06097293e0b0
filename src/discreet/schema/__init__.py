"""All that is public about a table: columns, kinds, bounds, categories, unit of privacy, budget."""

from discreet.schema.column import Column as Column
from discreet.schema.column import Derived as Derived
from discreet.schema.schema import Budget as Budget
from discreet.schema.schema import Published as Published
from discreet.schema.schema import Schema as Schema
