"""All seeded faults."""

from __future__ import annotations

from . import (
    audit,
    custodian,
    guarantee,
    inference,
    kernel_choices,
    kernel_noise,
    kernel_refinement,
    ledger,
    planner,
    private_files,
    protected_files,
    service,
    sources,
)
from .fault import Fault

FAULTS: tuple[Fault, ...] = (
    *kernel_noise.FAULTS,
    *kernel_choices.FAULTS,
    *kernel_refinement.FAULTS,
    *guarantee.FAULTS,
    *sources.FAULTS,
    *planner.FAULTS,
    *ledger.FAULTS,
    *private_files.FAULTS,
    *protected_files.FAULTS,
    *inference.FAULTS,
    *custodian.FAULTS,
    *service.FAULTS,
    *audit.FAULTS,
)
