import numpy as np

import snug
import snug.tensor as T

w = snug.shared(np.arange(6, dtype="float32").reshape(3, 2), "w")
step = snug.shared(0, "step")
i = T.lvector("i")
new = T.inc_subtensor(w[i], 1.0)
f = snug.function([i], new.sum(), updates=[(w, new), (step, step + 1)])
f([0, 1, 5])
