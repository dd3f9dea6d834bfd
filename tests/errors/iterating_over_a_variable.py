import snug.tensor as T

x = T.vector("x")
for element in x:
    print(element)
