"""Both ends of the talk between a benchmark and its contestants: processes, each on an interpreter
of its own, that answer every command, a line, by a line of JSON."""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def fault(text):
    """Ends the program by one line that says what is wrong and what to do."""
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr)
    raise SystemExit(2)


def listed(text, known, what):
    """The names in `text`, separated by commas; one that is not `known` ends the program."""
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            fault(f"there is no {what} {name}; there are {', '.join(map(str, known))}")
    return names


# Variables that choose what libraries run on this CPU: benchmarks set them by options alone.
CHOOSES_CODE = ("OPENBLAS_", "DNNL_MAX_", "ONEDNN_MAX_", "MKL_", "ATEN_CPU_", "XLA_FLAGS")


def environment_without_choices():
    return {k: v for k, v in os.environ.items() if not k.startswith(CHOOSES_CODE)}


def print_machine():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line for line in lines if line.startswith("model name")), ":")
    print(
        cpu.split(":")[1].strip() or platform.machine(),
        platform.python_version(),
        f"load {os.getloadavg()[0]:.1f}",
    )


class Worker:
    """A contestant, seen from the benchmark. It has the first `cores` cores, as many as threads
    unless told, and `start` is what it says first."""

    def __init__(self, python, script, *arguments, threads=2, cores=None, environment=None):
        self.python, self.script = python, script
        cores = sorted(os.sched_getaffinity(0))[: cores or threads]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        try:
            self.process = subprocess.Popen(
                [python, HERE / script, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                env={
                    **environment_without_choices(),
                    "OMP_NUM_THREADS": str(threads),
                    **(environment or {}),
                },
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
                text=True,
            )
        except OSError as error:
            fault(
                f"{script} has no interpreter {python} ({error.strerror});"
                " convnets.py says how to make an environment"
            )
        self.start = self.answer()
        self.version = self.start.get("version", "")
        self.refuse(self.start)
        self.seconds = []

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            fault(self.end_reason())
        try:
            return json.loads(line)
        except ValueError:
            fault(
                f"{self.script} on {self.python} says {line.strip()[:60]!r}, which is no answer;"
                " is that a Python interpreter?"
            )

    def end_reason(self):
        """Why a process that should answer does not."""
        code = self.process.wait()
        self.errors.seek(0)
        said = ([line.strip() for line in self.errors if line.strip()] or ["it said nothing"])[-1]
        missing = re.search(r"No module named '([^'.]+)", said)
        if missing:
            return (
                f"{self.script}: {self.python} has no module {missing[1]};"
                f" get it by {self.python} -m pip install {missing[1]}, or name another interpreter"
            )
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{self.script} on {self.python} {how}: {said[:300]}"

    def refuse(self, answer):
        """A fault ends the program."""
        if "fault" in answer:
            fault(f"{self.script} on {self.python}: {answer['fault']}")
        return answer

    def ask(self, command):
        """The answer; of commands that may fail it may have a "fault"."""
        try:
            print(command, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            fault(self.end_reason())
        return self.answer()

    def demand(self, command):
        """The answer to what must not fail."""
        return self.refuse(self.ask(command))

    def end(self):
        self.memory = self.ask("end")
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def answer(**values):
    print(json.dumps(values), flush=True)


def fault_of(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def times_within(limit, call):
    """The seconds of each of as many calls as `limit` seconds have room for, at least one."""
    seconds = []
    last = begin = time.perf_counter()
    while not seconds or last - begin < limit:
        call()
        now = time.perf_counter()
        seconds.append(now - last)
        last = now
    return seconds


def answer_commands(commands):
    """The contestant's loop: a line "NAME WORD..." is answered by what commands[NAME](*words)
    gives, or by its fault. After "end" the process ends, without what libraries do at exit."""
    for line in sys.stdin:
        name, *words = line.split()
        try:
            answer(**commands[name](*words) if name in commands else {})
        except Exception as error:
            answer(fault=fault_of(error))
        if name == "end":
            break
    os._exit(0)
