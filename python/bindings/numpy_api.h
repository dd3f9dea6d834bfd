#pragma once
// One copy of NumPy's C API table for the whole extension; module.cpp fills it.
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL snug_numpy_api
#ifndef SNUG_IMPORT_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
