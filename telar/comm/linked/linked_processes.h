#pragma once

#include <memory>
#include <vector>

#include "telar/comm/linked/links.h"
#include "telar/comm/linked/shared_mailboxes.h"
#include "telar/comm/linked/shared_windows.h"
#include "telar/comm/linked/watch.h"
#include "telar/comm/processes.h"

namespace telar {

/// Processes that reach each other by links.
class LinkedProcesses final : public Processes {
 public:
  /// Waits for all, unless this process ends `alone`: then meet_neighbours() must follow.
  explicit LinkedProcesses(std::unique_ptr<ProcessLinks> links, Ending ending = Ending::together);
  /// Opens the memory that the processes of this host share. Waits for all of them.
  void meet_neighbours();

  int rank() const override { return links_->rank(); }
  int size() const override { return links_->size(); }
  int on_this_host() const override;
  int index_on_this_host() const override;

  void broadcast(std::span<std::byte> bytes, int from) override;
  int lowest(int value) override;
  void lowest(std::span<float> values) override;
  void sleep_until_all_come() override;
  void library_all_reduce(std::span<float> values) override { links_->all_reduce(values); }

  std::unique_ptr<Group> join(Group& local) override;
  std::unique_ptr<Group> join_some(Group& local, const std::vector<int>& ranks, int channel) override;
  std::unique_ptr<Transfer> message_to(int rank, int tag, std::span<const std::byte> bytes) override;
  std::unique_ptr<Transfer> message_from(int rank, int tag, std::span<std::byte> bytes) override;

  void share_memory(bool share) override { share_memory_ = share; }
  void when_lost(std::function<void(const Error&)> last_resort) override {
    watch_.when_lost(std::move(last_resort));
  }
  void check() const override { watch_.check(); }
  bool silent(int rank) const { return watch_.silent(rank); }
  void abort(int code, const std::string& why) override { links_->abort(code, why); }

 private:
  bool on_one_host(const std::vector<int>& ranks) const;
  bool have_box(int rank, int tag) const;
  bool in_windows(size_t bytes) const;
  void gather_rows_of_all(std::span<std::byte> rows);

  std::unique_ptr<ProcessLinks> links_;
  Watch watch_;
  std::vector<int> all_;                        ///< ranks
  std::vector<int> neighbours_;                 ///< ranks on this host, with this one
  std::unique_ptr<SharedMailboxes> mailboxes_;  ///< null: the neighbours cannot see each other's memory
  std::unique_ptr<SharedWindows> windows_;      ///< null: or not all processes are on this host
  bool share_memory_ = true;
};

}  // namespace telar
