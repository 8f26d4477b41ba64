# SPDX-License-Identifier: Apache-2.0
"""One measurement in a process of its own: run.py starts it with a job, and
reads the result from the last line that it prints."""

import json
import os
import statistics
import sys
import time
from pathlib import Path

import suite
from engines import make_engine

# Thousands of steps on one batch would drive gradients to zero and moments
# into denormal numbers, which are slow. This rate changes nothing.
STANDING_RATE = 1e-9
WARM_UP = 2
FEWEST_STEPS = 5


def resident_mib(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"the system does not tell {key}")


def timed(step, seconds):
    """The milliseconds of steps for as long as that, or of a few."""
    times, begin = [], time.perf_counter()
    while len(times) < FEWEST_STEPS or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def measure(folder, model, engine, threads, seconds):
    case = suite.CASES[model]
    batch = suite.batch_of(case)
    runner = make_engine(engine, threads)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    empty = resident_mib("VmRSS")

    start = time.perf_counter()
    runner.load(Path(folder) / model, case, batch)
    losses = [runner.step()]
    first_step_s = time.perf_counter() - start
    losses.append(runner.step())
    runner.set_rate(STANDING_RATE)
    for _ in range(WARM_UP):
        runner.step()
    times = timed(runner.step, seconds)
    return {
        "losses": losses,
        "median_ms": statistics.median(times),
        "mean_ms": statistics.mean(times),
        "best_ms": min(times),
        "steps": len(times),
        "first_step_s": first_step_s,
        "peak_mib": resident_mib("VmHWM") - empty,
        "version": runner.version,
    }


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    os.sched_setaffinity(0, job.pop("cores"))
    print(json.dumps(measure(**job)))
