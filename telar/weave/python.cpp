// The one file that knows CPython's C interface. Its parser makes the tree, which is copied into ours, so that nothing
// else holds a Python object.
#define PY_SSIZE_T_CLEAN
#include "telar/weave/python.h"

#include <Python.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "telar/core/error.h"
#include "telar/weave/source_text.h"

namespace telar::weave {

namespace {

struct Release {
  void operator()(PyObject* object) const { Py_XDECREF(object); }
};
using Ref = std::unique_ptr<PyObject, Release>;

/// Starts the interpreter once, isolated: no environment, no user site, no signal handlers, no `site`.
void start() {
  if (Py_IsInitialized() != 0) return;
  // Python's objects lie in the heap that make_room() prepares, not in mappings of their own.
  PyObjectArenaAllocator heap{nullptr, [](void* /*context*/, size_t size) { return std::malloc(size); },
                              [](void* /*context*/, void* memory, size_t /*size*/) { std::free(memory); }};
  PyObject_SetArenaAllocator(&heap);
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.site_import = 0;
  config.install_signal_handlers = 0;
  const PyStatus status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status) != 0) {
    throw run_error("Python's interpreter, whose parser weave uses, does not start: {}",
                    status.err_msg != nullptr ? status.err_msg : "no reason given");
  }
  // Trees have no cycles, and looking for some took a quarter of the time.
  PyGC_Disable();
}

/// The characters of a string of Python's, as long as that one lives; empty when UTF-8 cannot express them.
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

long attribute_number(PyObject* object, const char* name) {
  const Ref value(PyObject_GetAttrString(object, name));
  if (!value || value.get() == Py_None) {
    PyErr_Clear();
    return 0;
  }
  const long number = PyLong_AsLong(value.get());
  if (number == -1) PyErr_Clear();
  return number;
}

/// Python's own report: file, line, the line's text, a caret, the message.
Error raised(const std::string& file) {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const Ref owned_type(type);
  const Ref owned_value(value);
  const Ref owned_trace(trace);
  if (value == nullptr) return run_error("Python's parser failed without a message on {}", file);
  const std::string name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  if (PyErr_GivenExceptionMatches(type, PyExc_SyntaxError) == 0) {
    return user_error("{} cannot be parsed: {}: {}", file, name, text_of(value));
  }
  const long line = attribute_number(value, "lineno");
  const long column = attribute_number(value, "offset");
  std::string text = attribute_text(value, "text");
  text = text.substr(0, text.find_last_not_of("\r\n") + 1);
  const size_t first = std::min(text.find_first_not_of(" \t\f"), text.size());
  std::string report = fmt::format("the file is not a program of Python {}.{}\n  File \"{}\", line {}",
                                   PY_MAJOR_VERSION, PY_MINOR_VERSION, file, line);
  if (!text.empty()) {
    report += "\n    " + text.substr(first);
    const long caret = column - 1 - static_cast<long>(first);
    if (caret >= 0) report += "\n    " + std::string(static_cast<size_t>(caret), ' ') + "^";
  }
  return user_error("{}\n{}: {}", report, name, attribute_text(value, "msg"));
}

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

/// Where a node begins and ends, as Python's classes call it.
constexpr std::array<std::string_view, 4> kPlaces = {"lineno", "col_offset", "end_lineno", "end_col_offset"};
constexpr size_t kMostFields = 8;  // of a node: a function and its arguments have 7

/// Copies trees of Python's into ours.
class Copy {
 public:
  explicit Copy(Tree& tree) : tree_(tree) {}

  /// Adds the statements of a module, which is a piece of one of the tree's files, to those of `root`. `first_line`: of the piece, within
  /// the tree. Of a file that is imported what it does as a script is left out.
  void statements(PyObject* module, int first_line, bool is_imported, Node& root, std::vector<Node*>& found) {
    lines_before_ = first_line - 1;
    const Ref body(PyObject_GetAttrString(module, "body"));
    for (Py_ssize_t i = 0; body && i < PyList_Size(body.get()); ++i) {
      PyObject* statement = PyList_GetItem(body.get(), i);
      if (!is_imported || !is_main_guard(statement)) found.push_back(below(root, "body", statement));
    }
  }

 private:
  Node* node(PyObject* object, bool inside_fstring) {
    const Shape& shape = shape_of(Py_TYPE(object));
    Node* copy = tree_.add(shape.kind);
    copy->inside_fstring = inside_fstring;
    // The attributes lie in the object's dictionary in the order of the class's fields, then lines and columns: they are
    // gone through, not looked up.
    const Ref attributes(PyObject_GenericGetDict(object, nullptr));
    if (!attributes) throw raised("a syntax tree");
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

  /// The kind and fields of a class of `ast`, asked for once.
  const Shape& shape_of(PyTypeObject* type) {
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
        // `kind` is the u of u"text".
        if (text == "type_comment" || text == "type_ignores" || text == "kind") continue;
        shape.has_place = shape.has_place || place != kPlaces.end();
        shape.fields.push_back({name, tree_.keep(text), key_of(text),
                                place == kPlaces.end() ? -1 : static_cast<int>(place - kPlaces.begin())});
      }
    }
    return shape;
  }

  /// What the field `name` says of a node, or the nodes below it under that name.
  Nodes add(Node& copy, const Attribute& field, PyObject* value) {
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

  Nodes list(Node& copy, std::string_view name, PyObject* values) {
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

  /// A node's child; null for None, what is absent in a list.
  Node* below(Node& copy, std::string_view name, PyObject* value) {
    if (value == Py_None) return nullptr;
    Node* child = node(value, copy.inside_fstring || copy.kind == Kind::joined_str);
    child->parent = &copy;
    child->role = name;
    return child;
  }

  void constant(Node& copy, PyObject* value) {
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

  Tree& tree_;
  int lines_before_ = 0;
  std::unordered_map<PyTypeObject*, Shape> shapes_;
};

}  // namespace

SourceText decode(const std::string& file, std::string_view bytes) {
  start();
  SourceText source;
  source.mark = bytes.starts_with("\xef\xbb\xbf");
  if (source.mark) bytes.remove_prefix(3);
  const std::string declared = declared_encoding(bytes);
  source.encoding = declared.empty() || is_utf8(declared) ? "utf-8" : declared;
  if (source.mark && source.encoding != "utf-8") {
    throw user_error("{} begins with a UTF-8 byte order mark, but says that its encoding is {}", file,
                     declared);
  }
  const Ref text(PyUnicode_Decode(bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                                  source.encoding.c_str(), "strict"));
  if (!text) {
    if (PyErr_ExceptionMatches(PyExc_LookupError) != 0) {
      PyErr_Clear();
      throw user_error("{} says that its encoding is {}, which this Python does not know", file, declared);
    }
    PyErr_Clear();
    throw user_error(
        "{} is not text in {}; save it as UTF-8, or name its encoding in the first line as in "
        "# -*- coding: latin-1 -*-",
        file, source.encoding);
  }
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text.get(), &size);
  if (utf8 == nullptr) {
    PyErr_Clear();
    throw user_error("{} holds characters that UTF-8 cannot express", file);
  }
  source.text.assign(utf8, static_cast<size_t>(size));
  if (source.text.find('\0') != std::string::npos) {
    throw user_error("{} holds a null byte, so it is not a Python script", file);
  }
  return source;
}

std::string encode(const std::string& file, const SourceText& source) {
  if (source.encoding == "utf-8") return (source.mark ? "\xef\xbb\xbf" : "") + source.text;
  start();
  const Ref text(
      PyUnicode_DecodeUTF8(source.text.data(), static_cast<Py_ssize_t>(source.text.size()), "strict"));
  const Ref bytes(text ? PyUnicode_AsEncodedString(text.get(), source.encoding.c_str(), "strict") : nullptr);
  if (!bytes) {
    PyErr_Clear();
    throw user_error("the woven text of {} cannot be written in its encoding {}", file, source.encoding);
  }
  return {PyBytes_AsString(bytes.get()), static_cast<size_t>(PyBytes_Size(bytes.get()))};
}

namespace {

/// Python's own tree; null when the text is no program and Python has raised why.
Ref syntax(const std::string& file, const std::string& text) {
  start();
  PyCompilerFlags flags{};
  flags.cf_flags = PyCF_ONLY_AST | PyCF_IGNORE_COOKIE | PyCF_SOURCE_IS_UTF8;
  flags.cf_feature_version = PY_MINOR_VERSION;
  const Ref name(PyUnicode_DecodeFSDefault(file.c_str()));
  // Invalid escapes in strings are the author's affair: no warnings.
  if (PyObject* warnings = PySys_GetObject("warnoptions");
      warnings != nullptr && PyList_Size(warnings) == 0) {
    const Ref ignore(PyUnicode_FromString("ignore"));
    PyList_Append(warnings, ignore.get());
  }
  return Ref(Py_CompileStringObject(text.c_str(), name.get(), Py_file_input, &flags, -1));
}

/// Reads the files of a tree, in pieces or each as a whole; false when a piece is no program. Throws Error (user) when a whole
/// file is none.
bool read(Tree& tree, bool in_pieces) {
  Copy copy(tree);
  for (Part& part : tree.parts()) {
    const std::string_view text = std::string_view(tree.source()).substr(part.begin, part.end - part.begin);
    part.root = tree.add(Kind::module);
    part.root->begin = part.begin;
    part.root->end = part.end;
    std::vector<Node*> statements;
    size_t begin = part.begin;
    for (const std::string_view piece : in_pieces ? pieces(text) : std::vector<std::string_view>{text}) {
      const Ref module = syntax(part.name, std::string(piece));
      if (!module && in_pieces) {
        PyErr_Clear();
        return false;
      }
      if (!module) throw raised(part.name);
      const bool is_imported = &part != &tree.parts().back();
      copy.statements(module.get(), tree.line_of(begin), is_imported, *part.root, statements);
      begin += piece.size();
    }
    tree.set_body(*part.root, statements);
  }
  return true;
}

}  // namespace

Tree parse(std::vector<SourceFile> files) {
  Tree tree(files);
  if (read(tree, true)) return tree;
  Tree whole(std::move(files));
  read(whole, false);
  return whole;
}

namespace {

/// Python's table of the names of a program, which needs its parser but no tree of objects; null when it is none and Python has
/// raised why.
Ref table_of_names(const std::string& file, std::string_view text) {
  start();
  const Ref module(PyImport_ImportModule("_symtable"));
  const Ref source(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict"));
  const Ref name(PyUnicode_DecodeFSDefault(file.c_str()));
  if (!module || !source || !name) return nullptr;
  return Ref(PyObject_CallMethod(module.get(), "symtable", "OOs", source.get(), name.get(), "exec"));
}

}  // namespace

void check_syntax(const std::string& file, const std::string& text) {
  if (!table_of_names(file, text)) throw raised(file);
}

bool is_program(const std::string& text) {
  for (const std::string_view piece : pieces(text)) {
    if (table_of_names("", piece)) continue;
    PyErr_Clear();
    return false;
  }
  return true;
}

}  // namespace telar::weave
