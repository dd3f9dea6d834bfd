"""Memory: plans beside what is measured, beside Checkmate, MiniMalloc, PyTorch and JAX.

    .venv/bin/python benchmarks/memory.py [--quick] [--parts a,b] [--data DATA] [--torch PYTHON]
        [--jax PYTHON] [--svg FILE] [--json FILE]

Parts, in this order: exactness, large, checkmate, packing, curves, rivals. `packing` needs DATA, as
packing.py takes it, `rivals` an interpreter that has PyTorch or JAX (convnets.py says how to get
one); they are left out otherwise. --quick shows that all parts work, with few small models.
benchmarks/README.md says what the columns mean.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")

from convnets import mib
from convnets_worker import NETWORKS
from memory_step import Training, times_by_turns
from svg_chart import Chart
from worker import HERE, Worker, listed

ROOT = HERE.parent
PAGE = os.sysconf("SC_PAGE_SIZE")
GB = 10**9

# Model, batch, budgets: 0 is none, 50% half the way from the plain plan down to its floor; ",file":
# met by a file alone.
EXACTNESS = [
    ("logistic", 1024, ["0"]),
    ("mlp", 128, ["0"]),
    ("mlp", 4096, ["0", "30%", "60%"]),
    ("autoencoder", 4096, ["0", "30%", "60%"]),
    ("lstm", 512, ["0", "20%"]),
    ("mobilenet", 4, ["0"]),
    ("mobilenet", 16, ["0", "30%", "60%"]),
    ("resnet50", 2, ["0"]),
    ("resnet50", 8, ["0", "30%", "60%", "30%,file"]),
    ("unet", 1, ["0"]),
    ("unet", 2, ["0", "30%", "60%", "60%,file"]),
    ("vgg16", 4, ["0", "50%"]),
    ("vgg19", 4, ["0", "50%"]),
    ("fcn8", 1, ["0", "50%"]),
    ("segnet", 2, ["0", "30%", "60%"]),
    ("transformer", 4, ["0", "30%", "60%"]),
]
QUICK_EXACTNESS = [
    ("logistic", 256, ["0"]),
    ("mlp", 256, ["0", "20%,file"]),
    ("lstm", 32, ["0", "20%"]),
]

LARGE = ["vgg16", "vgg19", "resnet50", "mobilenet", "unet", "fcn8", "segnet", "transformer"]
QUICK_LARGE = ["mobilenet"]
BUDGETS = [16 * GB, 160 * GB]
TOO_MUCH = 1.3  # the plain plan takes that many times the budget

CURVES = [("resnet50", 8), ("unet", 2), ("transformer", 4)]
QUICK_CURVES = [("lstm", 32)]
CURVE_POINTS, MEASURED_POINTS, ROUNDS = 16, 4, 9


def heading(text):
    print(f"\n{text}", flush=True)


def step_in_a_process(model, batch, budget, seconds):
    """The row of memory_step.py from a fresh process."""
    run = subprocess.run(
        [sys.executable, HERE / "memory_step.py", model, str(batch), str(budget), str(seconds)],
        capture_output=True,
        text=True,
    )
    if run.returncode:
        raise SystemExit(run.stderr)
    return json.loads(run.stdout)


def how(row):
    """The techniques of a plan, short."""
    used = [f"{row['recomputed']} again"] * bool(row["recomputed"])
    used += [f"{row['slices']} slices"] * (row["slices"] > 1)
    if row.get("offloaded"):
        used.append(f"{mib(row['offloaded'])} MiB in a file")
    return ", ".join(used)


# ---- plans beside what is measured


def exactness(options):
    heading("Planned and measured: a training step with momentum, a fresh process each")
    print(
        f"{'':12}{'batch':>6}{'budget':>9}{'arena planned':>15}{'mapped':>14}{'differ':>8}"
        f"{'peak':>8}{'step':>8}{'rest':>7}{'differ':>8}{'predicted':>11}{'measured':>10}{'ratio':>7}"
    )
    print(
        f"{'':12}{'':>6}{'MiB':>9}{'bytes':>15}{'bytes':>14}{'bytes':>8}"
        f"{'MiB':>8}{'MiB':>8}{'MiB':>7}{'KiB':>8}{'ms':>11}{'ms':>10}{'':>7}"
    )
    rows = []
    seconds = 0.2 if options.quick else 1.5
    for model, batch, budgets in QUICK_EXACTNESS if options.quick else EXACTNESS:
        for budget in budgets:
            row = step_in_a_process(model, batch, budget, seconds)
            rows.append(row)
            print_exactness(row, budget)
    worst = max((abs(r["differ"]) for r in rows if "differ" in r), default=0)
    print(f"largest difference between planned and mapped: {worst} bytes")
    return rows


def print_exactness(row, budget):
    shown = mib(row["budget"]) if row["budget"] else "none"
    start = f"{row['model']:12}{row['batch']:>6}{shown:>9}"
    if "refused" in row:
        print(f"{start}  {row['refused'].split(': ')[-1]} ({budget} of the way to the floor)")
        return
    whole_pages = -(-row["planned"] // PAGE) * PAGE
    row["differ"] = row["mapped"] - whole_pages
    row["step_differ"] = row["high_water"] - row["peak"] - row["besides"]
    print(
        f"{start}{row['planned']:>15}{row['mapped']:>14}{row['differ']:>8}"
        f"{mib(row['peak']):>8}{mib(row['high_water']):>8}{mib(row['besides']):>7}"
        f"{row['step_differ'] / 1024:>8.0f}{1e3 * row['predicted']:>11.1f}"
        f"{1e3 * row['measured']:>10.1f}{row['predicted'] / row['measured']:>7.2f}  {how(row)}",
        flush=True,
    )


# ---- plans of steps that this machine need not hold


def large(options):
    heading(f"Planned alone: batches that take {TOO_MUCH:g} times the budget, trained with Adam")
    print(
        f"{'':12}{'budget GB':>10}{'batch':>8}{'plain GB':>10}{'peak GB':>9}{'floor GB':>9}"
        f"{'time':>7}{'planning s':>11}"
    )
    rows = []
    for model in QUICK_LARGE if options.quick else LARGE:
        for budget in BUDGETS[:1] if options.quick else BUDGETS:
            rows.append(large_row(model, budget))
    return rows


def large_row(model, budget):
    small, twice = (plan_tool(model, batch)["bytes"]["peak"] for batch in (64, 128))
    per_row = (twice - small) / 64
    batch = int((TOO_MUCH * budget - small) / per_row) + 64
    plain = plan_tool(model, batch)
    start = time.perf_counter()
    plan = plan_tool(model, batch, "--memory", budget, "--fit")
    seconds = time.perf_counter() - start
    ratio = plan["seconds_predicted"] / plain["seconds_predicted"]
    verdict = ", ".join(plan["techniques"]) if plan["fits"] else "no plan found"
    print(
        f"{model:12}{budget / GB:>10.0f}{batch:>8}{plain['bytes']['peak'] / GB:>10.2f}"
        f"{plan['bytes']['peak'] / GB:>9.2f}{plan['bytes']['floor'] / GB:>9.2f}{ratio:>7.2f}"
        f"{seconds:>11.1f}  {verdict}",
        flush=True,
    )
    return {"model": model, "budget": budget, "plain": plain, "plan": plan, "seconds": seconds}


def plan_tool(model, batch, *flags):
    """What `snug plan` says; exit status 1 is a plan that does not fit."""
    tool = Path(sys.executable).parent / "snug"
    command = [tool, "plan", model, "--batch", str(batch), "--json", *map(str, flags)]
    run = subprocess.run(command, capture_output=True, text=True)
    if not run.stdout:
        raise SystemExit(run.stderr)
    return json.loads(run.stdout)


# ---- other programs of this folder


def checkmate(options):
    heading("Checkmate: the largest batch in 16e9 bytes, at most one forward pass computed again")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "checkmate"
        sources = HERE / "checkmate.cpp", HERE / "keras_layers.cpp"
        build = ROOT / "build"
        flags = "-O2", "-std=c++20", f"-I{ROOT / 'src'}"
        libraries = f"-L{build}", "-lsnug", "-lfmt", f"-Wl,-rpath,{build}"
        subprocess.run(["g++", *flags, *sources, *libraries, "-o", program], check=True)
        what = ["VGG19"] if options.quick else ["--real"]
        return show_output([program, *what])


def packing(options):
    heading("Offsets of buffers: MiniMalloc's instances and larger ones")
    script = [sys.executable, HERE / "packing.py", options.data]
    return show_output([*script, "--rounds", "1" if options.quick else "2"])


def show_output(command):
    """Runs a program and prints its lines as they come."""
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    if process.returncode:
        raise SystemExit(f"{command[0]} failed")
    return lines


# ---- overhead by budget


def curves(options):
    heading("Time by budget, over that of the plain plan: predicted | measured")
    models = QUICK_CURVES if options.quick else CURVES
    found = {f"{name} x {batch}": curve(name, batch, options) for name, batch in models}
    series = []
    for name, rows in found.items():
        series.append((name, points(rows, "predicted"), True))
        series.append((name, points(rows, "measured"), False))
    chart = Chart(
        "What a training step costs within less memory",
        "budget, % of the plain plan's peak",
        "more time, %",
        series,
    )
    options.svg.write_text(chart.svg())
    print(f"drawn in {options.svg.name}")
    return found


def points(rows, key):
    """(budget, more time) in %."""
    plain = rows[0]["budget"]
    return [(100 * r["budget"] / plain, 100 * (r[key] - 1)) for r in rows if key in r]


def curve(name, batch, options):
    """Budgets from the plain plan down to the smallest that can be planned, in equal steps."""
    training = Training(name)
    plain = training.plan(batch)
    print(f"{name} x {batch}, plain {mib(plain.peak)} MiB, floor {mib(plain.floor)} MiB")
    rows = [{"budget": plain.peak, "predicted": 1.0, "recomputed": 0, "slices": 0}]
    points = 4 if options.quick else CURVE_POINTS
    for k in range(1, points + 1):
        budget = plain.peak - (plain.peak - plain.floor) * k // points
        plan = training.plan(batch, budget)
        if plan is None:
            break
        rows.append(
            {
                "budget": budget,
                "predicted": plan.seconds / plain.seconds,
                "recomputed": len(plan.recomputed),
                "slices": plan.micro_batches,
            }
        )
    measure_some(rows, training, batch, options)
    for row in rows:
        measured = f"{row['measured']:8.2f}" if "measured" in row else f"{'':8}"
        print(f"{mib(row['budget']):>10} MiB{row['predicted']:8.2f} |{measured}  {how(row)}")
    return rows


def measure_some(rows, training, batch, options):
    """Adds measured times, over that without a budget, to rows that are evenly spread.

    Steps are made by turns, and a round gives a ratio each: what slows the machine down for a while
    slows down all of them.
    """
    count = min(len(rows), 2 if options.quick else MEASURED_POINTS)
    chosen = sorted({round(k * (len(rows) - 1) / max(count - 1, 1)) for k in range(count)})
    functions = [training.function(rows[k]["budget"] if k else 0) for k in chosen]
    rounds = times_by_turns(functions, training.arguments(batch), 3 if options.quick else ROUNDS)
    for k, *ratios in zip(chosen, *([t / times[0] for t in times] for times in rounds)):
        rows[k]["measured"] = statistics.median(ratios)


# ---- beside others


def rivals(options):
    heading("Resident memory in MiB: of the process, and of one step after warm-up")
    print(f"{'':34}{'peak':>7}{'import':>8}{'step':>7}{'step -':>8}{'snug /':>8}")
    print(f"{'':34}{'':>7}{'':>8}{'':>7}{'import':>8}{'it':>8}")
    rows = []
    for network in ["vgg-small"] if options.quick else options.networks.split(","):
        print(f"{network} x {NETWORKS[network][0]}")
        ours = None
        for name, python, script, variant in contestants(network, options):
            row = resident_row(name, Worker(python, script, network, "float32", variant))
            ours = ours or row["grown"]
            rows.append({"network": network, "contestant": name, **row})
            print(
                f"  {name + ' ' + row['version'].split('+')[0]:32}{mib(row['peak']):>7}"
                f"{mib(row['import']):>8}{mib(row['step']):>7}{mib(row['grown']):>8}"
                f"{ours / row['grown']:>8.2f}",
                flush=True,
            )
    return rows


def contestants(network, options):
    """(name, interpreter, script, variant)"""
    ours = sys.executable, "convnets_snug.py"
    yield "snug", *ours, ""
    budget = budget_of(network)
    yield f"snug in {budget}", *ours, budget
    if options.torch:
        for variant in ("eager", "channels_last"):
            yield f"torch {variant}", options.torch, "convnets_torch.py", variant
    if options.jax:
        yield "jax", options.jax, "convnets_jax.py", ""


def budget_of(network):
    """Half the way down from the plain plan to its floor, in whole MiB."""
    batch, example, _ = NETWORKS[network]
    plain = Training(network, example).plan(batch)
    return f"{(plain.peak + plain.floor) // 2**21}MiB"


def resident_row(name, worker):
    worker.demand("step 2")
    step = worker.demand("mark")["step"]
    worker.end()
    return {
        "version": worker.version,
        "peak": worker.memory["peak"],
        "import": worker.memory["before"],
        "step": step,
        "grown": step - worker.memory["before"],
    }


PARTS = {
    "exactness": exactness,
    "large": large,
    "checkmate": checkmate,
    "packing": packing,
    "curves": curves,
    "rivals": rivals,
}


def chosen_parts(options):
    parts = listed(options.parts, PARTS, "part")
    listed(options.networks, NETWORKS, "network")
    if not options.data:
        parts = [p for p in parts if p != "packing"]
    if not (options.torch or options.jax):
        parts = [p for p in parts if p != "rivals"]
    return parts


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--data", type=Path, help="the folder that packing.py takes")
    parser.add_argument("--torch", help="an interpreter that has PyTorch")
    parser.add_argument("--jax", help="an interpreter that has JAX")
    parser.add_argument("--networks", default="vgg-small,resnet50,unet", help="of rivals")
    parser.add_argument("--svg", type=Path, default=ROOT / "docs" / "memory_budget.svg")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main():
    options = arguments()
    print(platform.processor() or platform.machine(), f"load {os.getloadavg()[0]:.1f}")
    found, start = {}, time.perf_counter()
    for part in chosen_parts(options):
        begin = time.perf_counter()
        found[part] = PARTS[part](options)
        print(f"({part}: {time.perf_counter() - begin:.0f} s)", flush=True)
    print(f"all in {time.perf_counter() - start:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
