#include "telar/cli/experiment.h"

#include <iostream>

#include "telar/bench/report.h"
#include "telar/cli/options.h"
#include "telar/cli/result_text.h"
#include "telar/io/atomic_file.h"

namespace telar::cli {

void add_result_files(Verb& verb, ResultFiles& files) {
  verb.option("--json", files.json, "Write the figures to this file as JSON").check(wrong_with_output);
  verb.option("--csv", files.csv, "Write the figures to this file as a CSV table").check(wrong_with_output);
  verb.option("--html", files.html, "Write the figures to this file as an HTML page")
      .check(wrong_with_output);
}

void publish(const bench::Result& result, const ResultFiles& files) {
  std::cout << result_text(result) << std::flush;
  if (!files.json.empty()) write_file(files.json, json_text(result));
  if (!files.csv.empty()) write_file(files.csv, csv_text(result));
  if (!files.html.empty()) write_file(files.html, bench::report_page(result));
}

}  // namespace telar::cli
