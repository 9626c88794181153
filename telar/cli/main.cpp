#include <exception>

#include "telar/cli/errors.h"
#include "telar/cli/verbs.h"
#include "telar/core/error.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("Telar trains neural networks in parallel, described by a job file.", "telar");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.footer(
      "Example:\n  telar train examples/fashion_mnist.yaml --set training.epochs=3\n"
      "telar VERB --help says more about a verb.");
  telar::cli::Action action;
  telar::cli::add_train(app, action);
  telar::cli::add_evaluate(app, action);
  telar::cli::add_predict(app, action);
  telar::cli::add_devices(app, action);
  telar::cli::add_show(app, action);
  telar::cli::add_serve(app, action);
  telar::cli::add_work(app, action);
  telar::cli::add_weave(app, action);
  telar::cli::add_compare(app, action);
  telar::cli::add_bench(app, action);
  telar::cli::add_report(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& mistake) {
    throw telar::user_error("{}; telar --help and telar VERB --help say what there is", mistake.what());
  }
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return telar::cli::report(error);
  }
}
