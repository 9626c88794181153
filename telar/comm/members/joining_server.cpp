#include "telar/comm/members/joining_server.h"

#include <chrono>
#include <condition_variable>
#include <utility>

#include "telar/comm/grpc_security.h"
#include "telar/comm/members/members.grpc.pb.h"
#include "telar/comm/members/protocol.h"

namespace telar {
namespace {

using namespace std::chrono_literals;

constexpr auto kAskAgain = 500ms;
constexpr auto kAnswersWithin = 5s;

grpc::Status ask_to_join(members::Members::Stub& stub, const JoiningServerOptions& options,
                         const std::stop_token& over) {
  grpc::ClientContext context;
  introduce(context, options.security);
  context.set_deadline(std::chrono::system_clock::now() + kAnswersWithin);
  const std::stop_callback cancel(over, [&] { context.TryCancel(); });
  const auto stream = stub.Work(&context);
  members::Request hello;
  hello.mutable_hello()->set_server(options.address);
  stream->Write(hello);
  return stream->Finish();
}

}  // namespace

JoiningServer::JoiningServer(JoiningServerOptions options)
    : options_(std::move(options)), thread_([this](const std::stop_token& over) { ask_for_ever(over); }) {}

std::optional<Error> JoiningServer::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

void JoiningServer::ask_for_ever(const std::stop_token& over) {
  const std::string who = "The coordinator at " + options_.coordinator;
  const auto stub = members::Members::NewStub(
      secure_channel(options_.coordinator, options_.security, kMaxMemberMessageBytes));
  const auto say = [this](const std::string& text) {
    if (options_.say) options_.say(text);
  };
  std::condition_variable_any never;
  std::string said;
  while (!over.stop_requested()) {
    if (!options_.followed()) {
      const grpc::Status status = ask_to_join(*stub, options_, over);
      if (over.stop_requested()) return;
      if (is_refusal(status)) {
        const std::lock_guard lock(mutex_);
        refusal_ = error_of(status, who);
        return;
      }
      const std::string news = status.ok()
                                   ? "joined " + options_.coordinator
                                   : fmt::format("{} cannot be reached yet: {}", who, reason_of(status));
      if (news != std::exchange(said, news)) say(news);
    }
    std::unique_lock lock(mutex_);
    never.wait_for(lock, over, kAskAgain, [] { return false; });
  }
}

}  // namespace telar
