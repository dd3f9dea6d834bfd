import numpy as np

import snug
import snug.tensor as T

start = T.constant(np.int64(1))
(n, total), _ = snug.loop(
    lambda i, e, s: ([s[0] * 10, s[1] + T.exp(T.arange(s[0]).astype("float32")).sum()], []),
    None,
    [start, T.constant(np.float32(0))],
    5,
)
f = snug.function([], total)
f()
