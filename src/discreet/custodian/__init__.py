"""The only place where rows, plan and ledger meet."""

from discreet.custodian.custodian import Custodian as Custodian
from discreet.custodian.previewing import Preview as Preview
from discreet.custodian.previewing import preview as preview
