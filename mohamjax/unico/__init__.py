"""UNICO: hardware search with surrogates, rationed mapping search and robustness.

The numbers of it, which know no accelerator: `halving` (whose mapping search goes on), `robustness` (R of the samples
of a search), `fidelity` (which rows train the surrogate), `gp` (the surrogate), `acquisition` (what to measure next)
and `protocol` (how methods are compared).

And what knows accelerators: `space` (hardware as data), `problem` (networks and hardware), `lanes` (resumable mapping
searches), `bracket` (many of them and halving), `proposals` (which hardware next), `history` and `search` (the loop),
`results` (files), `choices` (spaces and settings by name).
"""
