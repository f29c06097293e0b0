"""All seeded faults."""

from __future__ import annotations

from . import (
    audit,
    custodian,
    estimation,
    ledger,
    measurements,
    mechanisms_noise,
    mechanisms_refinement,
    mechanisms_selection,
    planner,
    privacy,
    sdc,
    service,
    sources,
    synthetic,
)
from .fault import Fault

FAULTS: tuple[Fault, ...] = (
    *mechanisms_noise.FAULTS,
    *mechanisms_selection.FAULTS,
    *mechanisms_refinement.FAULTS,
    *privacy.FAULTS,
    *sources.FAULTS,
    *planner.FAULTS,
    *measurements.FAULTS,
    *ledger.FAULTS,
    *synthetic.FAULTS,
    *sdc.FAULTS,
    *estimation.FAULTS,
    *custodian.FAULTS,
    *service.FAULTS,
    *audit.FAULTS,
)
PACKAGES = tuple(sorted({fault.package for fault in FAULTS}))
"""Where there are faults."""
