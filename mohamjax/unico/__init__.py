"""UNICO: hardware search with surrogates, early-stopped mapping searches and robustness.

Numerical modules, independent of accelerators: `halving` (which mapping searches go on), `robustness` (R from the
samples of a search), `fidelity` (which rows train the surrogate), `gp` (the surrogate), `acquisition` (what to measure
next) and `axes` (common axes, on which fronts are measured).

Modules about accelerators: `space` (hardware as data), `problem` (networks and hardware), `lanes` (resumable mapping
searches), `bracket` (successive halving over lanes), `proposals` (which hardware next), `history` (what was measured),
`search` (the loop), `results` (designs and table rows), `choices` (spaces and settings by name), `config` (settings).
"""
