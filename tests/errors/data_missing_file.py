from snug import data

data.npy("there-is-none.npy")
