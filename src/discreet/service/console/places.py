"""Where the pages of a data set are, for real and in rehearsal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Request

from discreet.service.access import DatasetContext, enter_dataset

REHEARSAL_PREFIX = "/console/rehearsal/"


@dataclass(frozen=True, slots=True)
class DatasetUrls:
    """A data set's addresses."""

    dataset: str
    rehearsal: bool

    @property
    def pages(self) -> str:
        """Its pages for analysts."""
        return f"/console{self._part}/datasets/{self._name}"

    @property
    def api(self) -> str:
        """Its routes."""
        return f"/v1{self._part}/datasets/{self._name}"

    @property
    def keeping(self) -> str:
        """Its pages for custodians."""
        return f"/console/custodian/datasets/{self._name}"

    @property
    def other(self) -> str:
        """The same page in rehearsal, or for real again."""
        return DatasetUrls(self.dataset, not self.rehearsal).pages

    @property
    def _name(self) -> str:
        return quote(self.dataset, safe="")

    @property
    def _part(self) -> str:
        return "/rehearsal" if self.rehearsal else ""


def get_dataset_urls(context: DatasetContext) -> DatasetUrls:
    """The addresses of a data set that was entered."""
    return DatasetUrls(context.name, context.rehearsal)


def get_page_context(request: Request, dataset: str) -> DatasetContext:
    """The data set of a page, if it is granted."""
    return enter_dataset(request, dataset, request.url.path.startswith(REHEARSAL_PREFIX))


PageDataset = Annotated[DatasetContext, Depends(get_page_context)]
