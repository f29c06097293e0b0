"""A first look at discreet: a registry, asked, published and audited; numbers on the screen, a page with pictures.

`python -m demo` keeps what it makes in demo/work, so that it is quick the second time.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from demo.registry import Row, Work
    from demo.sections import DemoResults
    from discreet import Custodian

HERE = Path(__file__).parent
FEWEST, PATIENTS = 500, 50_000
Show = Callable[[str], None]


def main(arguments: list[str] | None = None) -> int:
    """Show, draw, and say what to try next; report a failure in one sentence."""
    options = _parse_arguments(arguments)
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        _run_demo(options, console)
    except KeyboardInterrupt:
        return _report_stop(console)
    except RuntimeError as failure:
        if "interrupted" not in str(failure):  # DuckDB's word for Ctrl-C
            raise
        return _report_stop(console)
    except _list_failures() as failure:
        console.print(f"\nThe demo cannot go on: {failure}")
        return 1
    return 0


def _report_stop(console: Console) -> int:
    console.print("\nStopped. Nothing is broken: run it again, and it begins anew where it must.")
    return 130


def _parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description="A first look at discreet.")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs made")
    parser.add_argument(
        "--patients", type=_parse_patients, default=PATIENTS, help=f"how many; {PATIENTS:,} unless told"
    )
    parser.add_argument("--folder", type=Path, default=HERE, help="where index.html and work/ go; demo/ unless told")
    return parser.parse_args(arguments)


def _parse_patients(text: str) -> int:
    if not text.isdecimal() or int(text) < FEWEST:
        raise argparse.ArgumentTypeError(f"a whole number from {FEWEST} on, not {text!r}")
    return int(text)


def _list_failures() -> tuple[type[Exception], ...]:
    from demo.registry import Stopped
    from discreet import DiscreetError

    return Stopped, DiscreetError, OSError


def _run_demo(options: argparse.Namespace, console: Console) -> None:
    """One step after the other, each said on the screen once it is done."""
    with _progress(console) as show:
        show("starting")
        from demo import screen
        from demo.registry import prepare, read_registry, write_registry_files
        from discreet import Custodian

        work = prepare(_shorten_path(options.folder / "work"), options.patients, options.fresh)
        if not work.is_complete:
            show(f"making up {work.patients:,} patients")
            write_registry_files(work)
        show("reading the registry")
        everyone = read_registry(work)
        screen.show_registry(console, work)
        with Custodian.open(work.schema, progress=show) as custodian:
            results = _collect_results(custodian, work, everyone, console, show)
        show("drawing the page")
        page_file = _write_page(_shorten_path(options.folder / "index.html"), results)
    screen.show_ending(console, page_file, results.commands)


def _collect_results(
    custodian: Custodian, work: Work, everyone: list[Row], console: Console, show: Show
) -> DemoResults:
    """Ask, publish and audit."""
    from demo import auditing, files, questions, screen
    from demo.sections import DemoResults

    show("asking")
    answers = screen.show_questions(console, questions.ask(custodian, everyone))
    refusals = screen.show_refusals(console, questions.refuse(custodian))
    steps = questions.list_account_steps(custodian)
    screen.show_account(console, steps, custodian.budget(questions.ANALYST))
    releases = _publish_files(custodian, work, show)
    show("checking the claim of the 10-anonymous file")
    verified = files.verify(work, releases[files.ANONYMOUS])
    screen.show_files(console, work, releases, verified)
    show(f"auditing with {auditing.DRAWS:,} draws")
    audits = screen.show_audits(console, auditing.run_audits())
    balances = custodian.budget(questions.ANALYST)
    commands = list_next_commands(work.schema)
    return DemoResults(
        *(work, everyone, answers, refusals, steps, balances, releases, verified, audits, commands), work.folder.name
    )


def _publish_files(custodian: Custodian, work: Work, show: Show) -> dict[str, dict[str, object]]:
    """Both files; once they are there, the folder is found again by the next run."""
    from demo import files

    if work.is_complete:
        return work.releases
    releases = {
        method: files.publish(custodian, work, method, lambda stage, name=method: show(f"{name}: {stage}"))
        for method in files.RECIPES
    }
    work.finish(releases)
    return releases


def list_next_commands(schema: Path) -> list[tuple[str, str]]:
    """What to try, as it is typed in the folder that the demo was started in."""
    tool = f"{Path(_find_python()).parent}/discreet"
    question = "SELECT AVG(bmi) FROM registry WHERE smoker"
    return [
        ("Ask your own question:", f'{tool} ask {schema} "{question}" --epsilon 0.1 --analyst you'),
        ("See what was asked, and what it cost:", f"{tool} history {schema}"),
        ("Open the console in a browser, with a registry of its own:", f"{tool} serve"),
        ("Read on, in ten minutes from here to a table of your own:", "less docs/tutorial.md"),
    ]


def _write_page(file: Path, results: DemoResults) -> Path:
    """Written beside, then put in its place."""
    from demo.page import format_page
    from demo.sections import LEAD, format_sections

    foot = "Everything here is made up. This page shows exact numbers, so it is for the custodian and not for analysts."
    waiting = results.work.folder / "index.html.new"
    waiting.write_text(format_page("discreet: a first look", LEAD, format_sections(results), foot), encoding="utf-8")
    return waiting.replace(file)


def _find_python() -> str:
    return str(_shorten_path(Path(sys.executable)))


def _shorten_path(path: Path) -> Path:
    """From here, if that is shorter."""
    near = Path(os.path.relpath(path))
    return near if len(str(near)) < len(str(path)) else path


@contextmanager
def _progress(console: Console) -> Iterator[Show]:
    """What is at work now; the line goes when all is done, and is not there in a pipe."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda stage: progress.update(task, description=stage)


if __name__ == "__main__":
    sys.exit(main())
