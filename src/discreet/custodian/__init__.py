"""The only place where rows, plan and ledger meet."""

from discreet.custodian.custodian import Custodian as Custodian
from discreet.custodian.nested import check_ranges as check_ranges
from discreet.custodian.population import check_population as check_population
from discreet.custodian.previewing import Preview as Preview
from discreet.custodian.previewing import preview_from_schema as preview_from_schema
from discreet.custodian.reconciling import check_constraints as check_constraints
