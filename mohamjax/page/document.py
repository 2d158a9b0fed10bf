"""One HTML page out of what a report says: data, charts, plotting library and script inside, nothing from elsewhere.

The data are compressed and in base64, so that no text of a file can end a tag; the page writes them as text alone. A
content security policy lets the page run its own two scripts, known by their hashes, and fetch nothing.
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
    """Vega, Vega-Lite and Vega-Embed as one script, which gives the page `vegaEmbed`.

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
    if re.search(r"</script|<!--", script, re.IGNORECASE):  # would end the tag that it stands in, or open a comment
        raise RuntimeError("the plotting library cannot stand in a page as it is")
    return script


def page(contents: Contents, title: str) -> str:
    """The report.

    Args:
        contents: from `contents`.
        title: of the page.

    Returns:
        HTML; equal contents give equal pages.

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
    for piece in _asset("page.html").split("{{"):  # in one pass: what is filled in is not looked at again
        name, closed, rest = piece.partition("}}")
        out.append(filled[name] + rest if closed else piece)
    return "".join(out)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _asset(name: str) -> str:
    return (importlib.resources.files("mohamjax.page") / name).read_text(encoding="utf-8")
