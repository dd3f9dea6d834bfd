import os
import signal
import threading

import numpy as np

import snug
import snug.tensor as T

x = T.matrix("x")
calls = snug.shared(0, "calls")
y = x
for _ in range(400):
    y = T.tanh(T.dot(y, y))
f = snug.function([x], y, updates=[(calls, calls + 1)])
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
f(np.zeros((600, 600), "float32"))
