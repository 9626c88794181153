#pragma once

#include <unordered_map>
#include <vector>

#include "telar/weave/python/object.h"
#include "telar/weave/python/syntax.h"

namespace telar::weave {

/// Copies Python's syntax trees, which consist of Python objects, into a Tree.
class TreeCopy {
 public:
  explicit TreeCopy(Tree& tree) : tree_(tree) {}

  /// Appends the statements of a module to `found`, with `root` as their parent. The module is one piece of a
  /// file. `first_line`: the line of the piece in the tree. For an imported file, the block under `if
  /// __name__ == "__main__"` is left out, and `main_block` receives its first line.
  void statements(PyObject* module, int first_line, bool is_imported, Node& root, std::vector<Node*>& found,
                  int& main_block);

 private:
  /// An entry in the dictionary of the objects of a class.
  struct Attribute {
    PyObject* python_name = nullptr;  // borrowed: interned by Python
    std::string_view name;            // of a field; "ctx": load or store
    uint64_t key = 0;                 // of the name
    int place = -1;                   // index in kPlaces; -1: a field
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
