"""Progress of a fit on stderr: a bar on terminals and in notebooks, a line now and then in log files."""

from __future__ import annotations

import importlib.util
import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from majorica.fitting import Options
    from majorica.solvers import Step

#: Steps from which the speed of convergence is judged.
WINDOW = 12
#: Columns that the words beside a bar take.
WORDS = 60
#: Seconds between two lines where no bar can be drawn.
LINE_EVERY = 10.0


class Forecast:
    """How much of a fit is done, judged from its steps.

    Online: the share of samples seen. Otherwise, once all samples are in
    play, the gradient's decay towards its target; never more than what
    ``max_iter`` leaves.

    Parameters
    ----------
    n_samples : int or None
        Samples of the source, None for a stream.
    max_iter : float
        Passes the fit may take.
    tol : float or None
        Target of the gradient, None for the statistical floor.
    online : bool
        Whether each sample is seen once a pass.
    """

    def __init__(self, *, n_samples: int | None, max_iter: float, tol: float | None, online: bool = False) -> None:
        self.n_samples = n_samples
        self.max_iter = max_iter
        self.online = online
        floor = 0.1 / math.sqrt(n_samples) if n_samples else 0.0
        self.target = floor if tol is None else tol
        self.done = 0.0  #: share done, between 0 and 1, never falling
        self.left: float | None = None  #: seconds left, None while unknown
        self.at_most = False  #: whether `left` is only what ``max_iter`` allows
        self._recent: deque[tuple[float, float]] = deque(maxlen=WINDOW)

    def update(self, step: Step) -> None:
        """Take one step into account."""
        if self.online:
            seen = float(getattr(step.state, "seen", 0))
            share = seen / (self.n_samples * self.max_iter) if self.n_samples else 0.0
            self.left = step.seconds * (1 / share - 1) if share > 0 else None
        else:
            bound = step.seconds * (self.max_iter / step.passes - 1) if step.passes > 0 else math.inf
            expected = self._until_target(step)
            self.at_most = expected > bound
            self.left = min(expected, bound) if math.isfinite(bound) else None
            share = step.seconds / (step.seconds + min(expected, bound) + 1e-9)
        self.done = min(1.0, max(self.done, share))

    def _until_target(self, step: Step) -> float:
        """Seconds until the gradient meets its target if it goes on falling as it did; inf if that cannot be told."""
        if self.n_samples is None or step.n_samples < self.n_samples or not step.gradient > 0:
            self._recent.clear()
            return math.inf
        self._recent.append((step.seconds, math.log(step.gradient)))
        if self.target <= 0 or len(self._recent) < 4:
            return math.inf
        seconds, logs = np.array(self._recent).T
        centred = seconds - seconds.mean()
        slope = float(centred @ logs / max(float(centred @ centred), 1e-300))
        if slope >= 0:
            return math.inf
        return max(0.0, (math.log(self.target) - logs[-1]) / slope)


class Progress:
    """Callback that shows a fit's progress; a context manager, so the bar is closed whatever happens.

    Parameters
    ----------
    forecast : Forecast
    console : rich.console.Console, optional
        Where to draw; stderr by default.
    transient : bool, default=False
        Whether the bar disappears at the end.
    """

    def __init__(self, forecast: Forecast, *, console: Any = None, transient: bool = False) -> None:
        from rich.console import Console

        self.forecast = forecast
        self.console = Console(stderr=True) if console is None else console
        self._bar = make_bar(self.console, transient=transient) if can_draw(self.console) else None
        self._task: Any = None
        self._last: Step | None = None
        self._said = time.perf_counter()

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("reading", total=None, text="", left="")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            if self._last is not None and exc[0] is None:
                self._bar.update(self._task, total=1.0, completed=1.0, description="fitted", left="")
            self._bar.stop()
        elif self._last is not None:
            self._say("done")

    def __call__(self, step: Step) -> None:
        """Show `step`."""
        self._last = step
        self.forecast.update(step)
        if self._bar is not None:
            known = self.forecast.done > 0
            self._bar.update(
                self._task,
                description="fitting",
                total=1.0 if known else None,
                completed=self.forecast.done,
                text=describe(step, online=self.forecast.online),
                left=time_left(self.forecast),
            )
        elif time.perf_counter() - self._said > LINE_EVERY:
            self._said = time.perf_counter()
            self._say(time_left(self.forecast))

    def _say(self, end: str) -> None:
        assert self._last is not None
        parts = (f"{self._last.seconds:.1f} s", describe(self._last, online=self.forecast.online), end)
        self.console.print("fitting: " + ", ".join(filter(None, parts)), highlight=False, soft_wrap=True, markup=False)


def make_bar(console: Any, *, transient: bool) -> Any:
    """A rich progress bar with room for the loss, the passes and the time left.

    On narrow terminals the words come first: the bar shrinks, then goes, then the times.
    """
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    length = min(24, console.width - WORDS - 2)
    bar = [BarColumn(bar_width=length, complete_style="cyan", finished_style="green")] if length >= 8 else []
    left = [TextColumn("{task.fields[left]}", style="dim", markup=False)] if console.width >= WORDS else []
    return RichProgress(
        TextColumn("{task.description}", markup=False),
        *bar,
        *([TimeElapsedColumn()] if left else []),
        TextColumn("{task.fields[text]}", markup=False),
        *left,
        console=console,
        transient=transient,
        redirect_stdout=False,
        refresh_per_second=8,
    )


def can_draw(console: Any) -> bool:
    """Whether a moving bar can be drawn: on a terminal, and in notebooks that have ipywidgets."""
    if console.is_jupyter:
        return importlib.util.find_spec("ipywidgets") is not None
    return bool(console.is_terminal) and not console.is_dumb_terminal


def describe(step: Step, *, online: bool = False) -> str:
    """One step in a few words."""
    if online:
        amount = f"{getattr(step.state, 'seen', step.n_samples):,} samples"
    else:
        amount = f"{step.passes:.1f} passes"
    return f"loss {step.loss:.4f}, {amount}"


def time_left(forecast: Forecast) -> str:
    """The seconds left as a short text, empty if unknown."""
    seconds = forecast.left
    if seconds is None:
        return ""
    about = "at most" if forecast.at_most else "about"
    if seconds < 90:
        return f"{about} {max(1, round(seconds))} s left"
    if seconds < 5400:
        return f"{about} {round(seconds / 60)} min left"
    return f"{about} {seconds / 3600:.1f} h left"


@contextmanager
def showing_progress(options: Options, *, n_samples: int | None, verbose: int) -> Iterator[Options]:
    """`options` with a progress callback added if `verbose`; the bar lives as long as the ``with`` block."""
    if not verbose:
        yield options
        return
    forecast = Forecast(
        n_samples=n_samples, max_iter=options.max_iter, tol=options.tol, online=options.solver == "online"
    )
    with Progress(forecast) as progress:
        yield replace(options, callbacks=(*options.callbacks, progress))
