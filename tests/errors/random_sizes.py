import snug.tensor as T

T.shared_randomstreams.RandomStreams(1).uniform(size=(2.5,))
