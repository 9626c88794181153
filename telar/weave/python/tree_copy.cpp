#include "telar/weave/python/tree_copy.h"

#include <algorithm>
#include <array>

#include "telar/core/error.h"

namespace telar::weave {

namespace {

bool is_a(PyObject* object, std::string_view kind) {
  const std::string_view full = Py_TYPE(object)->tp_name;
  return full.substr(full.rfind('.') + 1) == kind;
}

/// `if __name__ == "__main__":`
bool is_main_guard(PyObject* statement) {
  if (!is_a(statement, "If")) return false;
  const Ref test(PyObject_GetAttrString(statement, "test"));
  if (!test || !is_a(test.get(), "Compare")) return false;
  const Ref left(PyObject_GetAttrString(test.get(), "left"));
  return left && is_a(left.get(), "Name") && attribute_text(left.get(), "id") == "__name__";
}

int line_number(PyObject* node) {
  const Ref line(PyObject_GetAttrString(node, "lineno"));
  return line ? static_cast<int>(PyLong_AsLong(line.get())) : 0;
}

/// The first line of the block of an `if` statement; 0 if it is on the line of the condition.
int first_line_of_block(PyObject* statement) {
  const Ref block(PyObject_GetAttrString(statement, "body"));
  PyObject* first = block && PyList_Size(block.get()) > 0 ? PyList_GetItem(block.get(), 0) : nullptr;
  if (first == nullptr) return 0;
  int line = line_number(first);
  if (is_a(first, "FunctionDef") || is_a(first, "ClassDef")) {
    const Ref decorators(PyObject_GetAttrString(first, "decorator_list"));
    if (decorators && PyList_Size(decorators.get()) > 0)
      line = line_number(PyList_GetItem(decorators.get(), 0));
  }
  return line > line_number(statement) ? line : 0;
}

/// The attributes of Python's classes for the beginning and end of a node.
constexpr std::array<std::string_view, 4> kPlaces = {"lineno", "col_offset", "end_lineno", "end_col_offset"};
constexpr size_t kMostFields = 8;  // of a node; a function and its arguments have 7

}  // namespace

void TreeCopy::statements(PyObject* module, int first_line, bool is_imported, Node& root,
                          std::vector<Node*>& found, int& main_block) {
  lines_before_ = first_line - 1;
  const Ref body(PyObject_GetAttrString(module, "body"));
  for (Py_ssize_t i = 0; body && i < PyList_Size(body.get()); ++i) {
    PyObject* statement = PyList_GetItem(body.get(), i);
    if (!is_imported || !is_main_guard(statement)) {
      found.push_back(below(root, "body", statement));
    } else if (const int line = first_line_of_block(statement); line > 0) {
      main_block = lines_before_ + line;
    }
  }
}

Node* TreeCopy::node(PyObject* object, bool inside_fstring) {
  const Shape& shape = shape_of(Py_TYPE(object));
  Node* copy = tree_.add(shape.kind);
  copy->inside_fstring = inside_fstring;
  // The object's dictionary holds the attributes in the order of the class's fields, then lines and columns.
  // Iterating is faster than looking each one up.
  const Ref attributes(PyObject_GenericGetDict(object, nullptr));
  if (!attributes) throw run_error("Python's parser created a node without attributes");
  std::array<Field, kMostFields> fields;
  size_t used = 0;
  Py_ssize_t at = 0;
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  std::array<int, 4> place{};
  auto expected = shape.fields.begin();
  while (PyDict_Next(attributes.get(), &at, &name, &value) != 0) {
    if (expected == shape.fields.end() || expected->python_name != name) {
      expected = std::find_if(shape.fields.begin(), shape.fields.end(), [&](const Attribute& one) {
        return PyUnicode_Compare(one.python_name, name) == 0;
      });
    }
    if (expected == shape.fields.end()) continue;
    if (expected->place >= 0) {
      place[static_cast<size_t>(expected->place)] = static_cast<int>(PyLong_AsLong(value));
    } else {
      const Nodes below = add(*copy, *expected, value);
      if (!below.empty()) fields.at(used++) = {expected->key, below};
    }
    ++expected;
  }
  const std::span<Field> kept = tree_.make_room<Field>(used);
  std::copy_n(fields.begin(), used, kept.begin());
  copy->fields = kept;
  if (shape.has_place) {
    copy->line = lines_before_ + place[0];
    copy->begin = tree_.offset(copy->line, place[1]);
    copy->end = tree_.offset(lines_before_ + place[2], place[3]);
  }
  return copy;
}

/// The kind and fields of an `ast` class, determined once.
const TreeCopy::Shape& TreeCopy::shape_of(PyTypeObject* type) {
  const auto [at, is_new] = shapes_.try_emplace(type);
  Shape& shape = at->second;
  if (!is_new) return shape;
  const std::string_view full = type->tp_name;
  shape.kind = kind_of(full.substr(full.rfind('.') + 1));
  for (const char* const names : {"_fields", "_attributes"}) {
    const Ref listed(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), names));
    for (Py_ssize_t i = 0; listed && i < PyTuple_Size(listed.get()); ++i) {
      PyObject* name = PyTuple_GetItem(listed.get(), i);
      const std::string text = text_of(name);
      const auto place = std::find(kPlaces.begin(), kPlaces.end(), text);
      // `kind` is the u in u"text".
      if (text == "type_comment" || text == "type_ignores" || text == "kind") continue;
      shape.has_place = shape.has_place || place != kPlaces.end();
      shape.fields.push_back({name, tree_.keep(text), key_of(text),
                              place == kPlaces.end() ? -1 : static_cast<int>(place - kPlaces.begin())});
    }
  }
  return shape;
}

/// Sets what the field means in the copy, or returns the child nodes under its name.
Nodes TreeCopy::add(Node& copy, const Attribute& field, PyObject* value) {
  if (field.key == key_of("ctx")) {
    copy.store = shape_of(Py_TYPE(value)).kind != Kind::load;
  } else if (copy.kind == Kind::constant && field.key == key_of("value")) {
    constant(copy, value);
  } else if (PyList_Check(value)) {
    return list(copy, field.name, value);
  } else if (PyUnicode_Check(value)) {
    (field.key == key_of("asname") ? copy.as_name : copy.text) = tree_.keep(characters(value));
  } else if (PyLong_Check(value)) {
    if (field.key == key_of("level")) copy.level = static_cast<int>(PyLong_AsLong(value));
  } else if (value != Py_None) {
    const std::span<Node*> one = tree_.make_room<Node*>(1);
    one[0] = below(copy, field.name, value);
    return one;
  }
  return {};
}

Nodes TreeCopy::list(Node& copy, std::string_view name, PyObject* values) {
  const auto size = static_cast<size_t>(PyList_Size(values));
  const auto at = [&](size_t i) { return PyList_GetItem(values, static_cast<Py_ssize_t>(i)); };
  if (size > 0 && PyUnicode_Check(at(0))) {
    const std::span<std::string_view> names = tree_.make_room<std::string_view>(size);
    for (size_t i = 0; i < size; ++i) names[i] = tree_.keep(characters(at(i)));
    copy.global_names = names;
    return {};
  }
  const std::span<Node*> nodes = tree_.make_room<Node*>(size);
  for (size_t i = 0; i < size; ++i) nodes[i] = below(copy, name, at(i));
  return nodes;
}

/// A child of a node; null for None, which stands for an absent entry in a list.
Node* TreeCopy::below(Node& copy, std::string_view name, PyObject* value) {
  if (value == Py_None) return nullptr;
  Node* child = node(value, copy.inside_fstring || copy.kind == Kind::joined_str);
  child->parent = &copy;
  child->role = name;
  return child;
}

void TreeCopy::constant(Node& copy, PyObject* value) {
  copy.literal = PyUnicode_Check(value) ? Literal::string
                 : PyBytes_Check(value) ? Literal::bytes
                 : PyBool_Check(value)  ? Literal::boolean
                 : value == Py_None     ? Literal::null
                 : value == Py_Ellipsis ? Literal::ellipsis
                                        : Literal::number;
  if (copy.literal == Literal::bytes) return;
  copy.text = value == Py_None   ? "None"
              : copy.is_string() ? tree_.keep(characters(value))
                                 : tree_.keep(text_of(value));
}

}  // namespace telar::weave
