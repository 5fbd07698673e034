"""How the documentation site is built: ``make docs``. Nothing is fetched while building or reading it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import majorica

project = "Majorica"
author = "The Majorica developers"
copyright = author
release = majorica.__version__
html_title = f"Majorica {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["data"]
myst_enable_extensions = ["dollarmath", "attrs_block"]
myst_heading_anchors = 3
napoleon_google_docstring = False
napoleon_use_ivar = True
autodoc_typehints = "none"
strip_signature_backslash = True  # fitted attributes keep the underscore they end in
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}

html_theme = "furo"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0f766e", "color-brand-content": "#0f766e"},
    "dark_css_variables": {"color-brand-primary": "#5eead4", "color-brand-content": "#5eead4"},
}
html_show_sourcelink = False
html_copy_source = False


def _inline(translator: Any, node: Any) -> None:
    translator.body.append(convert(node.astext(), display="inline"))
    raise _skip()


def _display(translator: Any, node: Any) -> None:
    translator.body.append(f'<div class="math">{convert(node.astext().strip(), display="block")}</div>\n')
    raise _skip()


def _skip() -> Exception:
    from docutils.nodes import SkipNode

    return SkipNode()


def setup(app: Any) -> None:
    """Formulas become MathML while the site is built, so that pages need no script to show them."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_display, None))
    app.config.html_math_renderer = "mathml"
    app.add_css_file("site.css")


html_static_path = ["static"]
