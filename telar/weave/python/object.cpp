#include "telar/weave/python/object.h"

namespace telar::weave {

std::string_view characters(PyObject* text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {bytes, static_cast<size_t>(size)};
}

std::string text_of(PyObject* object) {
  if (object == nullptr || object == Py_None) return {};
  const Ref text(PyUnicode_Check(object) ? Py_NewRef(object) : PyObject_Str(object));
  if (text) return std::string(characters(text.get()));
  PyErr_Clear();
  return {};
}

std::string attribute_text(PyObject* object, const char* name) {
  const Ref value(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return text_of(value.get());
}

}  // namespace telar::weave
