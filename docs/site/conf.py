"""Settings of the site: Sphinx with the theme furo, pages in Markdown, and the API out of docstrings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from docstrings import converted

import actorflow

project = "actorflow"
author = "the authors of actorflow"
version = release = actorflow.__version__
html_title = f"actorflow {version}"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_show_copyright = False
html_copy_source = False

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = False
highlight_language = "text"
pygments_dark_style = "monokai"


def read(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Makes RST of a docstring, in place."""
    lines[:] = converted(lines)


def setup(app: Any) -> None:
    """Joins in where docstrings are read."""
    app.connect("autodoc-process-docstring", read)
