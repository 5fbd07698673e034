"""The commands, and the one place where the program ends."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from majorica.cli import options as opt
from majorica.cli.failures import CLOSED_PIPE, INTERRUPTED, USAGE, Stop, explain
from majorica.cli.help import Command, Group
from majorica.cli.messages import say
from majorica.cli.streams import open_missing_streams

app = typer.Typer(
    name="majorica",
    cls=Group,
    help="Independent component analysis of large, long and live data.",
    epilog="Example: [bold]majorica fit recording.fif -o model.npz[/bold]\n\n"
    "Exit codes: 0 done, 2 wrong usage, 3 unusable data or files, 4 not converged (a model is written), "
    "130 interrupted.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _example(*lines: str) -> str:
    return "\n\n".join(["Example:", *(f"[bold]{line}[/bold]" for line in lines)])


def _call(command: str, arguments: dict[str, Any]) -> None:
    """Import the module of a command only now, and run it."""
    try:
        importlib.import_module(f"majorica.cli.{command}").run(**arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        raise Stop(CLOSED_PIPE) from None
    except KeyboardInterrupt:
        say("interrupted; nothing was written")
        raise Stop(INTERRUPTED) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        from majorica import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the program itself."""


@app.command(
    cls=Command,
    epilog=_example(
        "majorica fit recording.fif -o model.npz",
        "majorica fit run1.edf run2.edf --n-components 20",
        "majorica fit samples.npy --layout channels-first --json",
    ),
)
def fit(
    inputs: opt.Inputs,
    output: opt.ModelOutput = "model.npz",
    n_components: opt.NComponents = None,
    solver: opt.SolverOption = opt.Solver.auto,
    density: opt.DensityOption = opt.DensityName.adaptive,
    whiten: opt.WhitenOption = opt.Whiten.unit_variance,
    max_iter: opt.MaxIter = None,
    tol: opt.Tol = None,
    batch_size: opt.BatchSize = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    memory_limit: opt.MemoryLimit = None,
    checkpoint: opt.CheckpointOption = None,
    checkpoint_every: opt.CheckpointEvery = 30.0,
    layout: opt.LayoutOption = None,
    picks: opt.Picks = None,
    n_features: opt.NFeatures = None,
    force: opt.Force = False,
    as_json: opt.Json = False,
    verbose: opt.Verbose = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Find the independent components of INPUT, one file or several runs, and write the model."""
    _call("fit", locals())


@app.command(cls=Command, epilog=_example("majorica transform model.npz recording.fif -o sources.npy"))
def transform(
    model: opt.Model,
    inputs: opt.Inputs,
    output: opt.SourcesOutput = "sources.npy",
    layout: opt.LayoutOption = None,
    picks: opt.Picks = None,
    n_features: opt.NFeatures = None,
    force: opt.Force = False,
    as_json: opt.Json = False,
    verbose: opt.Verbose = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Write the sources of INPUT, block by block, as an array (samples, components)."""
    _call("transform", locals())


@app.command(cls=Command, epilog=_example("majorica report model.npz recording.fif -o report.html"))
def report(
    model: opt.Model,
    inputs: opt.Inputs,
    output: opt.ReportOutput = "report.html",
    title: opt.Title = None,
    sfreq: opt.Sfreq = None,
    image_shape: opt.ImageShape = None,
    layout: opt.LayoutOption = None,
    picks: opt.Picks = None,
    n_features: opt.NFeatures = None,
    force: opt.Force = False,
    as_json: opt.Json = False,
    verbose: opt.Verbose = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Write a page on a model and its data: one HTML file that needs nothing else."""
    _call("report", locals())


@app.command(cls=Command, epilog=_example("majorica info model.npz", "majorica info model.npz --json"))
def info(model: opt.Model, as_json: opt.Json = False, verbose: opt.Verbose = 0) -> None:
    """Say what is in a model file."""
    _call("info", locals())


@app.command(cls=Command, epilog=_example("majorica demo", "majorica demo --folder /tmp"))
def demo(
    folder: opt.Folder = ".",
    jobs: opt.Jobs = None,
    force: opt.Force = False,
    as_json: opt.Json = False,
    verbose: opt.Verbose = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Learn edge detectors from two photographs, in seconds; writes a picture and a report."""
    _call("demo", locals())


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program; always ends in ``SystemExit`` with one of the documented codes."""
    open_missing_streams()
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    code = _run(arguments)
    if code == CLOSED_PIPE:
        # Whoever read our output has gone: there is nobody to tell, not even when the interpreter flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(code)


def _run(arguments: list[str]) -> int:
    try:
        result: Any = app(arguments, prog_name="majorica", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except Stop as stop:
        return stop.code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else USAGE
    except Exception as error:
        return explain(error, traceback=any(word in {"-vv", "-vvv"} for word in arguments))
