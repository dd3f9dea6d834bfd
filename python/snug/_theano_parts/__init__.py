"""Small modules of Theano that programs import and that have no counterpart in snug."""
