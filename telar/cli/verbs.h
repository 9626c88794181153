#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace telar::cli {

/// What the chosen verb does; returns the exit code. Throws telar::Error.
using Action = std::function<int()>;

/// Each adds its verb with options and help, and sets `action` when the verb is chosen.
void add_train(CLI::App& app, Action& action);
void add_evaluate(CLI::App& app, Action& action);
void add_predict(CLI::App& app, Action& action);
void add_devices(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_work(CLI::App& app, Action& action);
void add_weave(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);

}  // namespace telar::cli
