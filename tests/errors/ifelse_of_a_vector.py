import snug.tensor as T
from snug.ifelse import ifelse

ifelse(T.ivector("c"), T.dvector("x"), T.dvector("y"))
