import snug.tensor as T

T.slinalg.Solve("lower")
