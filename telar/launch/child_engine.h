#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/launch/engine.h"
#include "telar/observe/child_process.h"

namespace telar {

/// Runs each process by a child of this one: the process itself, or a program that runs it on another host
/// and passes standard input and output on, as ssh and srun do. Errors of the processes appear where those of
/// this one do.
class ChildEngine : public LaunchEngine {
 public:
  ~ChildEngine() override;
  ChildEngine(const ChildEngine&) = delete;
  ChildEngine& operator=(const ChildEngine&) = delete;

  int start(const LaunchSlot& slot, const LaunchCommand& command) final;
  std::vector<LaunchEvent> poll() final;
  void stop(int process, bool at_once) final;

 protected:
  struct Launched {
    ChildStart start;
    std::string input = {};  ///< what it is given on its standard input at once
  };
  ChildEngine();
  virtual Launched launched(const LaunchSlot& slot, const LaunchCommand& command) = 0;
  /// `code`: of the child, as a shell reports it.
  virtual LaunchEnding ending(const LaunchSlot& slot, int code) = 0;
  /// Sent to the child and to what it has started, to kill the process.
  virtual int killing_signal() const;

 private:
  struct Child;
  std::vector<std::unique_ptr<Child>> children_;  ///< by the number of their process; null: reported as ended
};

}  // namespace telar
