#include "telar/comm/store/store_shard.h"

#include <algorithm>
#include <utility>

namespace telar {

StoreShard::StoreShard(HeldStoreOptions held, ChainLinkOptions link)
    : held_(std::move(held)), link_options_(std::move(link)) {}

void StoreShard::end() {
  held_.end();
  const std::lock_guard lock(mutex_);
  link_.reset();
}

size_t StoreShard::place() const {
  const std::vector<StoreServerId>& servers = chain_.chain.servers;
  return static_cast<size_t>(std::ranges::find(servers, link_options_.own) - servers.begin());
}

bool StoreShard::configure(ConfiguredChain chain) {
  const std::lock_guard lock(mutex_);
  const auto in = [this] { return place() < chain_.chain.servers.size(); };
  if (chain.chain.generation <= chain_.chain.generation) return in();
  chain_ = std::move(chain);
  for (grpc::ServerContext* stream : streams_) stream->TryCancel();
  link_.reset();
  held_.blocks().configure(chain_.chain);
  const size_t own = place();
  if (own == 0 || !in()) return in();
  ChainLinkOptions options = link_options_;
  options.address = chain_.addresses[own - 1];
  options.generation = chain_.chain.generation;
  link_ = std::make_unique<ChainLink>(held_.blocks(), std::move(options));
  return true;
}

StoreShard::State StoreShard::state() {
  const std::lock_guard lock(mutex_);
  return {.generation = chain_.chain.generation,
          .whole = held_.blocks().whole(),
          .linked = !link_ || link_->connected()};
}

int64_t StoreShard::founded() {
  const std::lock_guard lock(mutex_);
  return chain_.founded;
}

std::unique_ptr<StoreShard::Stream> StoreShard::admit_member(int64_t generation,
                                                             grpc::ServerContext& context) {
  const std::lock_guard lock(mutex_);
  return admit(generation == chain_.chain.generation && place() == 0, context);
}

std::unique_ptr<StoreShard::Stream> StoreShard::admit_copy_pulls(int64_t generation,
                                                                 grpc::ServerContext& context) {
  const std::lock_guard lock(mutex_);
  return admit(generation == chain_.chain.generation && place() + 1 == chain_.chain.servers.size(), context);
}

std::unique_ptr<StoreShard::Stream> StoreShard::admit_successor(int64_t generation, StoreServerId server,
                                                                grpc::ServerContext& context) {
  const std::lock_guard lock(mutex_);
  const std::vector<StoreServerId>& servers = chain_.chain.servers;
  const size_t next = place() + 1;
  return admit(generation == chain_.chain.generation && next < servers.size() && servers[next] == server,
               context);
}

std::unique_ptr<StoreShard::Stream> StoreShard::admit(bool admitted, grpc::ServerContext& context) {
  if (!admitted) return nullptr;
  streams_.insert(&context);
  return std::make_unique<Stream>(*this, context);
}

StoreShard::Stream::~Stream() {
  const std::lock_guard lock(shard_.mutex_);
  shard_.streams_.erase(&context_);
}

}  // namespace telar
