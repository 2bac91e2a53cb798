"""Timing functions in turns, so that what else the machine does falls on all of them alike."""

import time

import numpy as np

MIN_SECONDS = 0.05


def in_turns(sides, repeats):
    """Seconds of each side in each turn, a tuple a side; one unmeasured turn comes first.

    sides: functions without arguments that return the seconds of what they measured. Every other
    turn goes through them backwards.
    """
    for side in sides:
        side()
    seconds = [[0.0] * repeats for _ in sides]
    for turn in range(repeats):
        for i in range(len(sides))[:: 1 if turn % 2 == 0 else -1]:
            seconds[i][turn] = sides[i]()
    return [tuple(s) for s in seconds]


def timed(function):
    """A function that returns the seconds of a call, repeated until MIN_SECONDS have passed."""

    def measure():
        calls, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < MIN_SECONDS or not calls:
            function()
            calls += 1
        return elapsed / calls

    return measure


def compared(sides, repeats, who="a loop"):
    """Seconds `in_turns` of functions that count, after they gave the same counts."""
    first, *others = (side() for side in sides)
    for other in others:
        np.testing.assert_array_equal(other, first, f"{who} does not count the same")
    return in_turns([timed(side) for side in sides], repeats)
