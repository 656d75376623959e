"""Leap tables, two-phase commit and Citus over the same kind of nodes: workloads/leap.toml."""
