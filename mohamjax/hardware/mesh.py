"""Links of the package's mesh: the route between a chiplet and its memory interface, and which links can bind.

A router stands at every place (x, y) of the mesh, under a chiplet or not; a link joins two neighbours and carries both
directions together, as an interface does. The router at the end of an interface's row joins the interface to the mesh.
Data take the XY route from the interface: along its row to the column of the chiplet, then along that column. Writes
take the same links back.

Every chiplet uses its nearest interface, so that no link serves two interfaces: the routes of an interface are a tree
whose root is the interface's router. All links have the same bandwidth, and a link carries all chiplets of the links
further out, so that the first link of a route, its *trunk*, limits it most. A trunk with a single chiplet limits it no
more than the chiplet's own link. The trunks of two or more chiplets are therefore all that the mesh adds to the
resources of a schedule.
"""

from __future__ import annotations

import numpy as np

Link = tuple[tuple[int, int], tuple[int, int]]
"""Two neighbouring routers, the one nearer to the interface first."""


def _root(interface: tuple[int, int], columns: int) -> tuple[int, int]:
    """The router that joins an interface to the mesh: the last one of its row on its side."""
    return min(max(interface[0], 0), columns - 1), interface[1]


def route(chiplet: tuple[int, int], interface: tuple[int, int], columns: int) -> list[Link]:
    """Links between routers from an interface to a chiplet.

    Args:
        chiplet: (x, y) of the chiplet.
        interface: (x, y) of the interface, x = -1 or `columns`.
        columns: columns of the mesh.

    Returns:
        The hops - 1 links in order, the trunk first; empty if the chiplet stands at the interface's router.

    Examples:
        >>> route((1, 1), (-1, 0), 2)
        [((0, 0), (1, 0)), ((1, 0), (1, 1))]
    """
    x, y = _root(interface, columns)
    links: list[Link] = []
    while (x, y) != chiplet:
        step = (chiplet[0] > x) - (chiplet[0] < x)
        after = x + step, y if step else y + (1 if chiplet[1] > y else -1)
        links.append(((x, y), after))
        x, y = after
    return links


def trunks(chiplets: np.ndarray, interfaces: np.ndarray, nearest: np.ndarray, columns: int) -> np.ndarray:
    """Trunks that two or more chiplets share.

    Args:
        chiplets: `[n, 2]` int, (x, y) of every chiplet.
        interfaces: `[I, 2]` int, (x, y) of every interface.
        nearest: `[n]` int, interface of every chiplet.
        columns: columns of the mesh.

    Returns:
        `[n, K]` bool, whether a chiplet's traffic passes each of the K trunks; at most one per row is True.
    """
    roots = np.array([_root((int(x), int(y)), columns) for x, y in interfaces])
    dx, dy = (chiplets - roots[nearest]).T
    leaving = np.where(dx != 0, 0, np.where(dy > 0, 1, 2))  # along the row, or the column down or up
    trunk = np.where((dx == 0) & (dy == 0), -1, nearest * 3 + leaving)
    named, chiplets_on = np.unique(trunk[trunk >= 0], return_counts=True)
    return trunk[:, None] == named[chiplets_on > 1]
