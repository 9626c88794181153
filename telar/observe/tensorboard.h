#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "telar/io/output_file.h"
#include "telar/observe/graph_nodes.h"

namespace telar {

/// Seconds since 1970, as TensorBoard's events carry them.
double wall_time_now();

/// Writes one TensorBoard event file, `FOLDER/events.out.tfevents.SECONDS.HOST`; a run has one for each time that it
/// was started. Events are collected and written by flush(), or once 64 KiB have come together.
/// Throws Error (run) when the file cannot be written.
class TensorBoardWriter {
 public:
  /// `folder` exists.
  explicit TensorBoardWriter(const std::filesystem::path& folder);
  /// Writes what is left; a failure at this point is lost, so call flush() or sync() at the end of a run.
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  /// `tag` groups curves by what stands before its "/": "train/loss".
  void add_scalar(const std::string& tag, int64_t step, double value, double wall_time = wall_time_now());
  /// The graph of the run, all workers in one list; see graph_nodes().
  void add_graph(const std::vector<GraphNode>& nodes);

  /// Says that a resumed run goes on after `step`: TensorBoard drops what the folder's earlier files hold of later
  /// steps. Before the first scalar.
  void add_resume(int64_t step);

  void flush();
  /// flush(), and waits until the bytes are on the storage device.
  void sync();

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void add_event(const std::string& event);
  void add_start(int64_t step);
  OutputFile file_;
  std::string waiting_;
};

}  // namespace telar
