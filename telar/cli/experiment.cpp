#include "telar/cli/experiment.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "telar/bench/report.h"
#include "telar/cli/result_text.h"
#include "telar/io/atomic_file.h"

namespace telar::cli {

namespace {

/// What is wrong with a file that will be written at the end, found before a long measurement and not after
/// it.
std::string wrong_with(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (std::filesystem::is_directory(file)) return file + " is a folder; give a file";
  if (!std::filesystem::is_directory(folder)) return "there is no folder " + folder.string();
  return ::access(folder.c_str(), W_OK) == 0 ? "" : "no permission to write in the folder " + folder.string();
}

}  // namespace

void add_result_files(Verb& verb, ResultFiles& files) {
  verb.option("--json", files.json, "Write the figures to this file as JSON").check(wrong_with);
  verb.option("--csv", files.csv, "Write the figures to this file as a CSV table").check(wrong_with);
  verb.option("--html", files.html, "Write the figures to this file as an HTML page").check(wrong_with);
}

void publish(const bench::Result& result, const ResultFiles& files) {
  std::cout << result_text(result) << std::flush;
  if (!files.json.empty()) write_file(files.json, json_text(result));
  if (!files.csv.empty()) write_file(files.csv, csv_text(result));
  if (!files.html.empty()) write_file(files.html, bench::report_page(result));
}

}  // namespace telar::cli
