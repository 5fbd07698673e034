"""How much memory a fit will take, worked out before any of it is taken."""

from __future__ import annotations

import numbers
import re
from dataclasses import dataclass, field

from majorica.engines.threads import FAR_AHEAD
from majorica.errors import MemoryLimitError, ParameterError
from majorica.fitting import Options, start_samples
from majorica.problem import SMALL, pass_block_length
from majorica.solvers.incremental.touching import group_size
from majorica.solvers.progressive.gains import LOOK_NUMBERS, LOOK_SAMPLES, ROTATION_NUMBERS, ROTATION_SAMPLES
from majorica.solvers.progressive.levels import most_kept, smallest_level
from majorica.solvers.progressive.quasinewton import Memory
from majorica.sources.base import Source, Stream

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
#: A range of samples in a list of blocks: two numbers, two tuples and their places.
_RANGE = 240


def parse_bytes(memory_limit: int | str | None) -> int | None:
    """Bytes of a limit such as ``500_000_000``, ``"500MB"`` or ``"1.5 GiB"``; None for none."""
    if memory_limit is None:
        return None
    if isinstance(memory_limit, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", memory_limit)
        if match and match[2].upper() in _UNITS:
            return int(float(match[1]) * _UNITS[match[2].upper()])
    elif isinstance(memory_limit, int) and not isinstance(memory_limit, bool) and memory_limit > 0:
        return memory_limit
    raise ParameterError(
        f"memory_limit={memory_limit!r} must be a positive number of bytes, or text such as '500MB' or '1GiB'"
    )


@dataclass(frozen=True)
class Plan:
    """What a fit takes at its peak over the data's own memory, in bytes, part by part."""

    parts: dict[str, int] = field(default_factory=dict)
    limit: int | None = None
    n_jobs: int = 1  #: threads that fit the limit
    touch_on_disk: bool = False  #: the incremental solver's memory goes to a file

    @property
    def total(self) -> int:
        """Peak, in bytes."""
        return sum(self.parts.values())

    @property
    def spare(self) -> int | None:
        """What the limit leaves for caches; None without a limit."""
        return None if self.limit is None else max(0, self.limit - self.total)

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {show_bytes(size)}" for name, size in self.parts.items())
        where = "; memory of the incremental solver on disk" if self.touch_on_disk else ""
        limit = "" if self.limit is None else f" of {show_bytes(self.limit)} allowed"
        return f"plan: {show_bytes(self.total)}{limit} on {self.n_jobs} thread(s) ({listed}){where}"


def show_bytes(size: float) -> str:
    """A size for people, rounded up so that it is enough."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{-(-size * 100 // scale) / 100:g}{unit}"
    return f"{size:.0f}B"


def make_plan(source: Source | Stream, options: Options, *, n_jobs: int, memory_limit: int | str | None = None) -> Plan:
    """The plan for a fit; MemoryLimitError says what would fit if `memory_limit` does not.

    Block lengths are never changed (the order of sums, and with it the last
    bit, depends on them): what gives way is the number of threads, then where
    the incremental solver keeps its memory.
    """
    limit = parse_bytes(memory_limit)
    plan = Plan(_parts(source, options, n_jobs, on_disk=False), limit, n_jobs)
    if limit is None:
        return plan
    for on_disk in (False, True):
        for jobs in range(n_jobs, 0, -1):
            plan = Plan(_parts(source, options, jobs, on_disk=on_disk), limit, jobs, on_disk)
            if plan.total <= limit:
                return plan
        if not _has_touch(source, options):
            break
    largest = max(plan.parts, key=lambda name: plan.parts[name])
    smaller = _components_that_fit(source, options, limit)
    advice = f", or pass n_components<={smaller}" if smaller else ""
    other = " or solver='progressive'" if options.solver in ("incremental", "batch") else ""
    raise MemoryLimitError(
        f"memory_limit={memory_limit!r}: this fit takes at least {show_bytes(plan.total)} "
        f"(most of it {largest}, {show_bytes(plan.parts[largest])}); "
        f"pass memory_limit='{show_bytes(plan.total)}' or more{advice}{other}"
    )


def _components_that_fit(source: Source | Stream, options: Options, limit: int) -> int:
    """Most components that fit the limit on one thread, 0 for none."""
    from dataclasses import replace

    low, high = 0, source.n_features - 1
    while low < high:
        k = (low + high + 1) // 2
        parts = _parts(source, replace(options, n_components=k), 1, on_disk=True)
        low, high = (k, high) if sum(parts.values()) <= limit else (low, k - 1)
    return low


def _has_touch(source: Source | Stream, options: Options) -> bool:
    k = _components(source, options)
    return options.solver == "incremental" and options.n_updates is not None and options.n_updates < k


def _components(source: Source | Stream, options: Options) -> int:
    """The number of components, or the most there can be before the data is seen."""
    wanted = options.n_components
    k = source.n_features if source.n_samples is None else min(source.n_features, source.n_samples)
    return min(int(wanted), k) if isinstance(wanted, numbers.Real) and wanted >= 1 else k


def _parts(source: Source | Stream, options: Options, n_jobs: int, *, on_disk: bool) -> dict[str, int]:
    f, k, item = source.n_features, _components(source, options), source.dtype.itemsize
    length = pass_block_length(f)
    online, progressive = options.solver == "online", options.solver == "progressive"
    start = start_samples(f, options.n_components)  # what a stream keeps of its beginning
    n = start if source.n_samples is None else source.n_samples
    rows = min(start if online else n, length)
    in_memory = getattr(source, "in_memory", False)
    flight = 1 if n_jobs == 1 and getattr(source, "in_memory", True) else 2 * n_jobs
    waiting = FAR_AHEAD * n_jobs if in_memory and n_jobs > 1 and k <= SMALL else flight
    # Blocks of a random subset are copies wherever the samples are, and may be nearly twice as long as others.
    longest = min(n, 2 * length) if progressive else rows
    samples = (n_jobs if in_memory else flight + 3) * longest * f * item
    # A block in flight has sources, scores and one temporary besides its samples.
    parts = {
        "blocks": samples + max(flight * rows, n_jobs * longest) * k * 8 * 4,
        "covariance and whitening": 6 * f * f * 8 if f <= n else 3 * n * f * 8 + 3 * n * n * 8,
        "steps": (waiting + 30) * k * k * 8 + 2 * Memory.of_size(k).steps.nbytes,
    }
    if f > n:  # what comes of the fit is larger than what it took
        parts["components"] = 2 * k * f * 8
    if not online:
        parts["random subsets"] = _subsets(source, options, n, k, length)
    if online:
        # As they came, in one piece, whitened and unmixed; with some drawn in, a copy and the others besides.
        parts["first samples of the stream"] = 5 * min(n, start) * f * 8
        # Whitened, less their mean, and unmixed; each thread has them in panels, and one component's squares.
        own = options.batch_size * (k + 48) * 8 + (k + 48) ** 2 * 8
        parts["mini-batch"] = options.batch_size * (f + 3 * k) * 8 + n_jobs * own
    if options.solver in ("batch", "incremental", "online"):
        packed = flight * k * k * (k + 1) * 4
        if options.solver == "incremental":  # only where shapes are refitted, some components at a time
            packed = flight * min(group_size(k), k) * k * (k + 1) * 4 if options.adaptive else 0
        parts["moments (n_components cubed)"] = 2 * k**3 * 8 + packed
    if options.solver == "incremental":
        touch = _has_touch(source, options)
        entry = 1 if options.memory == "codes" else 4
        size = n * k * entry if touch else -(-n // options.batch_size) * k * k * 8
        if not (touch and on_disk):
            parts["memory of the incremental solver"] = size
        # Samples, whitened samples and pairs are shared; a thread has copies of what it picks, the samples of a part
        # (at most 512), and tiles.
        own = min(options.batch_size, 512) * (f + 4 * k + 16) * 8 + 2 * (k + 16) ** 2 * 8 + 2**17
        parts["mini-batch"] = options.batch_size * (f * item + (3 + 4 * n_jobs) * k * 8) + n_jobs * own
    return parts


def _subsets(source: Source | Stream, options: Options, n: int, k: int, length: int) -> int:
    """What random subsets take: the samples of one are kept where they are few, and their sources where they rotate.

    Solvers other than the progressive one start from its first subset if densities are adaptive.
    """
    unit, first = smallest_level(n, k)
    lists = _RANGE * (-(-n // length))
    bytes_ = n * source.n_features * source.dtype.itemsize
    if options.solver == "progressive":
        lists += _RANGE * (-(-n // unit))
        kept, rotated = most_kept(bytes_), min(n, ROTATION_SAMPLES)
    elif options.adaptive:
        first = min(n, first + unit)
        kept, rotated = min(most_kept(bytes_), bytes_ * first // n), min(first, ROTATION_SAMPLES)
    else:
        return lists
    # Sources, at most float64, what a product copies of the samples, squares a stretch at a time, a few on their own.
    rotated = min(rotated, ROTATION_NUMBERS // k)
    looked = min(n * k, max(LOOK_NUMBERS, LOOK_SAMPLES * k)) * 8  # sources of some samples, to see how pairs curve
    return lists + kept + max(rotated * (3 * k + 16) * 8 if options.adaptive else 0, looked)
