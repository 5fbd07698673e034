"""``majorica info``."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import Any

from majorica.cli.files import load_model
from majorica.cli.fit import describe
from majorica.cli.messages import emit, plain, spoken_warnings
from majorica.cli.streams import need_stdout
from majorica.cli.words import escaped

#: Densities that are told apart before only their families are.
MOST_DENSITIES = 2
#: Feature names that are shown.
MOST_NAMES = 8


def run(*, model: str, as_json: bool, verbose: int) -> None:
    """Print what a model file holds."""
    with spoken_warnings(quiet=False):
        ica = load_model(model)
    from majorica.report import repeat

    names = getattr(ica, "feature_names_in_", None)
    facts = describe(ica)
    facts["feature_names"] = None if names is None else [str(name) for name in names]
    facts["unit"] = getattr(ica, "unit_", None)
    facts["files"] = [repeat.named(file) for file in repeat.origin(ica).files]
    parameters = {name: plain(value) for name, value in ica.get_params(deep=False).items()}
    if as_json:
        emit({"model": model, "bytes": os.path.getsize(model), **facts, "parameters": parameters})
        return
    show_table(model, rows_of(facts, ica, parameters, all_parameters=verbose > 0))


def rows_of(
    facts: dict[str, Any], ica: Any, parameters: dict[str, Any], *, all_parameters: bool
) -> list[tuple[str, str]]:
    """The facts of a model in words."""
    from majorica.report.repeat import changed
    from majorica.sources.names import feature_label

    files = facts["files"]
    rows = [("fitted", files[0] + (f" and {len(files) - 1} more" if len(files) > 1 else ""))] if files else []
    rows += [
        ("samples", f"{facts['n_samples']:,}"),
        ("features", f"{facts['n_features']:,}"),
        ("components", f"{facts['n_components']:,} (rank {facts['rank']:,})"),
        ("loss", f"{facts['loss']:.6f} nats a sample"),
        ("passes", f"{facts['passes']:.3g}"),
        ("seconds", "-" if facts["seconds"] is None else f"{facts['seconds']:.3g}"),
        ("ended", facts["stop_reason"]),
        ("densities", counted(facts["densities"])),
    ]
    if facts["feature_names"]:
        names = facts["feature_names"]
        shown = ", ".join(feature_label(names, i) for i in range(min(len(names), MOST_NAMES)))
        rows.append(("names", shown + (" ..." if len(names) > MOST_NAMES else "")))
    if facts["unit"]:
        rows.append(("unit", facts["unit"]))
    chosen = parameters if all_parameters else {name: parameters[name] for name in changed(ica)}
    rows += [(name, str(value)) for name, value in chosen.items()]
    return rows


def counted(densities: list[str]) -> str:
    """How many components have which density; fitted shapes, all different, by family."""
    from majorica.report.components import family

    names = Counter(densities)
    by_family = len(names) > MOST_DENSITIES
    if by_family:
        names = Counter(map(family, densities))
    listed = ", ".join(f"{name} ({count})" for name, count in names.most_common())
    return f"{listed}; --json lists each component's" if by_family else listed


def show_table(title: str, rows: list[tuple[str, str]]) -> None:
    """Two columns on stdout; plain text where it is not a terminal."""
    need_stdout()
    title, safe = escaped(title), [(name, escaped(value)) for name, value in rows]
    if not sys.stdout.isatty():
        width = max(len(name) for name, _ in safe)
        lines = [title, *(f"{name:<{width}}  {value}" for name, value in safe)]
        encoding = sys.stdout.encoding or "utf-8"
        print("\n".join(lines).encode(encoding, "backslashreplace").decode(encoding))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False, title=Text(title), title_justify="left")
    for name, value in safe:
        table.add_row(Text(name, style="dim"), Text(value))
    Console().print(table)
