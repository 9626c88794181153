#pragma once

#include <filesystem>
#include <optional>

#include "telar/train/child_process.h"

namespace telar::bench {

/// A process that does not outlive this object.
class Child {
 public:
  /// Throws Error (run) when it cannot be started.
  explicit Child(const ChildStart& what) : id_(start_child(what)) {}
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// As waitpid() gives it, when it has ended.
  std::optional<int> ended();
  void interrupt() const;
  /// Those that mpirun has started. mpirun itself would kill them soon after it was told, which may be in the middle of a checkpoint.
  void interrupt_its_children() const;
  /// With all processes of its group.
  void kill();

 private:
  int id_;
};

/// The sentence of a log's line "error: …", of several processes the first one's; without one, `ending` and the last lines. No full stop.
std::string sentence_in(const std::filesystem::path& log, const std::string& ending);

}  // namespace telar::bench
