"""What the contestants of convnets.py and busy.py share: the networks' inputs, and the loop over
commands."""

import json
import os
import sys
import time

import numpy as np

# batch, shape of an image, classes
NETWORKS = {
    "mlp": (128, (1, 28, 28), 10),
    "vgg-small": (128, (1, 28, 28), 10),
    "vgg16": (8, (3, 224, 224), 1000),
    "resnet50": (8, (3, 224, 224), 1000),
    "unet": (2, (1, 256, 256), 2),
}


def batch_of(network):
    count, shape, classes = NETWORKS[network]
    rng = np.random.default_rng(1)
    labels = (count, *shape[1:]) if network == "unet" else (count,)
    return rng.random((count, *shape), np.float32), rng.integers(0, classes, labels)


def resident(key="VmRSS"):
    """Bytes of this process in memory; VmHWM: the most there were."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def forget_high_water():
    """VmHWM starts again from what is resident now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def answer(**values):
    print(json.dumps(values), flush=True)


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


def serve(make, version, network, precision, variant):
    """Answers "step N" with the seconds of a step, the median of N, "for S" with the seconds of
    all steps that S seconds have room for, "mark" with the most that one step has resident, and
    "end" with the memory."""
    most = 0
    before = resident()
    images, labels = batch_of(network)
    start = time.perf_counter()
    step, parameters = make(network, precision, variant)
    first = float(step(images, labels))
    answer(
        version=version,
        parameters=parameters,
        first_loss=first,
        first_seconds=time.perf_counter() - start,
    )
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "end":
            break
        if command == "mark":
            most = max(most, resident("VmHWM"))
            forget_high_water()
            step(images, labels)
            answer(step=resident("VmHWM"))
            continue
        if command == "for":
            answer(seconds=times_within(float(rest[0]), lambda: step(images, labels)))
            continue
        seconds = []
        for _ in range(int(rest[0])):
            start = time.perf_counter()
            loss = float(step(images, labels))
            seconds.append(time.perf_counter() - start)
        answer(seconds=sorted(seconds)[len(seconds) // 2], loss=loss)
    answer(before=before, peak=max(most, resident("VmHWM")))
    os._exit(0)
