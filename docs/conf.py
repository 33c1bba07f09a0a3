"""How the documentation is built: `make pages`, or `make docs` to look at it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import scorewise

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "scorewise"
author = "The scorewise contributors"
project_copyright = author
version = release = scorewise.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "facts",
    "names",
]
exclude_patterns = ["_build", "gallery", "auto_gallery/*.ipynb", "auto_gallery/*.py"]
root_doc = "index"
default_role = "py:obj"
nitpicky = False  # types of other libraries cannot be linked without a network; `names` warns of our own

# ----------------------------------------------------------------------------------------------------- pages

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # gallery options hold functions

html_theme = "furo"
html_title = "scorewise"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}

# One file beside the pages, with all of TeX's extensions and fonts as paths: formulas need no network.
mathjax_path = "mathjax/tex-svg-full.js"

# ------------------------------------------------------------------------------------------------- reference

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# --------------------------------------------------------------------------------------------------- gallery

os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # networks are small: a second thread would wait more than work

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "facts.in_order",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # that page would load scripts from elsewhere
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "capture_repr": (),
}
