"""Walk a question through the package: which stages it takes, in order, and which modules run in each of them.

`python -m support.question_walk` in `tests` prints the walk of `discreet ask` with a prior, and the table of
docs/architecture.md. A module is entered when a function that is written in it is called. What runs while a module is
imported does not count, nor do the constructors that a dataclass gets by itself.

A stage is entered when its function in `STAGES` is called, and left when that function returns. A package is entered
once if its modules run in its own stage and in no other. Three things are not counted against that: packages of no
stage, which any stage may use (`numeric`, `priors`, ...); `VALUES`, which a stage hands on; and `HANDED_ON`, since the
custodian calls all stages, and a plan is made of measurements, each of which says what to scan, draws, and reads what
was drawn. The ledger has two stages, because there are two durable commits.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import discreet
from support.command_line import run_successfully, write_registry

PACKAGE = Path(discreet.__file__).parent
STAGES = {
    "parse": ("query", "query.resolve", "parse_question"),
    "plan": ("planner", "planner.planner", "plan_question"),
    "validate": ("custodian", "custodian.validation", "validate_plan"),
    "charge": ("ledger", "ledger.ledger", "Ledger.charge"),
    "scan": ("sources", "custodian.measure", "scan_rows"),
    "measure": ("measurements", "custodian.measure", "sample_noisy_outputs"),
    "store": ("ledger", "ledger.ledger", "Ledger.store"),
    "decode": ("answers", "answers.decode", "decode_result"),
    "explain": ("answers", "answers.explain", "explain_result"),
}
"""Each stage in order: the package that does its work, and the module and the name of the function that enters it."""
VALUES = ("query.query", "query.predicates", "planner.plan", "planner.options")
"""The question, its conditions, the plan and the options: values of a package that later stages are handed."""
HANDED_ON = ("custodian", "measurements")
"""Packages whose modules may run in several stages: the caller of all, and what a plan holds for each of them."""
LINE = "custodian.custodian"
"""The module of the functions that call the stages."""
OPEN, BETWEEN, SHOW, SEVERAL = "open", "between", "show", "in several"
"""Before the first stage, between two of them, after the last one; and what runs in several stages."""
QUESTION = "SELECT AVG(income) FROM registry WHERE sex = 'F'"
OPTIONS = ("--epsilon", "0.1", "--prior", "normal(30000, 4000)", "--analyst", "ann")
"""The question with a prior that README.md asks first."""


@dataclass
class Walk:
    """What a question passed: its stages as they were entered, from where, and the modules that ran in each."""

    stages: list[str] = field(default_factory=list)
    callers: list[str] = field(default_factory=list)
    modules: dict[str, list[str]] = field(default_factory=dict)
    """By stage, each module once, as it was first entered there."""

    @property
    def entered(self) -> set[str]:
        """Every module that was entered."""
        return {module for modules in self.modules.values() for module in modules}

    def list_own(self, part: str) -> list[str]:
        """The modules of one part of the walk, each module being in one: see `_place`."""
        return sorted(module for module in self.entered if self._place(module) == part)

    def _place(self, module: str) -> str:
        """A module of a stage's package is of the first stage it runs in; another one of its only stage, or several."""
        stages = [stage for stage in STAGES if module in self.modules.get(stage, ())]
        packages = {STAGES[stage][0] for stage in stages} - {"measurements"}
        if not stages:
            return next(part for part in (OPEN, BETWEEN, SHOW) if module in self.modules.get(part, ()))
        if len(stages) == 1 or (module.split(".", maxsplit=1)[0] in packages and module not in VALUES):
            return stages[0]
        return SEVERAL

    def find_strays(self) -> list[str]:
        """Modules of a stage's package that ran in another stage, but for the values that stages hand on."""
        packages = {package for package, _, _ in STAGES.values()} - {*HANDED_ON}
        return [
            f"{module} in {stage}"
            for stage, (own_package, _, _) in STAGES.items()
            for module in self.modules.get(stage, ())
            if module.split(".")[0] in packages - {own_package} and module not in VALUES
        ]

    def list_table(self) -> list[str]:
        """The rows of the table in docs/architecture.md: each part of the walk, its package and its own modules."""
        parts = [(part, STAGES[part][0] if part in STAGES else "", self.list_own(part)) for part in (OPEN, *STAGES)]
        parts += [(BETWEEN, "", self.list_own(BETWEEN)), (SHOW, "", self.list_own(SHOW))]
        parts.append((SEVERAL, "", self.list_own(SEVERAL)))
        return [f"| {part} | {package} | {' '.join(f'`{name}`' for name in names)} |" for part, package, names in parts]

    def __str__(self) -> str:
        lines = []
        for part in (OPEN, *STAGES, BETWEEN, SHOW):
            package = f" ({STAGES[part][0]})" if part in STAGES else ""
            lines.append(f"{part + package:22} {', '.join(self.list_own(part))}")
        lines.append(f"{SEVERAL:22} {', '.join(self.list_own(SEVERAL))}")
        return "\n".join([*lines, f"{len(self.entered)} modules; stages: {' -> '.join(self.stages)}"])


def name_module(code: CodeType) -> str | None:
    """Name the module that a function is written in, without the package's name; None where it is not ours."""
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE):
        return None
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


@contextmanager
def record_walk() -> Iterator[Walk]:
    """Record what is entered in this thread meanwhile."""
    walk, open_stages, names = Walk(), list[tuple[str, FrameType]](), dict[CodeType, str | None]()
    doors = {(module, name): stage for stage, (_, module, name) in STAGES.items()}
    imports = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal imports
        code = frame.f_code
        if code.co_name == "<module>":
            imports += {"call": 1, "return": -1}.get(event, 0)
        if event == "return" and open_stages and open_stages[-1][1] is frame:
            open_stages.pop()
        if event != "call" or imports:
            return
        if code not in names:
            names[code] = name_module(code)
        module = names[code]
        if module is None:
            return
        stage = doors.get((module, code.co_qualname))
        if stage is not None:
            open_stages.append((stage, frame))
            walk.stages.append(stage)
            walk.callers.append(str(frame.f_back and name_module(frame.f_back.f_code)))
        part = open_stages[-1][0] if open_stages else _name_part(walk)
        modules = walk.modules.setdefault(part, [])
        if module not in modules:
            modules.append(module)

    previous = sys.getprofile()
    sys.setprofile(look)
    try:
        yield walk
    finally:
        sys.setprofile(previous)


def _name_part(walk: Walk) -> str:
    if not walk.stages:
        return OPEN
    return SHOW if walk.stages[-1] == list(STAGES)[-1] else BETWEEN


def walk_question(folder: Path, question: str = QUESTION, options: tuple[str, ...] = OPTIONS) -> Walk:
    """Walk `discreet ask` on the sample registry, which is registered before."""
    schema = write_registry(folder)
    run_successfully("check", schema)
    with record_walk() as walk:
        run_successfully("ask", schema, question, *options)
    return walk


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary_folder:
        found = walk_question(Path(temporary_folder))
        print("\n".join([*found.list_table(), ""]), found, sep="\n")
