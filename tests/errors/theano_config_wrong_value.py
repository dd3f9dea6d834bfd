import snug

snug.install_as_theano()
import theano

theano.config.optimizer = "fast"
