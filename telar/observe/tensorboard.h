#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "telar/io/output_file.h"
#include "telar/observe/graph_nodes.h"

namespace telar {

/// Seconds since 1970, as in TensorBoard's events.
double wall_time_now();

/// Writes one TensorBoard event file, `FOLDER/events.out.tfevents.SECONDS.HOST`. A run has one such file for
/// each start. Events are written by flush() or when 64 KiB have accumulated. Throws an Error if the file
/// cannot be written; the events that were to be written are then lost, and later ones can follow.
class TensorBoardWriter {
 public:
  /// `folder` must exist.
  explicit TensorBoardWriter(const std::filesystem::path& folder);
  /// Writes the remaining events. Errors are ignored here, so call flush() or sync() at the end of a run.
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  /// The part of `tag` before its "/" groups the curves: "train/loss".
  void add_scalar(const std::string& tag, int64_t step, double value, double wall_time = wall_time_now());
  /// Adds the graph of the run, all workers in one list; see graph_nodes().
  void add_graph(const std::vector<GraphNode>& nodes);

  /// Marks that a resumed run continues after `step`: TensorBoard drops later steps of the folder's earlier
  /// files. Call before the first scalar.
  void add_resume(int64_t step);

  void flush();
  /// Like flush(), but waits until the bytes are on the storage device.
  void sync();

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void add_event(const std::string& event);
  void add_start(int64_t step);
  OutputFile file_;
  std::string waiting_;
};

}  // namespace telar
