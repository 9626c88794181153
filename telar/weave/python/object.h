#pragma once

// What the files python*.cpp share of CPython's C interface.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <string>
#include <string_view>

namespace telar::weave {

struct Release {
  void operator()(PyObject* object) const { Py_XDECREF(object); }
};
/// An owned reference to a Python object; null if Python has raised an error.
using Ref = std::unique_ptr<PyObject, Release>;

/// The characters of a Python string, valid as long as the string is; empty if UTF-8 cannot represent them.
std::string_view characters(PyObject* text);
/// The result of Python's str(); empty for None and if str() fails.
std::string text_of(PyObject* object);
/// The result of Python's str() for an attribute of the object.
std::string attribute_text(PyObject* object, const char* name);

}  // namespace telar::weave
