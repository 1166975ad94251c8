"""Settings of the documentation site: `make docs` builds it into docs/_build/html."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import trustax

project = "Trustax"
author = "the authors of Trustax"
version = release = trustax.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "equations",
    "method_page",
]
exclude_patterns = ["_build", "_ext"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

# Tutorials run when the site is built, in a temporary folder; `-D nb_execution_mode=off` leaves them out.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

# Each kernel would print a warning about its connection, so kernels only print errors.
kernel_settings = TemporaryDirectory()
profile = Path(kernel_settings.name) / "profile_default"
profile.mkdir()
(profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")
os.environ["IPYTHONDIR"] = kernel_settings.name

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

# A page needs no network: furo uses the fonts of the system, and equations are drawings.
html_theme = "furo"
html_title = f"Trustax {version}"
html_static_path = ["_static"]
html_css_files = ["trustax.css"]
html_math_renderer = "svg"
html_copy_source = False
html_show_sphinx = html_show_copyright = False
highlight_language = "none"  # a block without a language is a session in a terminal
pygments_style = "friendly"
pygments_dark_style = "github-dark"
