#include "telar/comm/store/local_store.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "telar/comm/store/held_store.h"
#include "telar/comm/store/store_session.h"
#include "telar/comm/store/store_window.h"
#include "telar/core/error.h"
#include "telar/core/memory_limit.h"

namespace telar {
namespace {

/// A thread of this process does not vanish unnoticed: its store is destroyed, and nobody waits for it then.
/// So a member that is silent for long is at work.
constexpr double kRoundSeconds = 3600;
constexpr std::chrono::milliseconds kWaitTick{50};

const std::string kWho = "The parameter server of this process";

/// The requests go to a StoreSession, as they do behind a network; another thread plays the server's part.
class LocalStore final : public Store {
 public:
  LocalStore(std::shared_ptr<HeldStore> held, uint32_t member, std::stop_token stop)
      : held_(std::move(held)),
        member_(member),
        stop_(std::move(stop)),
        wake_(stop_, [this] { stop_waits(); }) {}

  ~LocalStore() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    if (server_.joinable()) server_.join();
  }

  bool create(const StoreLayout& layout, const std::string& description) override {
    return held_->create({.job = {}, .description = description, .layout = layout});
  }

  const StoreLayout& layout() override {
    while (!held_->created(kWaitTick))
      if (stop_.stop_requested()) throw stopped();
    return held_->identity().layout;
  }

  const StoreLayout& attach() override {
    if (!arenas_.keeper) arenas_ = StoreArenas::of(layout().floats);
    return layout();
  }

  std::vector<std::string> slots() override {
    layout();
    return held_->blocks().slots();
  }

  int64_t read(const std::string& arena, std::span<float> values) override {
    add(read_requests(layout(), slots(), arena, values, kWho));
    return finish().updates;
  }

  void write(const std::string& arena, std::span<const float> values, int64_t updates) override {
    add(write_requests(layout(), slots(), arena, values, updates, kWho));
    finish();
  }

  std::span<float> outgoing() override { return arenas_.outgoing; }
  std::span<const float> incoming() const override { return arenas_.incoming; }

  void start(const StoreExchange& exchange) override { add(requests_of(exchange, arenas_, kWho)); }

  StoreReport finish() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return window_.all_answered() || failure_ || over(); });
    if (!failure_ && window_.all_answered()) return window_.finish();
    changed_.wait(lock, [this] { return !busy_; });  // it may be using the caller's memory
    throw failure_ ? Error(*failure_) : stopped();
  }

 private:
  static Error stopped() { return run_error("{} was not waited for: the run is being stopped", kWho); }

  /// Locked, so that no wait misses it.
  void stop_waits() {
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

  bool over() const { return ending_ || stop_.stop_requested(); }

  void add(std::vector<StoreRequest> requests) {
    {
      const std::lock_guard lock(mutex_);
      for (StoreRequest& request : requests) window_.add(std::move(request));
    }
    changed_.notify_all();
    if (!server_.joinable()) server_ = std::thread([this] { serve(); });
  }

  void serve() {
    held_->members().arrived(member_, 0);
    try {
      StoreSession session(held_->blocks(), held_->members(), peer_, member_, [this] { return over(); });
      while (answer_next(session)) {
      }
    } catch (const Error& error) {
      end(error);
    } catch (const std::exception& error) {
      end(run_error("{} has failed: {}", kWho, as_error(error).what()));
    }
    held_->members().left(member_);
    end(std::nullopt);
  }

  void end(const std::optional<Error>& failure) {
    {
      const std::lock_guard lock(mutex_);
      if (failure) failure_ = failure;
      ending_ = true;
      busy_ = false;
    }
    changed_.notify_all();
  }

  /// Waits for a request and answers it. Returns false if stopped.
  bool answer_next(StoreSession& session) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over() || !window_.all_sent(); });
    if (over()) return false;
    const StoreRequest& request = window_.next();  // stays where it is until it is answered
    window_.sent();
    busy_ = true;
    lock.unlock();
    Frame frame{.header = request.header, .members = request.members};
    if (!request.from.empty()) frame.payload = FramePayload({std::as_bytes(request.from)});
    StoreSession::Answer answer = session.handle(frame);
    const bool floats = (answer.header.flags & kPull) != 0;
    if (!session.complete(answer, floats ? request.into : std::span<float>())) return false;
    lock.lock();
    window_.note(answer.header);
    busy_ = false;
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  const std::shared_ptr<HeldStore> held_;
  const uint32_t member_;
  StorePeer peer_;
  StoreArenas arenas_;
  std::stop_token stop_;

  std::mutex mutex_;  ///< guards window_, failure_ and busy_
  std::condition_variable changed_;
  StoreWindow window_;
  std::optional<Error> failure_;
  bool busy_ = false;  ///< a request is being answered
  std::atomic<bool> ending_{false};
  std::thread server_;
  std::stop_callback<std::function<void()>> wake_;
};

}  // namespace

LocalStoreServer::LocalStoreServer(StoreUpdateFactory make_update)
    : held_(std::make_shared<HeldStore>(HeldStoreOptions{.snapshots = {},
                                                         .round_seconds = kRoundSeconds,
                                                         .make_update = std::move(make_update),
                                                         .say = {}})) {}

LocalStoreServer::~LocalStoreServer() { held_->end(); }

std::unique_ptr<Store> LocalStoreServer::connect(uint32_t member, std::stop_token stop) {
  return std::make_unique<LocalStore>(held_, member, std::move(stop));
}

}  // namespace telar
