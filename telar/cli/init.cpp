#include <filesystem>
#include <iostream>
#include <memory>

#include "telar/cli/options.h"
#include "telar/cli/verbs.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/train/job_checks.h"
#include "telar/train/job_draft.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_report.h"

namespace telar::cli {

namespace {

struct InitArguments {
  std::filesystem::path data;
  std::string label;
  std::string out;
};

int init(const InitArguments& arguments) {
  std::filesystem::path data = arguments.data;
  if (!data.has_filename()) data = data.parent_path();  // "photos/"
  if (data.empty()) throw user_error("DATA is empty; give a table or a folder");
  std::filesystem::path named = std::filesystem::absolute(data).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // "."
  const std::string out = arguments.out.empty() ? run_name_of(named.stem().stem()) + ".yaml" : arguments.out;
  if (std::filesystem::exists(out)) throw user_error("{} exists; --out names another file", out);
  const JobDraft draft = draft_job(data, arguments.label);
  write_file(out, draft.text);
  std::cout << out << " is written\n" << draft.text << std::flush;
  for (const std::string& problem : draft.problems) std::cerr << "to check: " << problem << std::endl;
  try {
    std::cout << job_report(
                     read_job(out),
                     [](const std::string& warning) { std::cerr << "warning: " << warning << std::endl; })
              << "train it with: telar train " << out << std::endl;
  } catch (const Error& error) {
    throw user_error("{} cannot be trained yet: {}", out, error.what());
  }
  return 0;
}

}  // namespace

void add_init(Verb& program) {
  auto arguments = std::make_shared<InitArguments>();
  Verb verb = program.subverb("init", "Writes a job file for a table or a folder of images");
  verb.option("DATA", arguments->data, "A CSV table, or a folder with one subfolder of images for each class")
      .required();
  verb.option("--label", arguments->label, "Of a table: the name of the label's column");
  verb.option("--out", arguments->out, "The job file; without it, NAME.yaml for NAME.csv")
      .check(wrong_with_output);
  verb.footer(
      "Examples:\n"
      "  telar init houses.csv --label price\n"
      "  telar init photos --out photos.yaml\n"
      "It looks at all samples, says what is not clear, and checks the job that it has written.");
  verb.action([arguments] { return init(*arguments); });
}

}  // namespace telar::cli
