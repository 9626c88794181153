#include "telar/data/csv.h"

#include "telar/data/source.h"

namespace telar {

namespace {

char separator_of(const Attributes& options) {
  const std::string& name = options.text("separator");
  if (name == "semicolon") return ';';
  if (name == "tab") return '\t';
  return name == "space" ? ' ' : ',';
}

CsvOptions csv_options(const Attributes& options) {
  return {.header = options.flag("header"),
          .label = options.text("label"),
          .separator = separator_of(options),
          .classes = options.integer("classes")};
}

OpenedSource open_table(const SourceRequest& request, Split part) {
  const std::string& path = request.options.text(part == Split::train ? "path" : "test_path");
  if (path.empty()) return {};
  return {open_csv(path, csv_options(request.options))};
}

/// The table with a label 0 at the end of each line.
DatasetPtr csv_inputs(const InputFile& file, const Attributes* options) {
  const char separator = separator_of(*options);
  std::string text;
  const auto end_line = [&] {
    if (!text.empty() && text.back() != '\n') text += separator + std::string("0");
  };
  for (const uint8_t byte : file.bytes) {
    if (byte == '\r') continue;
    if (byte == '\n') end_line();
    text += static_cast<char>(byte);
  }
  end_line();
  return csv_from_text(
      text, {.header = options->flag("header"), .label = "-1", .separator = separator, .classes = 1},
      file.path);
}

}  // namespace

void register_csv(SourceRegistry& registry) {
  registry.add(
      {.name = "csv",
       .summary = "a table of numbers as text",
       .options =
           {path_option("path", "The file."), test_path_option(), classes_option(),
            samples_option(
                "label", "", {},
                "Label column: its name or its number (0 is the first, -1 the last). Empty: the last column."),
            samples_option("header", true, {}, "Whether line 1 contains column names."),
            samples_option("separator", "comma", {.choices = {"comma", "semicolon", "tab", "space"}},
                           "Separator between two cells.")},
       .paths = {"path", "test_path"},
       .test_paths = {"test_path"},
       .test_by_user = true,
       .open = open_table,
       .check = [](const Attributes& options) { require_path("csv", options); },
       .inputs = {.described = "a table", .open = csv_inputs}});
}

}  // namespace telar
