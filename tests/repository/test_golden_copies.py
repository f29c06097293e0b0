"""What a user can see is what it was: `tests/golden_copies/copies` are recorded again and compared, file by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden_copies.__main__ import AREAS, COPIES, REWRITE, compare, record


@pytest.mark.parametrize("part", AREAS)
def test_all_that_a_user_can_see_is_as_it_was(part: str, tmp_path: Path) -> None:
    """Nothing differs from the copies; what does is told with its lines, and how to write the copies anew."""
    record(tmp_path, AREAS[part])
    differences = [*compare(COPIES, tmp_path, AREAS[part])]
    if differences:
        pytest.fail("\n\n".join([f"{len(differences)} copies differ; {REWRITE}", *differences]), pytrace=False)


def test_every_copy_is_compared_by_one_of_the_tests() -> None:
    """No folder of copies is forgotten."""
    areas = [area for part in AREAS.values() for area in part]
    assert sorted(areas) == sorted(path.name for path in COPIES.iterdir())


def test_a_changed_text_is_told_with_its_file_and_its_lines(tmp_path: Path) -> None:
    """Also a copy that is missing, and one of something that is gone; what is the same is not told."""
    kept_folder, made_folder = tmp_path / "kept", tmp_path / "made"
    for folder, count, alone in ((kept_folder, 388, "old"), (made_folder, 389, "new")):
        (folder / "ask").mkdir(parents=True)
        (folder / "ask" / "count.txt").write_text(f"$ discreet ask\n{count}\n[exit 0]\n")
        (folder / "ask" / "same.txt").write_text("$ discreet check\n[exit 0]\n")
        (folder / "ask" / f"{alone}.txt").write_text("[exit 0]\n")
    changed, new, old = compare(kept_folder, made_folder)
    assert changed.startswith("ask/count.txt: it is another\n--- tests/golden_copies/copies/ask/count.txt\n+++ now\n")
    assert "\n-388\n+389\n" in changed
    assert new.startswith("ask/new.txt: it is new")
    assert old == "ask/old.txt: there is a copy of it, and it is no more"
    assert [*compare(kept_folder, made_folder, ["publish"])] == []
