import snug

snug.install_as_theano()
import theano  # noqa: E402

theano.config.optimizer = "fast"
