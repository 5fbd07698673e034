"""Reports and plots of fitted models.

:class:`Report` writes one page with everything. The plots need the extra
``majorica[plot]``; Matplotlib is imported when one is drawn.
"""

from __future__ import annotations

from majorica.report.html import Report
from majorica.report.plots import (
    plot_convergence,
    plot_densities,
    plot_filters,
    plot_mixing,
    plot_psd,
    plot_sources,
    plot_topographies,
)

__all__ = [
    "Report",
    "plot_convergence",
    "plot_densities",
    "plot_filters",
    "plot_mixing",
    "plot_psd",
    "plot_sources",
    "plot_topographies",
]
