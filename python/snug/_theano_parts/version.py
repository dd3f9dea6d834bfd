"""`theano.version`."""

from snug.theano_alias import VERSION as version

full_version = short_version = version
git_revision = None
release = True
