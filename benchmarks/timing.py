"""Time functions in turns, so that other load on the machine affects all of them alike."""

import time

import numpy as np

MIN_SECONDS = 0.05


def in_turns(sides, repeats):
    """Seconds of each side in each turn, one tuple per side, after a turn that does not count.

    sides: functions without arguments that return the seconds they measured. Every other turn goes
    through them backwards.
    """
    for side in sides:
        side()
    order, seconds = range(len(sides)), [[] for _ in sides]
    for _ in range(repeats):
        for i in order:
            seconds[i].append(sides[i]())
        order = order[::-1]
    return [tuple(s) for s in seconds]


def timed(function):
    """Return a function that measures the seconds of a call, repeated for MIN_SECONDS or longer."""

    def measure():
        calls, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < MIN_SECONDS or not calls:
            function()
            calls += 1
        return elapsed / calls

    return measure


def compared(sides, repeats, who="a loop"):
    """Seconds `in_turns` of functions that count, once their counts have been found equal."""
    first, *others = [side() for side in sides]
    for other in others:
        np.testing.assert_array_equal(other, first, f"{who} does not count the same")
    return in_turns([timed(side) for side in sides], repeats)
