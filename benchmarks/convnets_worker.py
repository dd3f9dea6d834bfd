"""What the contestants of convnets.py and busy.py share: the networks' inputs, and the
commands."""

import time

import numpy as np
from worker import answer, answer_commands, fault_of, times_within

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


def serve(make, version, network, precision, variant):
    """Answers "step N" with the seconds of a step, the median of N, "for S" with the seconds of
    all steps that S seconds have room for, "mark" with the most that one step has resident, and
    "end" with the memory."""
    most = 0
    before = resident()
    try:
        images, labels = batch_of(network)
        start = time.perf_counter()
        step, parameters = make(network, precision, variant)
        loss = float(step(images, labels))
    except Exception as error:
        answer(version=version, fault=fault_of(error))
        return
    answer(
        version=version,
        parameters=parameters,
        first_loss=loss,
        first_seconds=time.perf_counter() - start,
    )

    def steps(count):
        seconds = []
        for _ in range(int(count)):
            start = time.perf_counter()
            loss = float(step(images, labels))
            seconds.append(time.perf_counter() - start)
        return {"seconds": sorted(seconds)[len(seconds) // 2], "loss": loss}

    def steps_for(seconds):
        return {"seconds": times_within(float(seconds), lambda: step(images, labels))}

    def mark():
        nonlocal most
        most = max(most, resident("VmHWM"))
        forget_high_water()
        step(images, labels)
        return {"step": resident("VmHWM")}

    def end():
        return {"before": before, "peak": max(most, resident("VmHWM"))}

    answer_commands({"step": steps, "for": steps_for, "mark": mark, "end": end})
