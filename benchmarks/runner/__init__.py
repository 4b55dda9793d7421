"""Run a scenario: stage rows, ask engines in processes of their own, time, compare answers."""
