"""Names of ours in the text: found where they are public, and a warning where there is nothing of that name.

Signatures name things by the file that they are defined in (``scorewise.priors.base.ThresholdPrior``), and docstrings
often by their last part alone. What is documented under a public name is linked by either. What stands on a page and
begins with ``scorewise.`` is a mistake if there is no such thing, or if it is not documented.
"""

from __future__ import annotations

from pkgutil import resolve_name

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

_LOG = logging.getLogger(__name__)


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> nodes.Node | None:
    """What a name means, if it means one thing."""
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"]).removeprefix("~")
    ours = target.startswith("scorewise.")
    if ours and not _exists(target):
        if (node.source or "").endswith(".md"):  # elsewhere it is a signature's, and private
            _LOG.warning("there is no %s", target, location=node)
        return None
    objects = env.domains.python_domain.objects
    last = target.rpartition(".")[2]
    found = sorted({name for name in objects if name == target or name.rpartition(".")[2] == last}, key=len)
    if ours or "." not in target:
        named = [name for name in found if objects[name].objtype != "attribute"] or found
        if named and (len(named) == 1 or ours):
            entry = objects[named[0]]
            return make_refnode(app.builder, str(node["refdoc"]), entry.docname, entry.node_id, content, named[0])
    if ours and (node.source or "").endswith(".md"):
        _LOG.warning("%s is not in the reference", target, location=node)
    return None


def _exists(name: str) -> bool:
    try:
        resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def inherited(app: Sphinx, kind: str, name: str, *_: object) -> bool | None:
    """Leave out what scikit-learn puts into every class that routes metadata, in its words and with its links."""
    return True if kind == "class" and name.startswith("set_") and name.endswith("_request") else None


_KEPT: dict[str, list[str]] = {}


def keep(app: Sphinx, kind: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Remember what is said of a property or a constant: napoleon takes what stands before a colon for its type."""
    if kind in ("attribute", "data", "property"):
        _KEPT[name] = list(lines)


def restore(app: Sphinx, kind: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Say it as it was."""
    if name in _KEPT and kind in ("attribute", "data", "property"):
        lines[:] = _KEPT[name]


def setup(app: Sphinx) -> dict[str, bool]:
    """Ask us of names that are not found, and of what to leave out."""
    app.connect("missing-reference", resolve)
    app.connect("autodoc-skip-member", inherited)
    app.connect("autodoc-process-docstring", keep, priority=400)  # napoleon's is 500
    app.connect("autodoc-process-docstring", restore, priority=600)
    return {"parallel_read_safe": True}
