#include "telar/comm/store/store_client.h"

#include "telar/comm/grpc_security.h"
#include "telar/comm/store/store.grpc.pb.h"
#include "telar/comm/store/store_calls.h"
#include "telar/comm/store/store_link.h"
#include "telar/core/buffer.h"
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
        who_(fmt::format("The parameter server {}", options_.address)),
        channel_(
            secure_channel(options_.address, options_.security, kLargestMessage, options_.keepalive_seconds)),
        stub_(store::ParameterStore::NewStub(channel_)) {}

  bool create(const StoreLayout& layout, const std::string& description) {
    store::CreateRequest request;
    request.set_job(options_.job);
    request.set_description(description);
    add_pieces(layout, *request.mutable_pieces());
    store::CreateReply reply;
    call([&](grpc::ClientContext& context) { return stub_->Create(&context, request, &reply); });
    return reply.had();
  }

  const StoreLayout& layout() {
    describe();
    return *layout_;
  }

  const StoreLayout& attach() {
    describe();
    if (!keeper_) make_arenas();
    return *layout_;
  }

  const std::vector<std::string>& slots() {
    describe();
    return slots_;
  }

  void read(const std::string& arena, std::span<float> values) {
    transfer(FrameKind::read, arena, values.size(), [&](StoreRequest& request, size_t begin, size_t count) {
      request.into = values.subspan(begin, count);
    });
  }

  void write(const std::string& arena, std::span<const float> values) {
    transfer(FrameKind::write, arena, values.size(), [&](StoreRequest& request, size_t begin, size_t count) {
      request.from = values.subspan(begin, count);
    });
  }

  std::span<float> outgoing() { return outgoing_; }
  std::span<const float> incoming() const { return incoming_; }

  void start(const StoreExchange& exchange) {
    if (!keeper_) throw run_error("{} was given work before attach()", who_);
    if (exchange.begin >= exchange.end || exchange.end > layout_->floats ||
        exchange.begin % kRangeFloats != 0 || exchange.end % kRangeFloats != 0)
      throw run_error(
          "{} holds {} floats; {} to {} is not a range of them that begins and ends at multiples of {}", who_,
          layout_->floats, exchange.begin, exchange.end, kRangeFloats);
    if (!exchange.push && !exchange.pull) return;
    if (exchange.round &&
        (exchange.round->members.empty() || exchange.round->members.size() > kMostRoundMembers))
      throw run_error("A round has 1 to {} members, not {}", kMostRoundMembers,
                      exchange.round->members.size());
    std::vector<StoreRequest> requests;
    for_each_block(exchange.begin, exchange.end, [&](size_t begin, size_t end) {
      StoreRequest& request = requests.emplace_back();
      FrameHeader& header = request.header;
      header.begin = begin;
      header.end = end;
      if (exchange.pull) {
        header.flags |= kPull;
        request.into = incoming_.subspan(begin, end - begin);
      }
      if (!exchange.push) return;
      header.flags |= kPush;
      header.learning_rate = exchange.learning_rate;
      header.samples = exchange.samples;
      request.from = outgoing_.subspan(begin, end - begin);
      request.keeper = keeper_;
      if (!exchange.round) return;
      header.flags |= kRound;
      header.round = exchange.round->number;
      header.members = static_cast<uint32_t>(exchange.round->members.size());
      request.members = exchange.round->members;
    });
    link().start(std::move(requests));
  }

  StoreReport finish() { return link_ ? link_->finish() : StoreReport{}; }
  Traffic traffic() const { return link_ ? link_->traffic() : Traffic{}; }
  double seconds_away() const { return link_ ? link_->seconds_away() : 0; }
  StoreLosses losses() const { return link_ ? link_->losses() : StoreLosses{}; }

 private:
  StoreLink& link() {
    if (!link_) link_ = std::make_unique<StoreLink>(options_, channel_, memory_);
    return *link_;
  }

  void make_arenas() {
    const size_t floats = layout_->floats;
    if (options_.shared_memory) memory_ = StoreMemory::make(floats);
    if (memory_) {
      outgoing_ = memory_->outgoing();
      incoming_ = memory_->incoming();
      keeper_ = memory_;
    } else {
      const auto arenas = std::make_shared<Buffer>(2 * floats * sizeof(float));
      outgoing_ = arenas->as<float>().first(floats);
      incoming_ = arenas->as<float>().subspan(floats);
      keeper_ = arenas;
    }
    link_.reset();  // a link from before attach() does not know the memory
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
        context.set_deadline(std::chrono::system_clock::now() + kCallDeadline);
        const std::stop_callback cancel(options_.stop, [&] { context.TryCancel(); });
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
    while (!layout_) {
      store::DescribeReply reply;
      call([&](grpc::ClientContext& context) { return stub_->Describe(&context, request, &reply); });
      if (!reply.created()) continue;  // the server has already waited briefly
      slots_.assign(reply.slots().begin(), reply.slots().end());
      layout_ = layout_of(reply.pieces());
    }
  }

  /// Transfers a whole arena.
  template <typename Memory>
  void transfer(FrameKind kind, const std::string& name, size_t count, const Memory& memory) {
    describe();
    if (count != layout_->floats)
      throw run_error("{} has arenas of {} floats, not {}", who_, layout_->floats, count);
    uint16_t arena = 0;
    if (!name.empty()) {
      const auto found = std::ranges::find(slots_, name);
      if (found == slots_.end()) throw run_error("{} has no arena '{}'", who_, name);
      arena = static_cast<uint16_t>(found - slots_.begin() + 1);
    }
    std::vector<StoreRequest> requests;
    for_each_block(0, count, [&](size_t begin, size_t end) {
      StoreRequest& request = requests.emplace_back();
      request.header.kind = kind;
      request.header.arena = arena;
      request.header.begin = begin;
      request.header.end = end;
      memory(request, begin, end - begin);
    });
    if (requests.empty()) return;
    link().start(std::move(requests));
    link().finish();
  }

  StoreClientOptions options_;
  std::string who_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<store::ParameterStore::Stub> stub_;
  std::optional<StoreLayout> layout_;
  std::vector<std::string> slots_;
  std::shared_ptr<StoreMemory> memory_;  ///< null: the arenas are not shared
  std::shared_ptr<const void> keeper_;   ///< owner of the arenas
  std::span<float> outgoing_;
  std::span<float> incoming_;
  std::unique_ptr<StoreLink> link_;
};

StoreClient::StoreClient(StoreClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
StoreClient::~StoreClient() = default;
bool StoreClient::create(const StoreLayout& layout, const std::string& description) {
  return impl_->create(layout, description);
}
const StoreLayout& StoreClient::layout() { return impl_->layout(); }
const StoreLayout& StoreClient::attach() { return impl_->attach(); }
void StoreClient::read(const std::string& arena, std::span<float> values) { impl_->read(arena, values); }
void StoreClient::write(const std::string& arena, std::span<const float> values) {
  impl_->write(arena, values);
}
std::vector<std::string> StoreClient::slots() { return impl_->slots(); }
std::span<float> StoreClient::outgoing() { return impl_->outgoing(); }
std::span<const float> StoreClient::incoming() const { return std::as_const(*impl_).incoming(); }
void StoreClient::start(const StoreExchange& exchange) { impl_->start(exchange); }
StoreReport StoreClient::finish() { return impl_->finish(); }
StoreClient::Traffic StoreClient::traffic() const { return impl_->traffic(); }
double StoreClient::seconds_away() const { return impl_->seconds_away(); }
StoreLosses StoreClient::losses() const { return impl_->losses(); }

}  // namespace telar
