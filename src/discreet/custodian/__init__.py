"""The only place where rows, plan and ledger meet."""

from discreet.custodian.custodian import Custodian as Custodian
from discreet.custodian.preview import Preview as Preview
from discreet.custodian.preview import preview_question as preview_question
from discreet.custodian.validation import validate_question as validate_question
