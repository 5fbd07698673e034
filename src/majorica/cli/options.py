"""Arguments and options, each described once."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Annotated

import typer


class Solver(StrEnum):
    """Names of the solvers."""

    auto = "auto"
    progressive = "progressive"
    incremental = "incremental"
    incremental_codes = "incremental-codes"
    online = "online"
    batch = "batch"


class DensityName(StrEnum):
    """Names of the densities."""

    adaptive = "adaptive"
    huber = "huber"
    logcosh = "logcosh"
    student = "student"


class Whiten(StrEnum):
    """Scales of the components."""

    unit_variance = "unit-variance"
    arbitrary_variance = "arbitrary-variance"


class Layout(StrEnum):
    """Which axis of an array file is which."""

    samples_first = "samples-first"
    channels_first = "channels-first"


def _names(kind: type[Enum]) -> str:
    """The values of `kind` as a list in words."""
    *most, last = (str(member.value) for member in kind)
    return f"{', '.join(most)} or {last}"


_DATA, _RUN, _OUT = "Data", "Running", "Output"

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="Data: .npy .npz .h5 .zarr .parquet .arrow .csv .set .fif .edf .bdf .vhdr ...; several are joined one "
        "after the other; FILE.h5:/NAME picks one of several arrays; - reads raw float32 from a pipe.",
        show_default=False,
    ),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A file written by majorica fit.", show_default=False)]
ModelOutput = Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="Where the model goes.")]
SourcesOutput = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Where the sources go; - is the standard output, raw float32 if INPUT is - too.",
    ),
]
ReportOutput = Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="Where the page goes.")]
Folder = Annotated[str, typer.Option("--folder", metavar="DIR", help="Where picture and report go.")]

NComponents = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--n-components",
        metavar="N",
        help="How many components, or a share of the variance such as 0.99. (default: rank of the data)",
        show_default=False,
    ),
]
SolverOption = Annotated[Solver, typer.Option("--solver", metavar="NAME", help=f"Algorithm: {_names(Solver)}.")]
DensityOption = Annotated[
    DensityName, typer.Option("--density", metavar="NAME", help=f"Model of the sources: {_names(DensityName)}.")
]
WhitenOption = Annotated[
    Whiten, typer.Option("--whiten", metavar="NAME", help=f"Scale of the components: {_names(Whiten)}.")
]
MaxIter = Annotated[
    int | None,
    typer.Option(
        "--max-iter", min=1, metavar="N", help="No step begins after so many passes over the data.", show_default=False
    ),
]
Tol = Annotated[
    float | None,
    typer.Option(
        "--tol",
        min=0.0,
        metavar="T",
        help="Largest relative gradient to stop at; 0 makes all passes. (default: the statistical floor)",
        show_default=False,
    ),
]
BatchSize = Annotated[int | None, typer.Option("--batch-size", min=1, metavar="N", help="Samples in a mini-batch.")]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed; the same seed gives the same bits.")]

Jobs = Annotated[
    int | None,
    typer.Option(
        "-j",
        "--jobs",
        metavar="N",
        help="Threads; does not change the result. (default: all cores)",
        show_default=False,
        rich_help_panel=_RUN,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="Most memory to take, such as 500MB.",
        show_default=False,
        rich_help_panel=_RUN,
    ),
]
CheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="Keep the fit here, and go on from it if it is there.",
        show_default=False,
        rich_help_panel=_RUN,
    ),
]
CheckpointEvery = Annotated[
    float,
    typer.Option("--checkpoint-every", min=0.0, metavar="S", help="Seconds between checkpoints.", rich_help_panel=_RUN),
]
LayoutOption = Annotated[
    Layout | None,
    typer.Option(
        "--layout",
        metavar="NAME",
        help=f"{_names(Layout)}; needed where an array file has fewer rows than columns.",
        show_default=False,
        rich_help_panel=_DATA,
    ),
]
Picks = Annotated[
    str | None,
    typer.Option(
        "--picks",
        metavar="NAMES",
        help="Channels of a recording or columns of a table, by name, with commas.",
        show_default=False,
        rich_help_panel=_DATA,
    ),
]
NFeatures = Annotated[
    int | None,
    typer.Option(
        "--n-features",
        min=1,
        metavar="N",
        help="Values in a sample of a raw stream; transform takes them from the model.",
        show_default=False,
        rich_help_panel=_DATA,
    ),
]
Title = Annotated[
    str | None, typer.Option("--title", help="Heading of the page. (default: the file's name)", show_default=False)
]
Sfreq = Annotated[
    float | None,
    typer.Option("--sfreq", metavar="HZ", help="Samples a second; recordings know it.", show_default=False),
]
ImageShape = Annotated[
    str | None,
    typer.Option(
        "--image-shape",
        metavar="HxW",
        help="The features are pixels of an image of this size; none to draw no images. (default: found out)",
        show_default=False,
    ),
]

Force = Annotated[bool, typer.Option("-f", "--force", help="Replace the output if it exists.", rich_help_panel=_OUT)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=_OUT)]
Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        metavar="",
        help="Say more; twice shows where an error came from.",
        show_default=False,
        rich_help_panel=_OUT,
    ),
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Say nothing but errors.", show_default=False, rich_help_panel=_OUT)
]
