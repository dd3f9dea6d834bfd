import snug.tensor as T
from snug.ifelse import ifelse

ifelse(T.iscalar("c"), T.dvector("x"), T.fvector("y"))
