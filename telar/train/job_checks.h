#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "telar/train/job.h"

namespace telar {

/// Fills in defaults that depend on other keys: the strategy's options, the learning rate, the rate at the
/// start of the warm-up, epsilon, the path of Fashion-MNIST.
void fill_in_defaults(Job& job);

/// Whether runs may have this name, which becomes part of the name of their folder: at most 100 bytes,
/// without slashes and control characters, beginning with a letter, a digit or _.
bool is_run_name(std::string_view name);

/// A name for the runs of a job without a name: that of its file, with _ for what no name may have.
std::string run_name_of(const std::filesystem::path& file);

/// Checks what involves several keys. `where` returns the position of a key, for messages. Throws Error
/// (user).
void check_job(const Job& job, const std::function<std::string(const std::string& key)>& where);

}  // namespace telar
