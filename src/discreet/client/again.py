"""What is asked of an answer afterwards: ranges, the population, its picture. Only where nothing is paid for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.answer import InRange, Population
from discreet.client.answers import More, in_range_from, population_from
from discreet.client.dataset import DataSet, quoted
from discreet.client.posterior import require_95
from discreet.client.reading import Told, read
from discreet.client.sending import ends_of, key_of
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.exact import whole

PAID = (
    "the service has this answer stored no longer, as after a refresh of the data set: this would be charged; ask anew"
)
ANOTHER = "by now the service tells another answer to this question, as a newer or nearer one; take this of that answer"


@dataclass(frozen=True, slots=True)
class Again:
    """An answer as it was told, and the request that it was told to."""

    dataset: DataSet
    body: Told
    told: Told

    @property
    def more(self) -> More:
        """What the answer offers."""
        pictured = (self.picture, self.spec) if self.told.get("picture") else (None, None)
        return More(self.in_range, self.population, *pictured)

    def in_range(self, low: object, high: object, confidence: float) -> InRange:
        """How many rows lie in a range."""
        require_95(confidence)
        return read(lambda told: in_range_from(told[0]), self._beside("ranges", [ends_of(low, high)]))

    def population(self, confidence: float, size: object) -> tuple[Mapping[str, Population], ...]:
        """The numbers for the population."""
        require_95(confidence)
        of = {} if size is None else {"population_size": whole(size, "the size of the population")}
        return read(population_from, self._beside("population", True, of))

    def picture(self, path: str | Path) -> Path:
        """The picture in a file."""
        from discreet.pictures import check_path, save_spec

        target = check_path(path)
        return save_spec(self.spec(), target)

    def spec(self) -> dict[str, Any]:
        """The picture as data."""
        told = self.dataset.look(f"/answers/{quoted(self.told.get('id'))}/picture")
        return read(lambda document: dict(document["spec"]), told)

    def _beside(self, name: str, asked: object, more: Told | None = None) -> Any:
        """The same question once more, from what is stored, with something beside it."""
        again = {said: value for said, value in self.body.items() if said != "fresh"} | {"stored_only": True}
        try:
            told = self.dataset.answer(again | {name: asked} | dict(more or {}), key_of(None))
        except BudgetExceeded:
            raise InvalidInput(PAID) from None
        if told.get("rows") != self.told["rows"]:
            raise InvalidInput(ANOTHER)
        return told.get(name)
