#pragma once

#include <filesystem>
#include <optional>

#include "telar/observe/child_process.h"
#include "telar/observe/stop_request.h"

namespace telar::bench {

/// A process that is killed when this object is destroyed, or by a second Ctrl-C.
class Child {
 public:
  /// Throws Error (run) if it cannot be started.
  explicit Child(const ChildStart& what) : id_(start_child(what)), ends_with_us_(id_) {}
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The status from waitpid() if it has ended.
  std::optional<int> ended();
  void interrupt() const;
  /// Sends SIGINT to the processes that mpirun has started. If mpirun itself were interrupted, it would soon
  /// kill them, possibly in the middle of a checkpoint.
  void interrupt_its_children() const;
  /// Kills all processes of its group.
  void kill();

 private:
  int id_;
  EndsWithThisProcess ends_with_us_;
};

/// The message from the first line "error: …" of a log. If there is none: `ending` and the last lines.
/// Without a full stop.
std::string sentence_in(const std::filesystem::path& log, const std::string& ending);

}  // namespace telar::bench
