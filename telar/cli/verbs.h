#pragma once

#include "telar/cli/command_line.h"

namespace telar::cli {

/// Each function adds a verb, with its options, help and action, to the program.
void add_init(Verb& program);
void add_train(Verb& program);
void add_evaluate(Verb& program);
void add_predict(Verb& program);
void add_export(Verb& program);
void add_devices(Verb& program);
void add_show(Verb& program);
void add_launch(Verb& program);
void add_serve(Verb& program);
void add_work(Verb& program);
void add_weave(Verb& program);
void add_bench(Verb& program);
void add_report(Verb& program);
void add_compare(Verb& program);
void add_sweep(Verb& program);
void add_find_rate(Verb& program);
void add_publish(Verb& program);

}  // namespace telar::cli
