#pragma once

// For python*.cpp alone: what they share of CPython's C interface.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <string>
#include <string_view>

namespace telar::weave {

struct Release {
  void operator()(PyObject* object) const { Py_XDECREF(object); }
};
/// An object of Python's that is ours to release; null where Python has raised an error.
using Ref = std::unique_ptr<PyObject, Release>;

/// The characters of a string of Python's, as long as that one lives; empty when UTF-8 cannot express them.
std::string_view characters(PyObject* text);
/// What str() makes of an object; of None, and where that fails, nothing.
std::string text_of(PyObject* object);
/// The same of an attribute.
std::string attribute_text(PyObject* object, const char* name);

}  // namespace telar::weave
