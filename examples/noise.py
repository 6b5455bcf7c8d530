"""The losses of a run with switches beside those of runs without.

Another layout adds the same numbers in another order, so that its losses differ
in the last bits, and by more with every step. How much that is, runs without
switches say: one in each layout that the run with switches was in, all from
the same weights. The noise is the most by which two of them differ. A switch
that did not change what is trained gives one run more of this kind: it is no
further from one of them than the noise.

A loss has the 24 bits of a float32. What is added in another order may round to
the next one, also where the few runs at hand agree to the last bit: the noise
is at least one unit in the last place.
"""

import itertools
import math


def apart(one, other):
    """The largest difference of the losses of a step."""
    return max(abs(float(a) - float(b)) for a, b in zip(one, other))


def last_place(losses):
    """One unit in the last place of the largest loss, a float32."""
    _, exponent = math.frexp(max(float(loss) for loss in losses))
    return 2.0 ** (exponent - 24)


def compare(losses, runs):
    """Asserts that `losses` fall and are within the noise of `runs`, without
    switches; what was found, in a line."""
    noise = max(apart(*two) for two in itertools.combinations(runs, 2))
    noise = max(noise, *map(last_place, runs))
    off = min(apart(losses, one) for one in runs)
    found = (
        f"losses differ by {off:.2e} from the nearest of {len(runs)} runs "
        f"without switches, one in each layout; the noise is {noise:.2e}"
    )
    assert losses[-1] < losses[0], found
    assert off <= noise, found
    return found
