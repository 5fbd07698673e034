"""Import direction: lower layers never import upper ones, and ``import majorica`` costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import majorica

ROOT = Path(majorica.__file__).parent
#: Bottom to top; a module may import from its own layer and from those below.
LAYERS = [
    ["errors"],
    ["densities"],
    ["statistics"],
    ["kernels"],
    ["sources"],
    ["engines"],
    ["drifts", "quantised"],
    ["whitening"],
    ["problem"],
    ["surrogate"],
    ["solvers"],
    ["fitting", "streaming"],
    ["parameters"],
    ["estimator"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imports_of(path: Path) -> set[str]:
    """Top-level parts of majorica that a module imports, lazily or not; not those for type checkers only."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == "majorica":
                names = [f"majorica.{alias.name}" for alias in node.names]
        found.update(name.split(".")[1] for name in names if name.startswith("majorica."))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_lower_layers_never_import_upper_ones(path: Path) -> None:
    layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if layer not in RANK:  # beside the tower: must not be needed by its lower floors, checked below
        return
    above = {name for name in imports_of(path) if RANK.get(name, -1) > RANK[layer]}
    assert not above, f"{layer} imports {sorted(above)}, which lie above it"


def test_the_numerical_core_imports_nothing_beside_the_tower() -> None:
    """Reports, interop, files and commands are built on the core, never the other way round."""
    core = [name for name in RANK if RANK[name] <= RANK["solvers"]]
    for path in modules():
        layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if layer in core:
            strangers = imports_of(path) - set(RANK)
            assert not strangers, f"{path.relative_to(ROOT)} imports {sorted(strangers)}"


def test_the_walk_sees_imports(tmp_path: Path) -> None:
    source = "import majorica.cli\ndef f():\n    from majorica.solvers import base\n    from majorica import metrics\n"
    (tmp_path / "m.py").write_text(source)
    assert imports_of(tmp_path / "m.py") == {"cli", "solvers", "metrics"}


def test_importing_the_package_loads_no_heavy_library() -> None:
    heavy = ("numba", "sklearn", "dask", "mne", "matplotlib", "scipy", "pandas", "distributed")
    code = f"import majorica, sys; print([m for m in {heavy} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_public_names_resolve_and_unknown_ones_do_not() -> None:
    for name in majorica.__all__:
        if name != "Report":  # needs the report extra's own tests
            assert getattr(majorica, name) is not None
    assert set(majorica.__all__) <= set(dir(majorica))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = majorica.nothing


def test_no_file_is_too_long_to_read() -> None:
    long = {str(path.relative_to(ROOT)): n for path in modules() if (n := len(path.read_text().splitlines())) > 420}
    assert not long
