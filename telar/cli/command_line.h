#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

// CLI11. Its single header takes seconds to compile; only command_line.cpp includes it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace telar::cli {

/// What a verb does; returns the exit code. Throws telar::Error.
using Action = std::function<int()>;

/// An option or a positional argument of a verb. Each call below adds a property or a rule and returns the
/// option, so that calls can be chained. A command line that breaks a rule is a user error.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}

  /// The option must be given.
  Option& required();
  /// One word may hold several values: 1,2,4.
  Option& comma_separated();
  /// For an option that collects values: each use takes exactly one, and the next word is a separate
  /// argument.
  Option& one_value_at_a_time();
  /// The option may be given without a value; the value is then empty.
  Option& value_optional();

  /// The help calls its value `name` ("KEY=VALUE") instead of its type.
  Option& value_name(const std::string& name);
  /// The help shows the current value of the variable as the default.
  Option& show_default();
  /// The help omits the option.
  Option& hidden();

  /// The values are numbers from `least` to `most`, both included.
  Option& between(int least, int most);
  Option& between(double least, double most);
  Option& not_negative();
  /// The values are among these words.
  Option& one_of(std::initializer_list<std::string> words);
  /// `wrong_with` returns what is wrong with a value, or an empty text.
  Option& check(const std::function<std::string(const std::string& value)>& wrong_with);

  /// The option may be given only together with `other`.
  Option& needs(const Option& other);
  /// The option may not be given together with `other`.
  Option& excludes(const Option& other);

  /// Whether the command line has the option. Valid when the action runs.
  bool given() const;

 private:
  CLI::Option& option_;
};

/// Describes the command line of a verb, or of the program itself: options, help and action. `names` of an
/// option are "--data" or "-o,--output"; a bare word ("JOB") is a positional argument. The help lists options
/// in the order of these calls. A variable keeps its value if its option is not given, and must outlive
/// CommandLine::run.
class Verb {
 public:
  Verb(CLI::App& app, Action& chosen) : app_(app), chosen_(chosen) {}

  Option option(const std::string& names, std::string& value, const std::string& help);
  Option option(const std::string& names, std::filesystem::path& value, const std::string& help);
  Option option(const std::string& names, int& value, const std::string& help);
  Option option(const std::string& names, int64_t& value, const std::string& help);
  Option option(const std::string& names, double& value, const std::string& help);
  /// Any number of values.
  Option option(const std::string& names, std::vector<std::string>& values, const std::string& help);
  Option option(const std::string& names, std::vector<int>& values, const std::string& help);
  Option option(const std::string& names, std::vector<int64_t>& values, const std::string& help);
  /// Sets `value` to true; a name with "!" before it ("!--no-steps") sets false.
  Option flag(const std::string& names, bool& value, const std::string& help);

  /// Text at the end of the help: examples, exit codes.
  void footer(const std::string& text);
  /// Runs when the command line chooses this verb. A user error if a launcher has started several processes:
  /// each would do the whole.
  void action(Action action);
  /// The same for a verb that several processes may run, together or each for itself.
  void action_of_each_process(Action action);

  Verb subverb(const std::string& name, const std::string& help);
  /// The command line must choose exactly one of the subverbs.
  void require_subverb();

 private:
  CLI::App& app_;
  Action& chosen_;
};

/// The command line of a program: its verbs, --version, and --help for each of them.
class CommandLine {
 public:
  /// `help`: a sentence that states what the program does. `version`: the line that --version prints.
  CommandLine(const std::string& name, const std::string& help, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// The program itself; verbs are added to it.
  Verb program();
  /// Runs the action of the chosen verb, or prints the help or the version. Returns the exit code. Throws
  /// Error (user) for a command line that breaks its description, and whatever the action throws.
  int run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

}  // namespace telar::cli
