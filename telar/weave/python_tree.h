#pragma once

#include <unordered_map>
#include <vector>

#include "telar/weave/python_object.h"
#include "telar/weave/syntax.h"

namespace telar::weave {

/// Copies trees of Python's, which are made of its objects, into one of ours.
class TreeCopy {
 public:
  explicit TreeCopy(Tree& tree) : tree_(tree) {}

  /// Adds the statements of a module, which is a piece of one of the tree's files, to those of `root`. `first_line`: of the piece, within
  /// the tree. Of a file that is imported what it does as a script is left out.
  void statements(PyObject* module, int first_line, bool is_imported, Node& root, std::vector<Node*>& found);

 private:
  /// An entry of the dictionary of a class's objects.
  struct Attribute {
    PyObject* python_name = nullptr;  // borrowed: interned by Python
    std::string_view name;            // of a field; "ctx": whether it is assigned
    uint64_t key = 0;                 // of the name
    int place = -1;                   // of a line or column: which
  };
  struct Shape {
    Kind kind = Kind::other;
    bool has_place = false;
    std::vector<Attribute> fields;
  };

  Node* node(PyObject* object, bool inside_fstring);
  const Shape& shape_of(PyTypeObject* type);
  Nodes add(Node& copy, const Attribute& field, PyObject* value);
  Nodes list(Node& copy, std::string_view name, PyObject* values);
  Node* below(Node& copy, std::string_view name, PyObject* value);
  void constant(Node& copy, PyObject* value);

  Tree& tree_;
  int lines_before_ = 0;
  std::unordered_map<PyTypeObject*, Shape> shapes_;
};

}  // namespace telar::weave
