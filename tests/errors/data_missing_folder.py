from snug import data

data.images("there-is-none", 32)
