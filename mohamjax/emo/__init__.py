"""Evolutionary multi-objective core; knows nothing of accelerators."""
