"""The only place where rows, plan and ledger meet."""

from discreet.answers.hierarchical_answer import check_ranges as check_ranges
from discreet.answers.population_estimates import check_population as check_population
from discreet.answers.reconciled_counts import check_constraints as check_constraints
from discreet.custodian.custodian import Custodian as Custodian
from discreet.custodian.preview import Preview as Preview
from discreet.custodian.preview import preview_from_schema as preview_from_schema
