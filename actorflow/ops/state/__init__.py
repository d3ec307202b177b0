"""Handles of state that steps share: variables, queues, stacks, tables, barriers and accumulators."""
