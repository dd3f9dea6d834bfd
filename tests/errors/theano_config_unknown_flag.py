import snug

snug.install_as_theano()
import theano

theano.config.gpuarray.preallocte = 0.5
