#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets Strop's training step beside ONNX Runtime's and PyTorch's.

    python run.py compare      times, memory and first step of each engine
    python run.py scaling      two threads against one
    python run.py contention   two threads while another process keeps one of
                               their cores busy, against one thread alone

Every measurement is a process of its own. In each round all engines take
their turns, so that whatever else the machine does hits all alike. Engines
that are not installed are left out; README.md tells what each needs.
"""

import argparse
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import report
import suite

HERE = Path(__file__).resolve().parent
PACKAGES = {"strop": "strop", "ort": "onnxruntime", "torch": "torch"}
VARIANTS = {"channels_last", "compile", "keep_memory"}
# glibc's malloc then gives nothing back to the system: fewer page faults.
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 26),
}


@dataclass(frozen=True)
class Setting:
    threads: int
    beside_busy_core: bool = False


def settings_of(command, threads):
    return {
        "compare": [Setting(threads)],
        "scaling": [Setting(1), Setting(threads)],
        "contention": [Setting(1), Setting(threads, beside_busy_core=True)],
    }[command]


def message(text):
    print(text, file=sys.stderr, flush=True)


def run_python(words, limit_s=None, **environment):
    """Output of a script of this folder; RuntimeError with its last line."""
    try:
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no result in {limit_s:g} s") from None
    if done.returncode != 0:
        raise RuntimeError(reason_in(done))
    return done.stdout


def reason_in(failed_process):
    """The end of the last line of its errors, if it had time for one."""
    status = failed_process.returncode
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    lines = failed_process.stderr.strip().splitlines()
    if not lines:
        return f"exit status {status}"
    return lines[-1] if len(lines[-1]) < 200 else "... " + lines[-1][-200:]


# --- Engines and files.


def engine_name(text):
    base, *variants = text.split("+")
    if base not in PACKAGES or not VARIANTS.issuperset(variants):
        raise argparse.ArgumentTypeError(
            f'"{text}" is none of {", ".join(PACKAGES)}, with variants of '
            f"{', '.join(sorted(VARIANTS))}"
        )
    if base != "torch" and set(variants) - {"keep_memory"}:
        raise argparse.ArgumentTypeError(f'"{text}": only torch has these')
    return text


def has(package):
    return importlib.util.find_spec(package) is not None


def installed(engines):
    present = []
    for engine in engines:
        package = PACKAGES[engine.split("+")[0]]
        if has(package):
            present.append(engine)
        else:
            message(f"{engine} is left out: there is no package {package}")
    return present


def network_is_there(work, model):
    """Makes the network's files where they are missing."""
    if (work / model / "trainable.json").exists():
        return True
    try:
        run_python([HERE / "suite.py", "network", work, model])
        return True
    except RuntimeError as error:
        message(f"{model} is left out: to make its network failed ({error})")
        return False


def make_artifacts(work, model, engines):
    """Per engine, why its artifacts could not be made. Those that are there
    are made anew, for the engine may have changed."""
    failed = {}
    for base in {engine.split("+")[0] for engine in engines} - {"torch"}:
        if not has("onnx") and (work / model / base / "checkpoint").exists():
            continue
        try:
            run_python([HERE / "suite.py", "artifacts", work, model, base])
        except RuntimeError as error:
            failed[base] = f"no artifacts: {error}"
    return failed


# --- Measurements.


@contextmanager
def busy_core(core):
    """Another process runs on that core all the time, or as long as this one
    lives."""
    spin = (
        f"import os; os.sched_setaffinity(0, [{core}])\n"
        f"while os.getppid() == {os.getpid()}: pass"
    )
    process = subprocess.Popen([sys.executable, "-c", spin])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def measure(work, model, engine, setting, args):
    cores = args.cores[: setting.threads]
    job = {
        "folder": str(work),
        "model": model,
        "engine": engine,
        "threads": setting.threads,
        "seconds": args.seconds,
        "cores": cores,
    }
    environment = {"OMP_NUM_THREADS": str(setting.threads)}
    if "keep_memory" in engine:
        environment.update(KEEP_MEMORY)

    def once():
        words = [HERE / "worker.py", json.dumps(job)]
        output = run_python(words, args.limit, **environment)
        return json.loads(output.splitlines()[-1])

    try:
        if not setting.beside_busy_core:
            return once()
        with busy_core(cores[-1]):
            return once()
    except RuntimeError as error:
        return {"error": str(error)}


def measure_model(work, model, args):
    """runs[engine][setting], as report.py wants them."""
    settings = settings_of(args.command, args.threads)
    failed = make_artifacts(work, model, args.engines)
    runs = {
        engine: {setting: [] for setting in settings}
        for engine in args.engines
    }
    for _ in range(args.rounds):
        for engine, rounds in runs.items():
            for setting in settings:
                reason = failed.get(engine) or failed.get(engine.split("+")[0])
                result = {"error": reason}
                if reason is None:
                    result = measure(work, model, engine, setting, args)
                    # It would fail again.
                    if "error" in result:
                        failed[engine] = result["error"]
                rounds[setting].append(result)
    return runs


# --- What is told.


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor() or platform.machine()


def machine(results):
    """The machine and the versions that ran, in a line."""
    versions = {}
    for runs in results.values():
        for engine, settings in runs.items():
            for one in (one for each in settings.values() for one in each):
                if "version" in one:
                    versions[engine.split("+")[0]] = one["version"]
    names = ", ".join(f"{name} {v}" for name, v in versions.items())
    cores = len(os.sched_getaffinity(0))
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return (
        f"Machine: {processor()}, {cores} cores, {system}, "
        f"Python {platform.python_version()}; {names}"
    )


def write_json(path, args, results):
    def plain(runs):
        return {
            engine: [
                {"threads": s.threads, "busy": s.beside_busy_core, "rounds": r}
                for s, r in settings.items()
            ]
            for engine, settings in runs.items()
        }

    content = {
        "command": args.command,
        "machine": machine(results),
        "results": {model: plain(runs) for model, runs in results.items()},
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def show(command, model, runs):
    """A line for each table, and one for each engine that has failed."""
    failed = report.problems(runs)
    for title, cell in report.TABLES[command].items():
        cells = zip(runs, report.cells(runs, failed, cell))
        told = ", ".join(f"{engine} {text}" for engine, text in cells)
        message(f"{model}: {title}: {told}")
    for engine, reason in failed.items():
        message(f"{model}: {engine}: {reason}")


def parse(words=None):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("command", choices=list(report.TABLES))
    parser.add_argument(
        "--models",
        nargs="+",
        choices=list(suite.CASES),
        metavar="MODEL",
        default=[name for name, case in suite.CASES.items() if not case.slow],
        help="of " + ", ".join(suite.CASES),
    )
    parser.add_argument(
        "--engines",
        nargs="+",
        type=engine_name,
        metavar="ENGINE",
        default=["ort", "torch", "torch+channels_last+keep_memory", "strop"],
        help="strop, ort, torch; torch+channels_last and torch+compile; "
        "each with +keep_memory",
    )
    parser.add_argument(
        "--threads",
        type=int,
        help="of a step (default: 1 for compare, else 2)",
        default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "--cores",
        type=int,
        nargs="+",
        metavar="CORE",
        default=sorted(os.sched_getaffinity(0)),
        help="to run on, the first ones first",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="of one measurement"
    )
    parser.add_argument(
        "--limit", type=float, default=900.0, help="seconds of one process"
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("build/peers"),
        help="folder for networks and artifacts",
    )
    parser.add_argument("--json", type=Path, help="file for all numbers")
    parser.add_argument(
        "--markdown", action="store_true", help="print tables for README.md"
    )
    args = parser.parse_args(words)
    if "threads" not in args:
        args.threads = 1 if args.command == "compare" else 2
    if not os.sched_getaffinity(0).issuperset(args.cores):
        parser.error(f"not all of --cores {args.cores} are there")
    if args.threads > len(args.cores):
        parser.error(f"there are no {args.threads} cores for --threads")
    fewest = 1 if args.command == "compare" else 2
    if args.threads < fewest or args.rounds < 1:
        parser.error(
            f"{args.command} wants --threads {fewest} or more, and --rounds 1 "
            "or more"
        )
    return args


def main():
    args = parse()
    args.engines = installed(args.engines)
    results = {}
    for model in args.models:
        if not network_is_there(args.work, model):
            continue
        results[model] = measure_model(args.work, model, args)
        show(args.command, model, results[model])
        if args.json:
            write_json(args.json, args, results)
    if not results or not args.engines:
        sys.exit("nothing was measured")
    if args.markdown:
        print(report.markdown(args.command, results))
        threads = "thread" if args.threads == 1 else "threads"
        print(f"{machine(results)}; {args.threads} {threads}.")


if __name__ == "__main__":
    main()
