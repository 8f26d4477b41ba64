# SPDX-License-Identifier: Apache-2.0
"""What is made of measurements: whether losses agree, ratios, tables.

A measurement is a dictionary from worker.py, or {"error": why not}. `runs`
holds those of one model: runs[engine][setting] is a list, one for each round.
"""

import statistics

# Of the first loss and of the one after an update, relative. An update
# divides small gradients by themselves, which makes rounding show.
TOLERANCES = (1e-4, 5e-3)


def mismatch(losses, reference):
    """How the first losses differ from those of another engine, or None."""
    for i, tolerance in enumerate(TOLERANCES):
        # So written that NaN differs.
        if not abs(losses[i] - reference[i]) <= tolerance * abs(reference[i]):
            return (
                f"the loss of step {i + 1} is {losses[i]:.6g}, "
                f"not {reference[i]:.6g}"
            )
    return None


def problems(runs):
    """Per engine, why its times count for nothing; the first engine that ran
    is the one whose losses the others must have."""
    reference, found = None, {}
    for engine, settings in runs.items():
        rounds = [one for each in settings.values() for one in each]
        reasons = [one["error"] for one in rounds if "error" in one]
        if not reasons:
            reference = reference or rounds[0]["losses"]
            reasons = [mismatch(one["losses"], reference) for one in rounds]
        reasons = [reason for reason in reasons if reason]
        if reasons:
            found[engine] = reasons[0]
    return found


def middle(rounds, key):
    return statistics.median(one[key] for one in rounds)


def paired_ratio(above, below, key):
    """The median over rounds: the two of a round saw the same machine."""
    return statistics.median(a[key] / b[key] for a, b in zip(above, below))


def number(value):
    """Three digits that count."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{3 if value < 1 else digits}f}"


# --- One cell of a table for each engine.


def step_cell(runs, engine):
    """Milliseconds, and how many times Strop's they are."""
    (rounds,) = runs[engine].values()
    text = number(middle(rounds, "median_ms"))
    if engine != "strop" and "strop" in runs:
        (ours,) = runs["strop"].values()
        text += f" ({paired_ratio(rounds, ours, 'median_ms'):.2f})"
    return text


def memory_cell(runs, engine):
    (rounds,) = runs[engine].values()
    peak, first = (middle(rounds, k) for k in ("peak_mib", "first_step_s"))
    return f"{peak:.0f} / {first:.2f}"


def scaling_cell(runs, engine):
    """One thread, several, and how many times faster these are."""
    one, several = runs[engine].values()
    a, b = (number(middle(rounds, "median_ms")) for rounds in (one, several))
    return f"{a} → {b} ({paired_ratio(one, several, 'median_ms'):.2f})"


def contention_cell(runs, engine):
    """One thread alone, several beside a busy core, and how many times longer
    a step takes there."""
    alone, beside = runs[engine].values()
    a, b = (number(middle(rounds, "mean_ms")) for rounds in (alone, beside))
    return f"{a} → {b} ({paired_ratio(beside, alone, 'mean_ms'):.2f})"


TABLES = {
    "compare": {
        "ms a step (times Strop's)": step_cell,
        "MiB at the peak / s of load and first step": memory_cell,
    },
    "scaling": {"ms on one thread → on several (speed-up)": scaling_cell},
    "contention": {
        "ms on one thread → on several, one core busy (slow-down)":
            contention_cell
    },
}  # fmt: skip


def cells(runs, failed, cell):
    """One text for each engine; a dash where it has failed."""
    good = {e: settings for e, settings in runs.items() if e not in failed}
    return [cell(good, e) if e in good else "-" for e in runs]


def markdown_row(texts):
    return "| " + " | ".join(texts) + " |"


def markdown_table(title, cell, results):
    engines = list(next(iter(results.values())))
    yield markdown_row([title, *engines])
    yield markdown_row(["---", *("---:" for _ in engines)])
    for model, runs in results.items():
        texts = cells(runs, problems(runs), cell)
        yield markdown_row([model, *texts])


def markdown(command, results):
    """The tables of a run; results[model] are the runs of that model."""
    lines = []
    for title, cell in TABLES[command].items():
        lines += [*markdown_table(title, cell, results), ""]
    for model, runs in results.items():
        for engine, reason in problems(runs).items():
            lines.append(f"- {model}, {engine}: {reason}")
    return "\n".join(lines).rstrip() + "\n"
