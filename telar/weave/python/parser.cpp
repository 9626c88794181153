// Only the files python*.cpp use CPython's C interface. Its parser creates a tree, which is copied into ours,
// so no other code holds Python objects.
#include "telar/weave/python/parser.h"

#include <algorithm>
#include <cstdlib>

#include "telar/core/error.h"
#include "telar/weave/python/object.h"
#include "telar/weave/python/source_text.h"
#include "telar/weave/python/tree_copy.h"

namespace telar::weave {

namespace {

/// Starts the interpreter once, isolated: no environment, no user site, no signal handlers, no `site`.
void start() {
  if (Py_IsInitialized() != 0) return;
  // Python's objects use the heap that make_room() prepares, not their own mappings.
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
    throw run_error("the Python interpreter, whose parser weave uses, does not start: {}",
                    status.err_msg != nullptr ? status.err_msg : "no reason given");
  }
  // Trees have no cycles, and the search for cycles took a quarter of the time.
  PyGC_Disable();
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

/// The error as Python reports it: file, line, the line's text, a caret, the message.
Error raised(const std::string& file) {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const Ref owned_type(type);
  const Ref owned_value(value);
  const Ref owned_trace(trace);
  if (value == nullptr) return run_error("Python's parser failed on {} without a message", file);
  const std::string name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  if (PyErr_GivenExceptionMatches(type, PyExc_SyntaxError) == 0) {
    return user_error("{} cannot be parsed: {}: {}", file, name, text_of(value));
  }
  std::string text = attribute_text(value, "text");
  text = text.substr(0, text.find_last_not_of("\r\n") + 1);
  return syntax_error(file, attribute_number(value, "lineno"), text, attribute_number(value, "offset") - 1,
                      fmt::format("{}: {}", name, attribute_text(value, "msg")));
}

}  // namespace

Error syntax_error(const std::string& file, long line, std::string_view text, long column,
                   const std::string& message) {
  const size_t first = std::min(text.find_first_not_of(" \t\f"), text.size());
  std::string report = fmt::format("the file is not a valid Python {}.{} program\n  File \"{}\", line {}",
                                   PY_MAJOR_VERSION, PY_MINOR_VERSION, file, line);
  if (!text.empty()) {
    report += fmt::format("\n    {}", text.substr(first));
    const long caret = column - static_cast<long>(first);
    if (caret >= 0) report += "\n    " + std::string(static_cast<size_t>(caret), ' ') + "^";
  }
  return user_error("{}\n{}", report, message);
}

SourceText decode(const std::string& file, std::string_view bytes) {
  start();
  SourceText source;
  source.mark = bytes.starts_with("\xef\xbb\xbf");
  if (source.mark) bytes.remove_prefix(3);
  const std::string declared = declared_encoding(bytes);
  source.encoding = declared.empty() || is_utf8(declared) ? "utf-8" : declared;
  if (source.mark && source.encoding != "utf-8") {
    throw user_error("{} begins with a UTF-8 byte order mark, but declares the encoding {}", file, declared);
  }
  const Ref text(PyUnicode_Decode(bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                                  source.encoding.c_str(), "strict"));
  if (!text) {
    if (PyErr_ExceptionMatches(PyExc_LookupError) != 0) {
      PyErr_Clear();
      throw user_error("{} declares the encoding {}, which this Python does not know", file, declared);
    }
    PyErr_Clear();
    throw user_error(
        "{} is not text in {}; save it as UTF-8, or declare its encoding in the first line, as in # -*- coding: latin-1 -*-",
        file, source.encoding);
  }
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text.get(), &size);
  if (utf8 == nullptr) {
    PyErr_Clear();
    throw user_error("{} contains characters that UTF-8 cannot represent", file);
  }
  source.text.assign(utf8, static_cast<size_t>(size));
  if (source.text.find('\0') != std::string::npos) {
    throw user_error("{} contains a null byte, so it is not a Python script", file);
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

/// Python's tree; null if the text is not valid and Python has raised an error.
Ref syntax(const std::string& file, const std::string& text) {
  start();
  PyCompilerFlags flags{};
  flags.cf_flags = PyCF_ONLY_AST | PyCF_IGNORE_COOKIE | PyCF_SOURCE_IS_UTF8;
  flags.cf_feature_version = PY_MINOR_VERSION;
  const Ref name(PyUnicode_DecodeFSDefault(file.c_str()));
  // No warnings about invalid escapes in strings: they are the script's own.
  if (PyObject* warnings = PySys_GetObject("warnoptions");
      warnings != nullptr && PyList_Size(warnings) == 0) {
    const Ref ignore(PyUnicode_FromString("ignore"));
    PyList_Append(warnings, ignore.get());
  }
  return Ref(Py_CompileStringObject(text.c_str(), name.get(), Py_file_input, &flags, -1));
}

/// Reads the files of a tree, in pieces or as a whole. Returns false if a piece is not valid. Throws Error
/// (user) if a whole file is not.
bool read(Tree& tree, bool in_pieces) {
  TreeCopy copy(tree);
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
      copy.statements(module.get(), tree.line_of(begin), is_imported, *part.root, statements,
                      part.main_block);
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

/// Python's symbol table of a text, which needs the parser but no objects for the tree; null if the text is
/// not valid and Python has raised an error.
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
