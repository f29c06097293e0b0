"""What is asked of an answer afterwards: ranges, the population, its picture. Only where nothing is paid for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.answer import PopulationEstimate, RangeCount
from discreet.client.answers import AnswerCallbacks, decode_population, decode_range_count
from discreet.client.dataset import RemoteDataset, quote_path_part
from discreet.client.posterior import require_95_confidence
from discreet.client.reading import JsonObject, decode_reply
from discreet.client.sending import encode_range, make_request_key
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.exact import as_int

ANSWER_NOT_STORED = (
    "the service has this answer stored no longer, as after a refresh of the data set: this would be charged; ask anew"
)
ANSWER_CHANGED = (
    "by now the service tells another answer to this question, as a newer or nearer one; take this of that answer"
)


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """An answer as it was told, and the request that it was told to."""

    dataset: RemoteDataset
    body: JsonObject
    document: JsonObject

    @property
    def callbacks(self) -> AnswerCallbacks:
        """What the answer offers."""
        picture_callbacks = (self.save_picture, self.fetch_spec) if self.document.get("picture") else (None, None)
        return AnswerCallbacks(self.count_range, self.estimate_population, *picture_callbacks)

    def count_range(self, low: object, high: object, confidence: float) -> RangeCount:
        """How many rows lie in a range."""
        require_95_confidence(confidence)
        return decode_reply(
            lambda ranges: decode_range_count(ranges[0]), self._ask_again("ranges", [encode_range(low, high)])
        )

    def estimate_population(self, confidence: float, size: object) -> tuple[Mapping[str, PopulationEstimate], ...]:
        """The numbers for the population."""
        require_95_confidence(confidence)
        size_field = {} if size is None else {"population_size": as_int(size, "the size of the population")}
        return decode_reply(decode_population, self._ask_again("population", True, size_field))

    def save_picture(self, path: str | Path) -> Path:
        """The picture in a file."""
        from discreet.pictures import check_picture_path, save_spec

        target = check_picture_path(path)
        return save_spec(self.fetch_spec(), target)

    def fetch_spec(self) -> dict[str, Any]:
        """The picture as data."""
        reply = self.dataset.fetch(f"/answers/{quote_path_part(self.document.get('id'))}/picture")
        return decode_reply(lambda document: dict(document["spec"]), reply)

    def _ask_again(self, name: str, addition: object, extra_fields: JsonObject | None = None) -> Any:
        """The same question once more, from what is stored, with something beside it."""
        repeated_body = {field_name: value for field_name, value in self.body.items() if field_name != "fresh"} | {
            "stored_only": True
        }
        try:
            reply = self.dataset.submit_question(
                repeated_body | {name: addition} | dict(extra_fields or {}), make_request_key(None)
            )
        except BudgetExceeded:
            raise InvalidInput(ANSWER_NOT_STORED) from None
        if reply.get("rows") != self.document["rows"]:
            raise InvalidInput(ANSWER_CHANGED)
        return reply.get(name)
