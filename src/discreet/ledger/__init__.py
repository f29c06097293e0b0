"""Every promise already spent: charges, stored answers and what is left, on SQLite or PostgreSQL."""

from discreet.ledger.charge import Balance as Balance
from discreet.ledger.charge import Caps as Caps
from discreet.ledger.charge import Charge as Charge
from discreet.ledger.charge import Entry as Entry
from discreet.ledger.charge import HeadEntry as HeadEntry
from discreet.ledger.charge import LedgerRestore as LedgerRestore
from discreet.ledger.charge import LedgerVerification as LedgerVerification
from discreet.ledger.charge import Receipt as Receipt
from discreet.ledger.ledger import Ledger as Ledger
