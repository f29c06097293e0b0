"""A draft of a schema, for a custodian who begins; what a schema names is sought from its own folder."""

from __future__ import annotations

from pathlib import Path

from discreet.errors import InvalidInput, Unavailable
from discreet.schema import SourceAddress
from discreet.sources.draft import draft_schema


def build_draft_text(data: str) -> str:
    """The text of a draft."""
    return draft_schema(data)


def write_draft(data: str, file: Path) -> str:
    """The text of a draft, written to a new file; a file that is there is never touched."""
    is_current_folder = file.absolute().parent == Path.cwd()
    text = draft_schema(data if is_current_folder else make_address_absolute(data))
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise InvalidInput(
            f"there is a file {file.name[:40]!r} already, and no draft overwrites it; name another"
        ) from None
    except (OSError, ValueError):
        raise Unavailable(
            f"{file.name[:40]!r} cannot be written; check that its folder is there and may be written"
        ) from None
    return text


def make_address_absolute(data: str) -> str:
    """The address of the same table, whichever folder it is sought from."""
    return str(Path(data).absolute()) if SourceAddress.of(data).engine in {"csv", "parquet"} else data
