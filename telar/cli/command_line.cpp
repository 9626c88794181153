#include "telar/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "telar/comm/processes.h"
#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/train/job_keys.h"

namespace telar::cli {

namespace {

/// `telar help VERB` and `telar version`, as other programs have them, stand for the options.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return words;
  if (words[0] == "version") words[0] = "--version";
  if (words[0] != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

/// "telar bench train"
std::string full_name(const CLI::App& verb) {
  const CLI::App* parent = verb.get_parent();
  return parent == nullptr ? verb.get_name() : full_name(*parent) + " " + verb.get_name();
}

std::string hint(const std::string& word, const std::vector<std::string>& known) {
  const std::string meant = nearest(word, known);
  return meant.empty() ? "" : fmt::format("; did you mean {}?", meant);
}

/// "--learning-rate" for optimizer.learning_rate, as other programs have the keys of a job.
std::map<std::string, std::string> keys_as_options() {
  std::map<std::string, std::string> keys;
  for (const JobKey& key : job_keys()) {
    std::string name = key.path.substr(key.path.rfind('.') + 1);
    std::ranges::replace(name, '_', '-');
    keys.emplace("--" + name, key.path);
  }
  return keys;
}

/// Throws Error (user) if `word` is not an option of `verb`, which is called `name`.
void check_option(const CLI::App& verb, const std::string& name, const std::string& word) {
  const std::string option = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* one : verb.get_options())
    for (const std::string& known_name : one->get_lnames()) known.push_back("--" + known_name);
  if (std::find(known.begin(), known.end(), option) != known.end()) return;
  const bool of_job = std::find(known.begin(), known.end(), "--set") != known.end();
  const auto keys = of_job ? keys_as_options() : std::map<std::string, std::string>{};
  for (const auto& [one, key] : keys) known.push_back(one);
  std::string meant = nearest(option, known);
  if (const auto key = keys.find(meant); key != keys.end()) meant = "--set " + key->second + "=VALUE";
  throw user_error("{} has no option {}{}; see {} --help{}", name, option,
                   meant.empty() ? "" : "; did you mean " + meant + "?", name,
                   of_job ? "; keys of the job are given as --set training.epochs=3 (docs/job.md)" : "");
}

/// Throws Error (user) for the first verb or long option that does not exist. (CLI11 would first report a
/// missing argument.)
void check_words(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* verb = &program;
  std::string name = program.get_name();
  for (const std::string& word : words) {
    if (word == "--") return;
    if (word.starts_with("--")) check_option(*verb, name, word);
    if (word.starts_with('-') || verb->get_require_subcommand_min() == 0) continue;
    std::vector<std::string> verbs;
    const CLI::App* found = nullptr;
    for (const CLI::App* one : verb->get_subcommands([](const CLI::App*) { return true; })) {
      verbs.push_back(one->get_name());
      if (one->get_name() == word) found = one;
    }
    if (found == nullptr)
      throw user_error("{} has no verb '{}'{}; it has {}", name, word, hint(word, verbs), one_of(verbs));
    verb = found;
    name += " " + word;
  }
}

}  // namespace

Option& Option::required() {
  option_.required();
  return *this;
}

Option& Option::comma_separated() {
  option_.delimiter(',');
  return *this;
}

Option& Option::one_value_at_a_time() {
  option_.allow_extra_args(false);
  return *this;
}

Option& Option::value_optional() {
  option_.expected(0, 1);
  return *this;
}

Option& Option::value_name(const std::string& name) {
  option_.type_name(name);
  return *this;
}

Option& Option::show_default() {
  option_.capture_default_str();
  return *this;
}

Option& Option::hidden() {
  option_.group("");
  return *this;
}

Option& Option::between(int least, int most) {
  option_.check(CLI::Range(least, most));
  return *this;
}

Option& Option::between(double least, double most) {
  option_.check(CLI::Range(least, most));
  return *this;
}

Option& Option::not_negative() {
  return check([](const std::string& value) -> std::string {
    double number = 0;
    if (CLI::detail::lexical_cast(value, number) && number >= 0 && std::isfinite(number)) return {};
    return fmt::format("{} is no number of at least 0", value);
  });
}

Option& Option::one_of(std::initializer_list<std::string> words) {
  option_.check(CLI::IsMember(words));
  return *this;
}

Option& Option::check(const std::function<std::string(const std::string& value)>& wrong_with) {
  option_.check(wrong_with);
  return *this;
}

Option& Option::needs(const Option& other) {
  option_.needs(&other.option_);
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_.excludes(&other.option_);
  return *this;
}

bool Option::given() const { return option_.count() > 0; }

Option Verb::option(const std::string& names, std::string& value, const std::string& help) {
  return Option(*app_.add_option(names, value, help));
}

Option Verb::option(const std::string& names, std::filesystem::path& value, const std::string& help) {
  return Option(*app_.add_option(names, value, help));
}

Option Verb::option(const std::string& names, int& value, const std::string& help) {
  return Option(*app_.add_option(names, value, help));
}

Option Verb::option(const std::string& names, int64_t& value, const std::string& help) {
  return Option(*app_.add_option(names, value, help));
}

Option Verb::option(const std::string& names, double& value, const std::string& help) {
  return Option(*app_.add_option(names, value, help));
}

Option Verb::option(const std::string& names, std::vector<std::string>& values, const std::string& help) {
  return Option(*app_.add_option(names, values, help));
}

Option Verb::option(const std::string& names, std::vector<int>& values, const std::string& help) {
  return Option(*app_.add_option(names, values, help));
}

Option Verb::option(const std::string& names, std::vector<int64_t>& values, const std::string& help) {
  return Option(*app_.add_option(names, values, help));
}

Option Verb::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(*app_.add_flag(names, value, help));
}

void Verb::footer(const std::string& text) { app_.footer(text); }

void Verb::action(Action action) {
  action_of_each_process([&app = app_, action = std::move(action)] {
    require_started_alone(
        fmt::format("'{}' works in one process, so each would do the whole: start it once", full_name(app)));
    return action();
  });
}

void Verb::action_of_each_process(Action action) {
  app_.callback([&chosen = chosen_, action = std::move(action)] { chosen = action; });
}

Verb Verb::subverb(const std::string& name, const std::string& help) {
  return {*app_.add_subcommand(name, help), chosen_};
}

void Verb::require_subverb() { app_.require_subcommand(1); }

CommandLine::CommandLine(const std::string& name, const std::string& help, const std::string& version)
    : app_(std::make_unique<CLI::App>(help, name)) {
  app_->set_version_flag("--version", version, "Print the version and exit");
}

CommandLine::~CommandLine() = default;

Verb CommandLine::program() { return {*app_, chosen_}; }

int CommandLine::run(int argc, char** argv) {
  try {
    std::vector<std::string> words = words_of(argc, argv);
    check_words(*app_, words);
    std::reverse(words.begin(), words.end());  // as CLI11 expects them
    app_->parse(std::move(words));
  } catch (const CLI::Success& asked) {
    return app_->exit(asked);  // help or version
  } catch (const CLI::ParseError& mistake) {
    throw user_error("{}; see telar --help and telar VERB --help", mistake.what());
  }
  return chosen_();
}

}  // namespace telar::cli
