#include "telar/cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

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

std::string metrics_text(const std::vector<std::string>& names, const std::vector<double>& means) {
  std::vector<std::string> parts;
  for (size_t m = 0; m < names.size(); ++m) parts.push_back(fmt::format("{} {:.4f}", names[m], means[m]));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace telar::cli
