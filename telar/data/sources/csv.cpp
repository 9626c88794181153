#include "telar/data/csv.h"

#include <algorithm>
#include <utility>

#include "telar/data/source.h"

namespace telar {

namespace {

char separator_of(const Attributes& options) {
  const std::string& name = options.text("separator");
  if (name == "semicolon") return ';';
  if (name == "tab") return '\t';
  return name == "space" ? ' ' : ',';
}

CsvHeader header_of(const Attributes& options) {
  const std::string& header = options.text("header");
  if (header == "auto") return CsvHeader::automatic;
  return header == "true" ? CsvHeader::present : CsvHeader::absent;
}

CsvOptions csv_options(const Attributes& options, CsvUse use) {
  return {.header = header_of(options),
          .label = options.text("label"),
          .separator = separator_of(options),
          .classes = options.integer("classes"),
          .columns = options.texts("columns"),
          .use = use};
}

Option header_option() {
  Option option = samples_option("header", "auto", {.choices = {"auto", "true", "false"}},
                                 "Whether line 1 contains the names of the columns. auto: its contents tell, "
                                 "and the job is refused if they may be either.");
  option.on_resume = OnResume::free;  // columns and number of samples say whether it is the same
  option.because = "";
  return option;
}

OpenedSource opened(CsvTable table) {
  OpenedSource source{.samples = std::move(table.samples), .notes = std::move(table.notes)};
  if (!table.columns.empty()) source.decided.set("columns", std::move(table.columns));
  if (!table.label.empty()) source.decided.set("label", std::move(table.label));
  return source;
}

OpenedSource open_table(const SourceRequest& request, Split part) {
  const std::string& path = request.options.text(part == Split::train ? "path" : "test_path");
  if (path.empty()) return {};
  const CsvUse use = part == Split::train ? CsvUse::train : CsvUse::test;
  return opened(open_csv(path, csv_options(request.options, use)));
}

DatasetPtr csv_inputs(const InputFile& file, const Attributes* options) {
  CsvTable table = csv_from_text({reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()},
                                 csv_options(*options, CsvUse::predict), file.path);
  if (file.note) std::ranges::for_each(table.notes, file.note);
  return std::move(table.samples);
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
            samples_option("columns", std::vector<std::string>{}, {},
                           "Names of the columns that are features, in the order in which the model takes "
                           "them. Empty: all except the label's. A run records them, and finds them by name "
                           "in the tables on which it is tested or predicts."),
            header_option(),
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
