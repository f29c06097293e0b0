"""The only place where rows, plan and ledger meet."""

from discreet.custodian.custodian import Custodian as Custodian
from discreet.custodian.custodian import Preview as Preview
from discreet.custodian.custodian import preview as preview
