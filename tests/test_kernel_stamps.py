import runpy
from pathlib import Path


def test_kernel_digests_are_current():
    tool = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "stamp_kernels.py"), run_name="tool")
    assert tool["stale"]() == [], "run python tools/stamp_kernels.py"
