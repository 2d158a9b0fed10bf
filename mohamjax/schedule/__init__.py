"""Schedules: jobs under shared bandwidth, and the evaluation of a design."""
