// The one file that knows CPython's C interface. Its parser makes the tree, which is copied into ours, so that nothing
// else holds a Python object.
#define PY_SSIZE_T_CLEAN
#include "telar/weave/python.h"

#include <Python.h>

#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "telar/core/error.h"

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

std::string text_of(PyObject* object) {
  if (object == nullptr || object == Py_None) return {};
  const Ref text(PyObject_Str(object));
  Py_ssize_t size = 0;
  const char* bytes = text ? PyUnicode_AsUTF8AndSize(text.get(), &size) : nullptr;
  if (bytes == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {bytes, static_cast<size_t>(size)};
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

bool is_cookie_character(char c) {
  return c == '-' || c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

/// The encoding that one of the first two lines names (PEP 263: `# -*- coding: latin-1 -*-`); empty when none does.
std::string declared_encoding(std::string_view bytes) {
  for (int line = 0; line < 2 && !bytes.empty(); ++line) {
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    const std::string_view text = bytes.substr(0, end);
    const size_t first = text.find_first_not_of(" \t\f");
    if (first != std::string_view::npos && text[first] != '#') return {};
    size_t at = first == std::string_view::npos ? first : text.find("coding", first);
    if (at != std::string_view::npos) at += 6;
    if (at < text.size() && (text[at] == ':' || text[at] == '=')) {
      do ++at;
      while (at < text.size() && (text[at] == ' ' || text[at] == '\t'));
      size_t stop = at;
      while (stop < text.size() && is_cookie_character(text[stop])) ++stop;
      if (stop > at) return std::string(text.substr(at, stop - at));
    }
    bytes.remove_prefix(end);
    if (bytes.starts_with("\r\n")) bytes.remove_prefix(1);
    if (!bytes.empty()) bytes.remove_prefix(1);
  }
  return {};
}

bool is_utf8(std::string name) {
  for (char& c : name) c = c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return name == "utf-8" || name == "utf8" || name == "utf-8-sig" || name.starts_with("utf-8-");
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

/// Copies a tree of Python's into ours.
class Copy {
 public:
  /// `first_line`: of the file within the tree. Of a file that is imported what it does as a script is left out.
  Copy(Tree& tree, int first_line, bool is_imported)
      : tree_(tree), lines_before_(first_line - 1), is_imported_(is_imported) {}

  Node* node(PyObject* object, bool inside_fstring) {
    const Shape& shape = shape_of(Py_TYPE(object));
    Node* copy = tree_.add(shape.kind);
    copy->inside_fstring = inside_fstring;
    place(object, shape, *copy);
    for (const auto& [field, name] : shape.fields) {
      const Ref value(PyObject_GetAttr(object, field));
      if (!value) {
        PyErr_Clear();
        continue;
      }
      add(*copy, name, value.get());
    }
    return copy;
  }

 private:
  struct Shape {
    Kind kind = Kind::other;
    bool has_place = false;
    std::vector<std::pair<PyObject*, std::string_view>> fields;  // names borrowed from the type
  };

  /// The kind and fields of a class of `ast`, asked for once.
  const Shape& shape_of(PyTypeObject* type) {
    const auto [at, is_new] = shapes_.try_emplace(type);
    if (!is_new) return at->second;
    const std::string_view full = type->tp_name;
    at->second.kind = kind_of(full.substr(full.rfind('.') + 1));
    const Ref attributes(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "_attributes"));
    at->second.has_place = attributes && PyTuple_Size(attributes.get()) > 0;
    const Ref fields(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "_fields"));
    for (Py_ssize_t i = 0; fields && i < PyTuple_Size(fields.get()); ++i) {
      PyObject* name = PyTuple_GetItem(fields.get(), i);
      const std::string text = text_of(name);
      if (text == "ctx" || text == "type_comment" || text == "type_ignores") {
        if (text == "ctx") at->second.fields.emplace_back(name, "ctx");
        continue;
      }
      at->second.fields.emplace_back(name, tree_.intern(text));
    }
    return at->second;
  }

  void place(PyObject* object, const Shape& shape, Node& copy) const {
    if (!shape.has_place) return;
    const auto number = [&](const Ref& name) {
      const Ref value(PyObject_GetAttr(object, name.get()));
      return value ? static_cast<int>(PyLong_AsLong(value.get())) : 0;
    };
    copy.line = lines_before_ + number(line_);
    copy.begin = tree_.offset(copy.line, number(column_));
    copy.end = tree_.offset(lines_before_ + number(end_line_), number(end_column_));
  }

  void add(Node& copy, std::string_view name, PyObject* value) {
    if (name == "ctx") {
      copy.store = std::string_view(Py_TYPE(value)->tp_name).find("Load") == std::string_view::npos;
    } else if (copy.kind == Kind::constant && name == "value") {
      constant(copy, value);
    } else if (PyList_Check(value)) {
      list(copy, name, value);
    } else if (PyUnicode_Check(value)) {
      (name == "asname" ? copy.as_name : copy.text) = text_of(value);
    } else if (PyLong_Check(value)) {
      if (name == "level") copy.level = static_cast<int>(PyLong_AsLong(value));
    } else if (value != Py_None) {
      attach(copy, name, value);
    }
  }

  void list(Node& copy, std::string_view name, PyObject* values) {
    const Py_ssize_t size = PyList_Size(values);
    if (size > 0 && PyUnicode_Check(PyList_GetItem(values, 0))) {
      for (Py_ssize_t i = 0; i < size; ++i) copy.global_names.push_back(text_of(PyList_GetItem(values, i)));
      return;
    }
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyObject* value = PyList_GetItem(values, i);
      if (is_imported_ && copy.is(Kind::module) && is_main_guard(value)) continue;
      attach(copy, name, value);
    }
  }

  void attach(Node& copy, std::string_view name, PyObject* value) {
    Node* below = nullptr;
    if (value != Py_None) {
      below = node(value, copy.inside_fstring || copy.kind == Kind::joined_str);
      below->parent = &copy;
      below->role = name;
    }
    const uint64_t key = key_of(name);
    if (copy.fields.empty() || copy.fields.back().key != key) copy.fields.push_back({key, {}});
    copy.fields.back().nodes.push_back(below);
  }

  static void constant(Node& copy, PyObject* value) {
    copy.literal = PyUnicode_Check(value) ? Literal::string
                   : PyBytes_Check(value) ? Literal::bytes
                   : PyBool_Check(value)  ? Literal::boolean
                   : value == Py_None     ? Literal::null
                   : value == Py_Ellipsis ? Literal::ellipsis
                                          : Literal::number;
    if (copy.literal == Literal::bytes) return;
    copy.text = value == Py_None ? "None" : text_of(value);
  }

  Tree& tree_;
  int lines_before_;
  bool is_imported_;
  Ref line_{PyUnicode_InternFromString("lineno")};
  Ref column_{PyUnicode_InternFromString("col_offset")};
  Ref end_line_{PyUnicode_InternFromString("end_lineno")};
  Ref end_column_{PyUnicode_InternFromString("end_col_offset")};
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

/// Python's own tree, or nothing when the text is no program and Python has raised why.
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
  Ref module(Py_CompileStringObject(text.c_str(), name.get(), Py_file_input, &flags, -1));
  if (!module) throw raised(file);
  return module;
}

}  // namespace

Tree parse(std::vector<SourceFile> files) {
  std::vector<Ref> modules;
  modules.reserve(files.size());
  for (const SourceFile& file : files) modules.push_back(syntax(file.name, file.text));
  Tree tree(std::move(files));
  for (size_t i = 0; i < modules.size(); ++i) {
    Part& part = tree.parts()[i];
    part.root = Copy(tree, part.first_line, i + 1 < modules.size()).node(modules[i].get(), false);
    part.root->begin = part.begin;
    part.root->end = part.end;
  }
  return tree;
}

void check_syntax(const std::string& file, const std::string& text) {
  start();
  // Python's table of names: it needs the parser, but no tree of objects.
  const Ref module(PyImport_ImportModule("_symtable"));
  const Ref source(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict"));
  const Ref name(PyUnicode_DecodeFSDefault(file.c_str()));
  if (!module || !source || !name) throw raised(file);
  const Ref table(PyObject_CallMethod(module.get(), "symtable", "OOs", source.get(), name.get(), "exec"));
  if (!table) throw raised(file);
}

}  // namespace telar::weave
