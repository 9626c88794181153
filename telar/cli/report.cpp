#include <filesystem>
#include <iostream>
#include <memory>

#include "telar/bench/report.h"
#include "telar/cli/verbs.h"
#include "telar/io/atomic_file.h"

namespace telar::cli {

namespace {

struct ReportArguments {
  std::vector<std::string> sources;
  std::string output = "report.html";
  std::string title = "Telar report";
};

int write_report(const ReportArguments& arguments) {
  const std::vector<std::filesystem::path> sources(arguments.sources.begin(), arguments.sources.end());
  write_file(arguments.output, bench::report_page(sources, arguments.title));
  std::cout << "Wrote " << arguments.output << ".\n";
  return 0;
}

}  // namespace

void add_report(Verb& program) {
  auto arguments = std::make_shared<ReportArguments>();
  Verb verb = program.subverb("report", "Writes a page of tables and curves from runs and results");
  verb.option("source", arguments->sources,
              "Run folders, and result files that telar bench has written with --json")
      .required();
  verb.option("-o,--output", arguments->output, "File to write (report.html)");
  verb.option("--title", arguments->title, "Title of the page (Telar report)");
  verb.footer(
      "Example:\n  telar report runs/fashion_mnist-1 runs/fashion_mnist-2 matmul.json -o report.html\n"
      "The page is one file that needs no network. It has sortable tables, curves of loss and accuracy by samples and by time,\n"
      "and rates with their spread.");
  verb.action([arguments] { return write_report(*arguments); });
}

}  // namespace telar::cli
