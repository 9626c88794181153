#include "telar/data/tables/csv.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
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

/// `training_rows`: see CsvOptions; empty for a table whose columns are those of a model.
CsvOptions csv_options(const Attributes& options, CsvUse use, TrainingRows training_rows,
                       SplitBy split = SplitBy::random) {
  return {.header = header_of(options),
          .label = options.text("label"),
          .targets = options.texts("targets"),
          .separator = separator_of(options),
          .classes = options.integer("classes"),
          .columns = options.texts("columns"),
          .use = use,
          .drop = options.texts("drop"),
          .kinds = options.texts("kinds"),
          .class_names = options.texts("class_names"),
          .encoding = options.texts("encoding"),
          .training_rows = std::move(training_rows),
          .split = split,
          .split_column = options.text("split_column")};
}

Option header_option() {
  Option option = samples_option("header", "auto", {.choices = {"auto", "true", "false"}},
                                 "Whether line 1 contains the names of the columns. auto: its contents tell, "
                                 "and the job is refused if they may be either.");
  option.on_resume = OnResume::free;  // columns and number of samples say whether it is the same
  option.because = "";
  return option;
}

Option counted_classes_option() {
  Option option = samples_option(
      "classes", kCountedClasses, {.least = kCountedClasses, .most = 1e6},
      "Number of classes; labels are 0 … classes − 1, or texts. 0: regression. -1: as many as the table has labels.");
  return option;
}

OpenedSource opened(CsvTable table) {
  OpenedSource source{.samples = std::move(table.samples),
                      .notes = std::move(table.notes),
                      .described = std::move(table.described),
                      .keys = std::move(table.keys)};
  source.decided.set("classes", table.classes);
  const auto& class_names = source.samples->spec().class_names;
  if (!class_names.empty()) source.decided.set("class_names", class_names);
  if (!table.encoding.empty()) source.decided.set("encoding", std::move(table.encoding));
  if (!table.columns.empty()) source.decided.set("columns", std::move(table.columns));
  if (!table.label.empty()) source.decided.set("label", std::move(table.label));
  return source;
}

OpenedSource open_table(const SourceRequest& request, Split part) {
  const std::string& path = request.options.text(part == Split::train ? "path" : "test_path");
  if (path.empty()) return {};
  const CsvUse use = part == Split::train ? CsvUse::train : CsvUse::test;
  const bool decides = part == Split::train && request.training_rows;
  CsvTable table = open_csv(
      path,
      csv_options(request.options, use, decides ? request.training_rows : TrainingRows{}, request.split));
  return opened(std::move(table));
}

DatasetPtr csv_inputs(const InputFile& file, const Attributes* options) {
  CsvTable table = csv_from_text({reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()},
                                 csv_options(*options, CsvUse::predict, {}), file.path);
  if (file.keep) std::ranges::for_each(table.kept, file.keep);
  if (file.note) std::ranges::for_each(table.notes, file.note);
  return std::move(table.samples);
}

void check_csv(const Attributes& options) {
  require_path("csv", options);
  if (options.texts("targets").empty()) return;
  if (!options.text("label").empty())
    throw OptionError("targets",
                      "data.targets and data.label are given; data.targets names all columns of the label");
  if (options.integer("classes") > 0)
    throw OptionError("targets",
                      fmt::format("data.targets are numbers to learn, but data.classes is {}; leave it out",
                                  options.integer("classes")));
}

/// Of a file of text, whatever is in it.
std::optional<SourceDraft> draft_csv(const std::string& path, const std::string& label) {
  constexpr size_t kLook = 4096;
  if (std::filesystem::is_directory(path)) return std::nullopt;
  const Bytes bytes = read_unpacked(path);
  const auto head = std::span(bytes).first(std::min(kLook, bytes.size()));
  if (std::ranges::find(head, uint8_t{0}) != head.end()) return std::nullopt;
  return draft_of_table(path, label);
}

}  // namespace

void register_csv(SourceRegistry& registry) {
  registry.add(
      {.name = "csv",
       .summary = "a table as text",
       .options =
           {path_option("path", "The file."), test_path_option(), counted_classes_option(),
            samples_option(
                "label", "", {},
                "Label column: its name or its number (0 is the first, -1 the last). Empty: the last column."),
            samples_option("targets", std::vector<std::string>{}, {},
                           "Names of several columns that are the label: numbers, which one model learns "
                           "together. In the place of `data.label`."),
            samples_option("columns", std::vector<std::string>{}, {},
                           "Names of the columns that are features, in the order in which the model takes "
                           "them. Empty: all except the label's. A run records them, and finds them by name "
                           "in the tables on which it is tested or predicts."),
            samples_option(
                "drop", std::vector<std::string>{}, {},
                "Names of columns that are no features, such as a number of the row. `telar predict` "
                "writes them beside its predictions."),
            samples_option(
                "kinds", std::vector<std::string>{}, {.group = true},
                "What columns are, if not what their cells tell: `{zip: category, day: date_dmy}`. "
                "number, decimal_comma, thousands, boolean, category, date, date_dmy, date_mdy or "
                "left_out; see below."),
            samples_option(
                "encoding", std::vector<std::string>{}, {},
                "How the cells of each column become numbers, as JSON. Decided by the training rows "
                "and recorded by a run; not to be written by hand."),
            samples_option(
                "class_names", std::vector<std::string>{}, {},
                "The labels, if they are texts, in the order of the classes. Empty: found in the table, "
                "and sorted."),
            samples_option(
                "split_column", "", {},
                "Name of the column that `data.split` goes by. It is no feature, unless it is that of "
                "times. Empty: with `data.split: time`, rows are in the order of their times."),
            header_option(),
            samples_option("separator", "comma", {.choices = {"comma", "semicolon", "tab", "space"}},
                           "Separator between two cells.")},
       .paths = {"path", "test_path"},
       .test_paths = {"test_path"},
       .test_by_user = true,
       .open = open_table,
       .check = check_csv,
       .inputs = {.described = "a table", .open = csv_inputs},
       .draft = draft_csv});
}

}  // namespace telar
