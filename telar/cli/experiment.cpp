#include "telar/cli/experiment.h"

#include <iostream>

#include "telar/bench/report.h"
#include "telar/cli/result_text.h"
#include "telar/io/atomic_file.h"

namespace telar::cli {

void add_result_files(CLI::App& verb, ResultFiles& files) {
  verb.add_option("--json", files.json, "Write the figures to this file");
  verb.add_option("--csv", files.csv, "Write them to this file as a table");
  verb.add_option("--html", files.html, "Write them to this file as a page for a browser");
}

void publish(const bench::Result& result, const ResultFiles& files) {
  std::cout << result_text(result) << std::flush;
  if (!files.json.empty()) write_file(files.json, json_text(result));
  if (!files.csv.empty()) write_file(files.csv, csv_text(result));
  if (!files.html.empty()) write_file(files.html, bench::report_page(result));
}

}  // namespace telar::cli
