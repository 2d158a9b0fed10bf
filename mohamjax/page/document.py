"""Assembles a report as one HTML page that holds its data, charts, plotting library and script.

The data are compressed and base64-encoded, so that no text from a file can close a tag; the page writes them as text
only. A content security policy lets the page run its own two scripts, known by their hashes, and fetch nothing.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import html
import importlib.resources
import json
import re

from mohamjax.errors import InputError
from mohamjax.page.charts import charts
from mohamjax.page.data import Contents

_SNIPPET = "window.vegaEmbed = vegaEmbed;"

_SCRIPTS = ("roofline.js", "page.js")


@functools.cache
def plotting_library() -> str:
    """Returns Vega, Vega-Lite and Vega-Embed as one script, which defines `vegaEmbed` in the page.

    Raises:
        InputError: the package that holds them is not installed.
    """
    try:
        import vl_convert
    except ImportError:
        raise InputError(
            "the plotting library of reports is missing (vl-convert-python)",
            item="report",
            remedy='install it: pip install "mohamjax[report]"',
        ) from None
    script = vl_convert.javascript_bundle(snippet=_SNIPPET)
    if re.search(r"</script|<!--", script, re.IGNORECASE):  # would close its tag or open a comment
        raise RuntimeError("the plotting library cannot stand in a page as it is")
    return script


def page(contents: Contents, title: str) -> str:
    """Returns the report as one HTML page.

    Args:
        contents: data from `contents`.
        title: title of the page.

    Returns:
        The HTML; equal contents give equal pages.

    Raises:
        InputError: the plotting library is not installed.
    """
    scripts = plotting_library(), "\n".join(map(_asset, _SCRIPTS))
    hashes = " ".join(f"'sha256-{_base64(hashlib.sha256(script.encode()).digest())}'" for script in scripts)
    data = {"charts": charts(contents["objectives"]), **contents}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    filled = {
        "title": html.escape(title),
        "policy": f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:",
        "style": _asset("page.css"),
        "library": scripts[0],
        "script": scripts[1],
        "data": _base64(gzip.compress(text.encode(), compresslevel=6, mtime=0)),
    }
    out = []
    for piece in _asset("page.html").split("{{"):  # in one pass: inserted texts are not searched again
        name, closed, rest = piece.partition("}}")
        out.append(filled[name] + rest if closed else piece)
    return "".join(out)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _asset(name: str) -> str:
    return (importlib.resources.files("mohamjax.page") / name).read_text(encoding="utf-8")
