"""The report: one HTML page that shows results folders side by side and needs no internet.

`contents` turns results in memory into plain data, `charts` says how they are drawn (Vega-Lite), `document` puts both
into one page with the plotting library. `mohamjax.reports` reads the results folders and writes the page.
"""

from mohamjax.page.data import Result, contents
from mohamjax.page.document import page

__all__ = ["Result", "contents", "page"]
