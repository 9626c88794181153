#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "telar/comm/store/held_store.h"
#include "telar/comm/store/store_chain_link.h"

// Only for sources in telar/comm/store.

namespace telar {

/// A server's copy of a shard (what one server of the placement holds), whose other copies are on other
/// servers. Thread-safe.
class StoreShard {
 public:
  /// `link`: without the predecessor's address and the generation.
  StoreShard(HeldStoreOptions held, ChainLinkOptions link);
  ~StoreShard() { end(); }
  StoreShard(const StoreShard&) = delete;
  StoreShard& operator=(const StoreShard&) = delete;

  HeldStore& held() { return held_; }

  /// The coordinator's word; an old one changes nothing. Ends the streams of earlier generations. Returns
  /// whether this server is in the chain.
  bool configure(ConfiguredChain chain);
  struct State {
    int64_t generation = 0;
    bool whole = false;
    bool linked = true;  ///< the server before this one in the chain can be reached, or there is none
  };
  State state();

  /// A stream of this generation, for as long as this object lives.
  class Stream {
   public:
    Stream(StoreShard& shard, grpc::ServerContext& context) : shard_(shard), context_(context) {}
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

   private:
    StoreShard& shard_;
    grpc::ServerContext& context_;
  };
  /// Of a member. Null if this server is not the head of this generation, as far as it knows.
  std::unique_ptr<Stream> admit_member(int64_t generation, grpc::ServerContext& context);
  /// Of a member that pulls from a copy. Null if this server is not the last one of this generation, as far
  /// as it knows.
  std::unique_ptr<Stream> admit_copy_pulls(int64_t generation, grpc::ServerContext& context);
  /// Of a server. Null if it is not this one's successor in this generation, as far as this one knows.
  std::unique_ptr<Stream> admit_successor(int64_t generation, StoreServerId server,
                                          grpc::ServerContext& context);
  /// ConfiguredChain::founded
  int64_t founded();

  void end();

 private:
  size_t place() const;
  std::unique_ptr<Stream> admit(bool admitted, grpc::ServerContext& context);

  HeldStore held_;
  const ChainLinkOptions link_options_;
  std::mutex mutex_;  ///< guards the members below
  ConfiguredChain chain_;
  std::set<grpc::ServerContext*> streams_;
  std::unique_ptr<ChainLink> link_;
};

}  // namespace telar
