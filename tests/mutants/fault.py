"""What a seeded fault is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong line, and the tests that the check runs against it.

    `old` stands exactly once in `file`, a path below src/discreet; `new` stands in its place. `killers` are files of
    tests/, or tests in them: as narrow as can be, so that the check is quick.
    """

    name: str
    does: str
    """What is wrong with it, in a sentence."""
    lets: str
    """What somebody could learn or do who finds it, in a sentence."""
    file: str
    old: str
    new: str
    killers: tuple[str, ...]
    dies_of: str = ""
    """The exception that its tests fail of, where they fail of none that they look for and that is the point."""

    @property
    def package(self) -> str:
        """The package it is in, or the module where that is in none."""
        return Path(self.file).parts[0].removesuffix(".py")

    @property
    def path(self) -> Path:
        """The file, below src."""
        return Path("discreet") / self.file

    def apply_to(self, text: str) -> str:
        """The text of the file with the fault in it."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: what it changes stands {text.count(self.old)} times in {self.file}, not once"
            )
        return text.replace(self.old, self.new)
