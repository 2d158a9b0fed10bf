"""The report: one HTML page that shows results folders side by side and needs no network.

`contents` makes plain data of results in memory, `charts` says how they are drawn (Vega-Lite), `document` puts both
into one page with the plotting library. Knows no files: `mohamjax.reports` reads the folders and writes the page.
"""

from mohamjax.page.data import Result, contents
from mohamjax.page.document import page

__all__ = ["Result", "contents", "page"]
