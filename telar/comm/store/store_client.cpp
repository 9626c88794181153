#include "telar/comm/store/store_client.h"

#include <algorithm>
#include <mutex>
#include <stop_token>
#include <utility>

#include "telar/comm/grpc_security.h"
#include "telar/comm/store/store.grpc.pb.h"
#include "telar/comm/store/store_calls.h"
#include "telar/comm/store/store_copy_pulls.h"
#include "telar/comm/store/store_link.h"
#include "telar/core/error.h"

namespace telar {
namespace {

using namespace std::chrono_literals;

/// A layout has one entry for each variable and stays far below this.
constexpr int kLargestMessage = 64 << 20;
constexpr auto kCallDeadline = 30s;

}  // namespace

class StoreClient::Impl {
 public:
  explicit Impl(StoreClientOptions options)
      : options_(std::move(options)),
        who_(who_of(options_)),
        channel_(channel_to(options_.address)),
        stub_(store::ParameterStore::NewStub(channel_)) {}

  static std::string who_of(const StoreClientOptions& options) {
    return options.shard == 0 ? fmt::format("The parameter server {}", options.address)
                              : fmt::format("Shard {} of the parameter servers", options.shard - 1);
  }

  void move(const StoreHead& head) {
    const std::lock_guard lock(head_mutex_);
    if (head.generation < options_.generation) return;
    const bool later = head.generation > options_.generation;
    if (!later && (head.copy.empty() || head.copy == options_.copy)) return;
    options_.copy = head.copy;
    if (copy_) copy_->cancel();
    copy_.reset();
    routed_ = false;
    if (!later) return;
    if (head.address != options_.address) {
      channel_ = channel_to(head.address);
      stub_ = store::ParameterStore::NewStub(channel_);
      std::exchange(left_, std::stop_source()).request_stop();
    }
    options_.address = head.address;
    options_.generation = head.generation;
    if (link_) link_->move(head, channel_);
  }

  bool create(const StoreLayout& layout, const std::string& description) {
    store::CreateRequest request;
    request.set_job(options_.job);
    request.set_description(description);
    add_pieces(layout, *request.mutable_pieces());
    request.set_take_over(options_.takes_over);
    store::CreateReply reply;
    call([&](grpc::ClientContext& context) { return stub()->Create(&context, request, &reply); });
    if (options_.takes_over) options_.tenure = reply.tenure();
    return reply.had();
  }

  const StoreLayout& layout() {
    describe();
    return *layout_;
  }

  const StoreLayout& attach() {
    describe();
    if (!arenas_.keeper) make_arenas();
    return *layout_;
  }

  const std::vector<std::string>& slots() {
    describe();
    return slots_;
  }

  int64_t read(const std::string& arena, std::span<float> values) {
    describe();
    return transfer(read_requests(*layout_, slots_, arena, values, who_)).updates;
  }

  void write(const std::string& arena, std::span<const float> values, int64_t updates) {
    describe();
    transfer(write_requests(*layout_, slots_, arena, values, updates, who_));
  }

  std::span<float> outgoing() { return arenas_.outgoing; }
  std::span<const float> incoming() const { return arenas_.incoming; }

  void start(const StoreExchange& exchange) {
    StoreExchange rest = exchange;
    if (exchange.pull && copy()) {
      rest.pull = false;
      for (StoreRequest& pull : requests_of(
               {.begin = exchange.begin, .end = exchange.end, .push = false, .round = {}}, arenas_, who_))
        pulls_.push_back(std::move(pull));
    }
    std::vector<StoreRequest> requests = requests_of(rest, arenas_, who_);
    if (!requests.empty()) link().start(std::move(requests));
  }

  /// What was pushed is answered, so every copy has it, before the copy is asked.
  StoreReport finish() {
    if (!link_) return {};
    std::vector<StoreRequest> pulls = std::exchange(pulls_, {});
    StoreReport report = link_->finish();
    if (const std::shared_ptr<CopyPulls> from = pulls.empty() ? nullptr : copy())
      pulls = from->pull(std::move(pulls),
                         [this](const FrameHeader& answer, const FramePayload& values,
                                std::span<float> into) { link_->pulled(answer, values, into); });
    if (pulls.empty()) return report;
    link_->start(std::move(pulls));
    report.lost_updates = std::max(report.lost_updates, link_->finish().lost_updates);
    return report;
  }
  Traffic traffic() const { return link_ ? link_->traffic() : Traffic{}; }
  double seconds_away() const { return link_ ? link_->seconds_away() : 0; }
  StoreLosses losses() const { return link_ ? link_->losses() : StoreLosses{}; }
  uint64_t tenure() const { return options_.tenure; }
  std::optional<Error> failure() const { return link_ ? link_->failure() : std::nullopt; }

 private:
  std::shared_ptr<grpc::Channel> channel_to(const std::string& address) const {
    return secure_channel(address, options_.security, kLargestMessage, options_.keepalive_seconds);
  }

  std::shared_ptr<store::ParameterStore::Stub> stub() {
    const std::lock_guard lock(head_mutex_);
    return stub_;
  }

  std::stop_token left() {
    const std::lock_guard lock(head_mutex_);
    return left_.get_token();
  }

  StoreLink& link() {
    const std::lock_guard lock(head_mutex_);
    if (!link_) link_ = std::make_unique<StoreLink>(options_, who_, channel_, memory_);
    return *link_;
  }

  /// From where this client pulls; null: from the head.
  std::shared_ptr<CopyPulls> copy() {
    std::unique_lock lock(head_mutex_);
    while (!routed_) {
      const StoreClientOptions now = options_;
      lock.unlock();  // names may have to be looked up
      std::shared_ptr<CopyPulls> made;
      if (!now.copy.empty() && !now.is_here(now.address) && now.is_here(now.copy))
        made = std::make_shared<CopyPulls>(now);
      lock.lock();
      if (options_.generation != now.generation || options_.copy != now.copy) continue;
      copy_ = std::move(made);
      routed_ = true;
    }
    return copy_;
  }

  void make_arenas() {
    const size_t floats = layout_->floats;
    if (options_.shared_memory) memory_ = StoreMemory::make(floats);
    arenas_ =
        memory_ ? StoreArenas{memory_->outgoing(), memory_->incoming(), memory_} : StoreArenas::of(floats);
    {
      const std::lock_guard lock(head_mutex_);
      link_.reset();  // a link from before attach() does not know the memory
    }
    link();
  }

  /// Retries until the server answers, the patience is over, or the run is stopped.
  template <typename Call>
  void call(const Call& once) {
    const auto patience = std::chrono::duration<double>(options_.patience_seconds);
    const auto begin = StoreClock::now();
    while (true) {
      grpc::Status status;
      {
        grpc::ClientContext context;
        introduce(context, options_.security);
        if (options_.shard != 0) context.AddMetadata(kShardKey, std::to_string(options_.shard));
        context.set_deadline(std::chrono::system_clock::now() + kCallDeadline);
        const auto cancel = [&] { context.TryCancel(); };
        const std::stop_callback at_stop(options_.stop, cancel);
        const std::stop_callback at_move(left(), cancel);
        status = once(context);
      }
      if (status.ok()) return;
      if (options_.stop.stop_requested())
        throw run_error("{} was not waited for: the run is being stopped", who_);
      if (is_refusal(status)) throw error_of(status, who_);
      if (StoreClock::now() - begin > patience) throw error_of(status, who_);
      std::this_thread::sleep_for(100ms);
    }
  }

  void describe() {
    store::DescribeRequest request;
    request.set_job(options_.job);
    request.set_tenure(options_.tenure);
    while (!layout_) {
      store::DescribeReply reply;
      call([&](grpc::ClientContext& context) { return stub()->Describe(&context, request, &reply); });
      if (!reply.created()) continue;  // the server has already waited briefly
      slots_.assign(reply.slots().begin(), reply.slots().end());
      layout_ = layout_of(reply.pieces());
    }
  }

  StoreReport transfer(std::vector<StoreRequest> requests) {
    if (requests.empty()) return {};
    link().start(std::move(requests));
    return link().finish();
  }

  StoreClientOptions options_;
  std::string who_;
  std::mutex head_mutex_;  ///< guards the address and the generation, and the members up to link_
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<store::ParameterStore::Stub> stub_;
  std::stop_source left_;                 ///< ends the calls to the present head, which may be stopped
  bool routed_ = false;                   ///< copy_ is as it is to be
  std::shared_ptr<CopyPulls> copy_ = {};  ///< null: the head answers pulls
  std::unique_ptr<StoreLink> link_;
  std::optional<StoreLayout> layout_;
  std::vector<std::string> slots_;
  std::shared_ptr<StoreMemory> memory_;  ///< null: the arenas are not shared
  StoreArenas arenas_;
  std::vector<StoreRequest> pulls_;  ///< for copy_, since the last finish()
};

StoreClient::StoreClient(StoreClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
StoreClient::~StoreClient() = default;
bool StoreClient::create(const StoreLayout& layout, const std::string& description) {
  return impl_->create(layout, description);
}
const StoreLayout& StoreClient::layout() { return impl_->layout(); }
const StoreLayout& StoreClient::attach() { return impl_->attach(); }
int64_t StoreClient::read(const std::string& arena, std::span<float> values) {
  return impl_->read(arena, values);
}
void StoreClient::write(const std::string& arena, std::span<const float> values, int64_t updates) {
  impl_->write(arena, values, updates);
}
std::vector<std::string> StoreClient::slots() { return impl_->slots(); }
std::span<float> StoreClient::outgoing() { return impl_->outgoing(); }
std::span<const float> StoreClient::incoming() const { return std::as_const(*impl_).incoming(); }
void StoreClient::start(const StoreExchange& exchange) { impl_->start(exchange); }
StoreReport StoreClient::finish() { return impl_->finish(); }
void StoreClient::move(const StoreHead& head) { impl_->move(head); }
StoreClient::Traffic StoreClient::traffic() const { return impl_->traffic(); }
double StoreClient::seconds_away() const { return impl_->seconds_away(); }
StoreLosses StoreClient::losses() const { return impl_->losses(); }
uint64_t StoreClient::tenure() const { return impl_->tenure(); }
std::optional<Error> StoreClient::failure() const { return impl_->failure(); }

}  // namespace telar
