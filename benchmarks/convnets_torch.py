"""Training steps of the networks of convnets.py in PyTorch, on commands from standard input."""

import os
import sys

import torch
from convnets_worker import serve
from torch import nn

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def vgg(blocks, units, channels, size, classes):
    layers = []
    for block in blocks:
        for filters in block:
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(inplace=True)]
            channels = filters
        layers.append(nn.MaxPool2d(2))
        size //= 2
    layers.append(nn.Flatten())
    features = channels * size * size
    for n in units:
        layers += [nn.Linear(features, n), nn.ReLU(inplace=True), nn.Dropout(0.5)]
        features = n
    return nn.Sequential(*layers, nn.Linear(features, classes))


def normed(channels, filters, kernel, stride=1):
    conv = nn.Conv2d(channels, filters, kernel, stride, kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(filters)]


class Bottleneck(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        width = out // 4
        relu = nn.ReLU(inplace=True)
        self.body = nn.Sequential(
            *(*normed(channels, width, 1), relu),
            *(*normed(width, width, 3, stride), relu),
            *normed(width, out, 1),
        )
        changed = channels != out or stride != 1
        self.shortcut = nn.Sequential(*normed(channels, out, 1, stride)) if changed else None
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.body(x)
        y += self.shortcut(x) if self.shortcut else x
        return self.relu(y)


def resnet50():
    layers = [*normed(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels, out = 64, 256
    for stage, depth in enumerate((3, 4, 6, 3)):
        for k in range(depth):
            layers.append(Bottleneck(channels, out, 2 if stage > 0 and k == 0 else 1))
            channels = out
        out *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def two_convolutions(channels, filters):
    layers = []
    for _ in range(2):
        layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(inplace=True)]
        channels = filters
    return nn.Sequential(*layers)


class Level(nn.Module):
    def __init__(self, channels, filters, below):
        super().__init__()
        self.first = two_convolutions(channels, filters)
        self.below = None
        if below:
            self.below = nn.Sequential(
                nn.MaxPool2d(2),
                Level(filters, 2 * filters, below - 1),
                nn.ConvTranspose2d(2 * filters, filters, 2, 2),
            )
            self.last = two_convolutions(2 * filters, filters)

    def forward(self, x):
        x = self.first(x)
        return self.last(torch.cat([x, self.below(x)], 1)) if self.below else x


def mlp():
    layers = [nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(256, 10))


MODELS = {
    "mlp": mlp,
    "vgg-small": lambda: vgg([[32, 32], [64, 64]], [128], 1, 28, 10),
    "vgg16": lambda: vgg(
        [[64] * 2, [128] * 2, [256] * 3, [512] * 3, [512] * 3], [4096, 4096], 3, 224, 1000
    ),
    "resnet50": resnet50,
    "unet": lambda: nn.Sequential(Level(1, 64, 4), nn.Conv2d(64, 2, 1)),
}


def make(network, precision, variant):
    """A function that makes a training step of numpy arrays, and the number of parameters."""
    torch.manual_seed(1)
    layout = torch.contiguous_format if variant == "eager" else torch.channels_last
    model = MODELS[network]().to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    narrow = precision == "bfloat16"
    run = torch.compile(model) if variant == "compiled" else model

    def step(images, labels):
        optimizer.zero_grad(set_to_none=True)
        x = torch.from_numpy(images).to(memory_format=layout)
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            loss = loss_of(run(x), torch.from_numpy(labels))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, sum(p.numel() for p in model.parameters())


if __name__ == "__main__":
    serve(make, torch.__version__, *sys.argv[1:])
