"""Contenders that take turns, A B C A B C ..., so that a machine that changes its speed changes it for all of them.

Standard library only.
"""
import statistics

from measure import Failed, say


class Contender:
    """One line of a table: `measure()` gives images per second and peak MiB; `alone` names the line on one device."""
    def __init__(self, name, measure, alone=None):
        self.name, self.measure, self.alone = name, measure, alone
        self.figures, self.peak = [], 0


def measure_field(field, rounds, what, left_out, unit="img/s"):
    """All rounds of a field, Lockstep first; those that could not be measured in every round are taken out of it and named in
    `left_out`, and Lockstep's failure ends it all."""
    for n in range(rounds):
        for c in list(field):
            try:
                figure, peak = c.measure()
            except Failed as e:
                if c.name.startswith("lockstep"):
                    raise
                say(f"{what}: {c.name} is left out: {e}")
                left_out.append(f"{what}: {c.name}: {e}")
                field.remove(c)
                continue
            c.figures.append(figure)
            c.peak = max(c.peak, peak)
            say(f"{what} round {n + 1}/{rounds}: {c.name:44s} {figure:10.1f} {unit}")
    return field


def ratio(xs, ys):
    """The median of the rounds' ratios, the smallest and the largest."""
    ratios = [x / y for x, y in zip(xs, ys)]
    return [round(r, 3) for r in (statistics.median(ratios), min(ratios), max(ratios))]


def times(ours, theirs):
    """How many times as fast ours are in each round, of the fastest of theirs."""
    return [x / max(ys) for x, ys in zip(ours, zip(*theirs))]
