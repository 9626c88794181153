#include "telar/cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "telar/cli/table.h"
#include "telar/io/disk.h"

namespace telar::cli {

void add_overrides(Verb& verb, std::vector<std::string>& overrides) {
  verb.option("--set", overrides, "Override a key of the job, as in training.epochs=3")
      .value_name("KEY=VALUE")
      .one_value_at_a_time();
}

std::string wrong_with_output(const std::string& file) {
  require_local(file);
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (std::filesystem::is_directory(file)) return file + " is a folder; give a file";
  if (!std::filesystem::is_directory(folder)) return "there is no folder " + folder.string();
  return ::access(folder.c_str(), W_OK) == 0 ? "" : "no permission to write in the folder " + folder.string();
}

std::string metrics_text(const Figures& figures, const std::vector<double>& values) {
  std::vector<std::string> parts;
  figures.for_each(values, [&](const Figure& figure, std::span<const double> numbers) {
    if (figure.shape.rank() == 0) parts.push_back(fmt::format("{} {:.4f}", figure.name, numbers[0]));
  });
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string tables_text(const Figures& figures, const std::vector<double>& values,
                        const std::vector<std::string>& classes) {
  using Cells = std::vector<std::string>;
  const auto class_text = [&](size_t i) { return i < classes.size() ? classes[i] : std::to_string(i); };
  std::vector<Cells> of_classes = {{"class"}};
  std::string matrices;
  figures.for_each(values, [&](const Figure& figure, std::span<const double> numbers) {
    if (figure.shape.rank() == 1) {
      of_classes[0].push_back(figure.name.substr(0, figure.name.find("_per_class")));
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (of_classes.size() == i + 1) of_classes.push_back({class_text(i)});
        of_classes[i + 1].push_back(std::isnan(numbers[i]) ? "-" : fmt::format("{:.4f}", numbers[i]));
      }
    } else if (figure.shape.rank() == 2) {
      std::vector<Cells> rows = {{"label \\ predicted"}};
      for (const std::vector<double>& row : rows_of(figure, numbers)) {
        rows[0].push_back(class_text(rows.size() - 1));
        rows.push_back({class_text(rows.size() - 1)});
        for (const double count : row) rows.back().push_back(fmt::format("{:.0f}", count));
      }
      matrices += table_text(rows, 1);
    }
  });
  return (of_classes.size() > 1 ? table_text(of_classes, 1) : "") + matrices;
}

}  // namespace telar::cli
