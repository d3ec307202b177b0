"""How state machines of hypothesis are run: so many histories, and always the same ones where a fault is planted."""

from __future__ import annotations

from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_machine(
    machine: type[RuleBasedStateMachine], n: int, phases: tuple[Phase, ...] = tuple(Phase), *, steps: int = 40
) -> None:
    """Draws `n` histories of at most so many steps; of one phase, which is for planted faults, the same every time."""
    chosen = settings(
        max_examples=n,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=phases,
        report_multiple_bugs=False,
        derandomize=len(phases) == 1,
    )
    run_state_machine_as_test(machine, settings=chosen)
