#include <exception>
#include <string>

#include "telar/cli/errors.h"
#include "telar/cli/standard_output.h"
#include "telar/cli/verbs.h"
#include "telar/core/version.h"

namespace {

int run(int argc, char** argv) {
  telar::cli::CommandLine line("telar",
                               "Telar trains neural networks in parallel, as described in a job file.",
                               std::string("telar ") + telar::version());
  telar::cli::Verb program = line.program();
  program.require_subverb();
  program.footer(
      "Example:\n  telar train examples/fashion_mnist.yaml --set training.epochs=3\n"
      "Run telar VERB --help for details of a verb.");
  telar::cli::add_init(program);
  telar::cli::add_train(program);
  telar::cli::add_launch(program);
  telar::cli::add_evaluate(program);
  telar::cli::add_predict(program);
  telar::cli::add_export(program);
  telar::cli::add_devices(program);
  telar::cli::add_show(program);
  telar::cli::add_serve(program);
  telar::cli::add_work(program);
  telar::cli::add_weave(program);
  telar::cli::add_compare(program);
  telar::cli::add_sweep(program);
  telar::cli::add_find_rate(program);
  telar::cli::add_bench(program);
  telar::cli::add_report(program);
  telar::cli::add_publish(program);
  return line.run(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  telar::cli::StandardOutput output;
  int code = 0;
  try {
    code = run(argc, argv);
  } catch (const std::exception& error) {
    code = telar::cli::report(error);
  }
  return output.finish(code);
}
