"""Reports and plots of fitted models.

:class:`Report` writes one page with everything; the plots of
:mod:`majorica.report.plots` need the extra ``majorica[plot]``.
"""

from __future__ import annotations

from majorica.report.html import Report

__all__ = ["Report"]
