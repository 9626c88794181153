#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <numeric>
#include <random>
#include <semaphore>
#include <thread>
#include <vector>

#include "comm/members_support.h"
#include "support/sentences.h"
#include "telar/comm/frame_service.h"
#include "telar/comm/grpc_security.h"
#include "telar/comm/linked/linked_processes.h"
#include "telar/comm/peers/peer_inbox.h"
#include "telar/comm/peers/peer_links.h"
#include "telar/comm/peers/peer_server.h"
#include "telar/comm/peers/peer_stream.h"

namespace telar::test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::mt19937& random, size_t count) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

PeerFrame frame_of(uint32_t tag, size_t size, size_t offset) {
  return {.kind = PeerFrame::Kind::part, .lane = Lane::stages, .tag = tag, .size = size, .offset = offset};
}

// Messages of three tags, cut anywhere, meet receives that are started at any time.
TEST(PeerInbox, MessagesMeetTheirReceivesInAnyOrder) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    PeerInbox inbox;
    struct Expected {
      uint32_t tag;
      Bytes sent;
      Bytes received;
      PeerInbox::Receive receive;
    };
    std::vector<std::unique_ptr<Expected>> messages;
    for (int i = 0; i < 8; ++i) {
      auto message = std::make_unique<Expected>();
      message->tag = random() % 3;
      message->sent = random_bytes(random, random() % 3 == 0 ? 0 : random() % 200);
      message->received.resize(message->sent.size());
      message->receive.bytes = message->received;
      messages.push_back(std::move(message));
    }
    size_t sent = 0;
    size_t started = 0;
    while (sent < messages.size() || started < messages.size()) {
      if (started < messages.size() && (sent == messages.size() || random() % 2 == 0)) {
        Expected& next = *messages[started++];
        inbox.start({.lane = Lane::stages, .tag = next.tag}, next.receive);
        continue;
      }
      const Expected& next = *messages[sent++];
      size_t begin = 0;
      do {
        const size_t count = std::min<size_t>(next.sent.size() - begin, 1 + random() % 100);
        const std::span<const std::byte> part = std::span(next.sent).subspan(begin, count);
        const size_t half = count / 2;
        inbox.take(frame_of(next.tag, next.sent.size(), begin), {part.first(half), part.subspan(half)});
        begin += count;
      } while (begin < next.sent.size());
    }
    for (const auto& message : messages) {
      ASSERT_TRUE(message->receive.done);
      ASSERT_EQ(message->received, message->sent) << round;
    }
  }
}

TEST(PeerInbox, PartsThatDoNotFitAreRefused) {
  Bytes memory(8);
  const Bytes four(4);
  const auto refuses = [&](const PeerFrame& first, const PeerFrame& second, const std::string& why) {
    PeerInbox inbox;
    PeerInbox::Receive receive{.bytes = memory};
    inbox.start({.lane = Lane::stages, .tag = 1}, receive);
    expect_error(
        [&] {
          inbox.take(first, {four});
          inbox.take(second, {four});
        },
        {why}, Error::Kind::run);
    if (!receive.done) inbox.cancel({.lane = Lane::stages, .tag = 1}, receive);
  };
  refuses(frame_of(1, 8, 0), frame_of(1, 8, 0), "parts of a message that do not follow each other");
  refuses(frame_of(1, 8, 4), frame_of(1, 8, 4), "parts of a message that do not follow each other");
  refuses(frame_of(1, 8, 0), frame_of(1, 9, 4), "parts of a message that do not follow each other");
  refuses(frame_of(1, 9, 0), frame_of(1, 9, 4), "a message of 9 bytes instead of 8");
  refuses(frame_of(1, uint64_t{1} << 63, 0), frame_of(1, 8, 0), "instead of 8");
}

TEST(PeerInbox, TheRestOfAMessageThatNobodyWantsAnyMoreIsDropped) {
  PeerInbox inbox;
  Bytes memory(8);
  const Bytes four(4);
  {
    PeerInbox::Receive receive{.bytes = memory};
    inbox.start({.lane = Lane::stages, .tag = 1}, receive);
    inbox.take(frame_of(1, 8, 0), {four});
    inbox.cancel({.lane = Lane::stages, .tag = 1}, receive);
  }
  inbox.take(frame_of(1, 8, 4), {four});
  PeerInbox::Receive next{.bytes = std::span(memory).first(4)};
  inbox.start({.lane = Lane::stages, .tag = 1}, next);
  EXPECT_TRUE(inbox.take(frame_of(1, 4, 0), {four}));
  EXPECT_TRUE(next.done);
}

TEST(PeerFrames, ADamagedOneIsRefusedWhateverItSays) {
  std::mt19937 random(3);
  const Bytes bytes = random_bytes(random, 100);
  PeerFrame good = frame_of(1, 200, 100);
  seal(good, bytes);
  check_peer_frame(good, {bytes});
  for (int i = 0; i < 2000; ++i) {
    PeerFrame frame = good;
    Bytes damaged = bytes;
    const size_t bit = random() % (8 * (sizeof frame + bytes.size()));
    std::byte& byte = bit / 8 < sizeof frame ? std::as_writable_bytes(std::span(&frame, 1))[bit / 8]
                                             : damaged[bit / 8 - sizeof frame];
    byte ^= static_cast<std::byte>(1U << (bit % 8));
    expect_error([&] { check_peer_frame(frame, {damaged}); }, {"a message that was damaged on its way"},
                 Error::Kind::run);
  }
  PeerFrame impossible = frame_of(1, 50, 0);
  seal(impossible, bytes);
  expect_error([&] { check_peer_frame(impossible, {bytes}); }, {"a message that no process of telar sends"},
               Error::Kind::run);
}

/// A connection that is slow: each message passes when it is told to, and nothing comes until the end.
class SlowConnection : public PeerStream::Writer, public PeerStream::Reader {
 public:
  using PeerStream::Writer::Write;
  bool Write(const grpc::ByteBuffer& /*message*/, grpc::WriteOptions /*options*/) override {
    passes_.acquire();
    ++written_;
    return true;
  }
  bool NextMessageSize(uint32_t* /*size*/) override { return false; }
  bool Read(grpc::ByteBuffer* /*message*/) override {
    ended_.wait();
    return false;
  }
  void pass(int messages) { passes_.release(messages); }
  void end() { ended_.count_down(); }
  int written() const { return written_; }

 private:
  std::counting_semaphore<> passes_{0};
  std::latch ended_{1};
  std::atomic<int> written_{0};
};

// As when a third one is lost in the middle of a step.
TEST(PeerStream, WhatWaitsBehindASlowNetworkIsDroppedAndThePeerIsNot) {
  SlowConnection connection;
  std::atomic<bool> ended{false};
  PeerStream stream("rank 1", [](bool /*lost*/) {});
  std::jthread serving([&] { stream.serve(connection, connection, [&] { ended = true; }); });
  EXPECT_TRUE(stream.wait_until_connected(std::chrono::steady_clock::now() + std::chrono::seconds(20)));
  const std::vector<std::byte> large(3 * kPeerPart);
  std::atomic<size_t> in_transit{0};
  stream.send({1, Lane::buckets, 0}, large, in_transit);
  std::jthread network([&] {
    while (in_transit > 1) std::this_thread::yield();  // the first part is on its way
    connection.pass(1);
  });
  stream.recall(in_transit);
  EXPECT_EQ(connection.written(), 1);
  EXPECT_FALSE(ended);
  EXPECT_EQ(stream.lost(), "");
  connection.end();
}

/// Threads that play processes.
class Peers : public testing::Test {
 protected:
  /// Calls work(processes) for each.
  template <typename Work>
  void together(int count, const Work& work) {
    PeerMeeting meeting("127.0.0.1:0", count, "the job", {.security = security_, .say = said_.writer()});
    std::vector<std::jthread> others;
    for (int i = 1; i < count; ++i)
      others.emplace_back([&] {
        JoinedPeers joined = join_peers(meeting.address(), 0, 20, {.security = security_}).value();
        EXPECT_EQ(joined.description, "the job");
        LinkedProcesses processes(std::move(joined.links));
        work(processes);
      });
    LinkedProcesses processes(meeting.wait());
    work(processes);
  }

  Security security_{.token = "0123456789abcdef0123"};
  Sentences said_;
};

void expect_large_and_many_messages_whole(LinkedProcesses& processes) {
  const int size = processes.size();
  std::vector<float> large(3 << 20);
  if (processes.rank() == 1) std::iota(large.begin(), large.end(), 1.0F);
  processes.broadcast(std::as_writable_bytes(std::span(large)), 1);
  for (size_t i = 0; i < large.size(); i += 1001) ASSERT_EQ(large[i], static_cast<float>(i + 1));
  EXPECT_EQ(processes.lowest(processes.rank() + 5), 5);
  // Each sends each other 200 messages of other lengths, and receives them from the last tag to the first.
  const auto length = [](int from, int to, int tag) {
    return static_cast<size_t>(1 + (from * 7 + to * 3 + tag * 977) % 300'000);
  };
  std::vector<Bytes> memory;
  std::vector<std::unique_ptr<Transfer>> transfers;
  memory.reserve(800);
  for (int other = 0; other < size; ++other) {
    if (other == processes.rank()) continue;
    for (int tag = 0; tag < 200; ++tag) {
      memory.emplace_back(length(processes.rank(), other, tag), static_cast<std::byte>(tag));
      transfers.push_back(processes.message_to(other, tag, memory.back()));
      transfers.back()->start();
    }
  }
  const size_t sent = memory.size();
  for (int other = 0; other < size; ++other)
    for (int tag = 199; tag >= 0 && other != processes.rank(); --tag) {
      memory.emplace_back(length(other, processes.rank(), tag));
      transfers.push_back(processes.message_from(other, tag, memory.back()));
      transfers.back()->start();
    }
  for (const auto& transfer : transfers)
    while (!transfer->done()) std::this_thread::yield();
  for (size_t i = sent; i < memory.size(); ++i) {
    const auto expected = static_cast<std::byte>(199 - static_cast<int>(i - sent) % 200);
    for (const std::byte byte : memory[i]) ASSERT_EQ(byte, expected) << i;
  }
}

TEST_F(Peers, LargeAndManyMessagesArriveWholeInSharedMemory) {
  together(3, [](LinkedProcesses& processes) { expect_large_and_many_messages_whole(processes); });
}

TEST_F(Peers, LargeAndManyMessagesArriveWholeOverConnections) {
  together(3, [](LinkedProcesses& processes) {
    processes.share_memory(false);
    expect_large_and_many_messages_whole(processes);
  });
}

TEST_F(Peers, MessagesOfOneTagPassInOrderWhateverTheirSizes) {
  constexpr int kMessages = 40;
  const auto length = [](int i) { return static_cast<size_t>(i * 7919 % 20'000); };
  for (const bool share : {true, false}) {
    together(2, [&](LinkedProcesses& processes) {
      processes.share_memory(share);
      std::vector<Bytes> memory(kMessages);
      for (int i = 0; i < kMessages; ++i) {
        const auto at = static_cast<size_t>(i);
        if (processes.rank() == 0) {
          memory[at] = Bytes(length(i), static_cast<std::byte>(i));
          const auto transfer = processes.message_to(1, 5, memory[at]);
          transfer->start();
          while (!transfer->done()) std::this_thread::yield();
        } else {
          memory[at].resize(length(i));
          // One that is given up before it has come leaves the message to the next.
          if (share && i % 3 == 0) processes.message_from(0, 5, memory[at])->start();
          const auto transfer = processes.message_from(0, 5, memory[at]);
          transfer->start();
          while (!transfer->done()) std::this_thread::yield();
          EXPECT_EQ(memory[at], Bytes(length(i), static_cast<std::byte>(i))) << i;
        }
      }
    });
  }
}

TEST_F(Peers, AMessageOfAnotherSizeThanExpectedIsRefused) {
  for (const bool share : {true, false}) {
    together(2, [&](LinkedProcesses& processes) {
      processes.share_memory(share);
      Bytes bytes(processes.rank() == 0 ? 100 : 99);
      const auto transfer =
          processes.rank() == 0 ? processes.message_to(1, 5, bytes) : processes.message_from(0, 5, bytes);
      if (processes.rank() == 0) transfer->start();
      processes.lowest(0);  // it has come, or comes before the answer
      const auto receive = [&] {
        transfer->start();
        while (!transfer->done()) std::this_thread::yield();
      };
      if (processes.rank() == 1) {
        EXPECT_EQ(sentence_of(receive, Error::Kind::run), "a message of 100 bytes instead of 99");
      }
      processes.lowest(0);
    });
  }
}

/// Somebody who knows the token, but is no peer.
class Stranger {
 public:
  Stranger(const std::string& address, const Security& security)
      : security_(security), channel_(secure_channel(address, security, 8 << 20)) {}

  /// Of somebody who has heard no more of a process than its greeting.
  void forget_token() { security_.token.clear(); }

  peers::Introduction join(grpc::StatusCode expected = grpc::StatusCode::OK) {
    grpc::ClientContext context;
    introduce(context, security_);
    peers::Arrival arrival = own_arrival();
    arrival.set_name("stranger:1");
    arrival.set_port(1);
    peers::Introduction introduction;
    const grpc::Status status = peers::Meeting::NewStub(channel_)->Join(&context, arrival, &introduction);
    EXPECT_EQ(status.error_code(), expected) << status.error_message();
    return introduction;
  }

  /// Opens a connection between peers, sends this and then nothing. Returns how the connection ends.
  grpc::Status exchange(const std::string& group, const std::string& rank, const Bytes& sent) {
    grpc::ClientContext context;
    introduce(context, security_);
    context.AddMetadata("telar-group", group);
    context.AddMetadata("telar-rank", rank);
    const auto stream = open_frames(channel_, kPeerMessagesMethod, context);
    const grpc::Slice slice(sent.data(), sent.size());
    if (!sent.empty()) stream->Write(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions());
    grpc::ByteBuffer answer;
    for (int words = 2; words > 0 && stream->Read(&answer); --words) {  // the welcome and the last ones
    }
    stream->WritesDone();
    return stream->Finish();
  }

 private:
  Security security_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(Peers, WhoIsOfAnotherGroupIsRefusedAndTheRunGoesOn) {
  PeerMeeting meeting("127.0.0.1:0", 2, "", {.security = security_});
  std::jthread other([&] {
    LinkedProcesses processes(
        std::move(join_peers(meeting.address(), 0, 20, {.security = security_})->links));
    for (int i = 0; i < 3; ++i) processes.any(false);
  });
  LinkedProcesses processes(meeting.wait());
  Stranger stranger(meeting.address(), security_);
  for (const auto& [group, rank] : {std::pair("", "1"), std::pair("00000000000000000000000000000000", "1"),
                                    std::pair("", "-1"), std::pair("", "99999999999999999999")}) {
    const grpc::Status status = stranger.exchange(group, rank, {});
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << group << " " << rank;
    EXPECT_EQ(status.error_message(), "it belongs to another group of processes");
  }
  Stranger late(meeting.address(), {.token = "0123456789abcdef9999"});
  EXPECT_FALSE(late.exchange("", "1", {}).ok());
  for (int i = 0; i < 3; ++i) processes.any(false);
}

// The greeting, the secret of an earlier group, and all that a member of this one has said.
TEST_F(Peers, WhatWasHeardOfAnotherConnectionOpensNone) {
  std::string earlier;
  for (const bool first : {true, false}) {
    PeerMeeting meeting("127.0.0.1:0", 2, "", {.security = security_});
    Stranger greeted(meeting.address(), security_);
    greeted.forget_token();
    greeted.join(grpc::StatusCode::UNAUTHENTICATED);
    std::promise<std::string> group;
    std::jthread member([&] {
      Stranger stranger(meeting.address(), security_);
      const std::string own = stranger.join().group();
      group.set_value(own);
      stranger.exchange(own, "1", {});
    });
    const std::unique_ptr<ProcessLinks> links = meeting.wait();
    const std::string own = group.get_future().get();
    const auto refused = [&](const std::string& of, grpc::StatusCode code, const std::string& why) {
      const grpc::Status status = Stranger(meeting.address(), security_).exchange(of, "1", {});
      EXPECT_EQ(status.error_code(), code);
      EXPECT_EQ(status.error_message(), why);
    };
    refused(own, grpc::StatusCode::PERMISSION_DENIED, "a process of this rank is connected already");
    if (!first)
      refused(earlier, grpc::StatusCode::PERMISSION_DENIED, "it belongs to another group of processes");
    EXPECT_EQ(greeted.exchange(own, "1", {}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_NO_THROW(links->check());
    earlier = own;
  }
}

// Otherwise one that expects 2 would be the second of 3, and wait with the first one for a third.
TEST_F(Peers, WhoeverExpectsAnotherGroupIsRefusedInAllProcesses) {
  const auto expect_refusal = [&](const std::string& purpose, int processes, const std::string& expects) {
    Sentences said;
    auto meeting = std::make_unique<PeerMeeting>(
        "127.0.0.1:0", 3, "", PeerOptions{.purpose = "a test", .security = security_, .say = said.writer()});
    const std::string address = meeting->address();
    const auto join = [&](const std::string& of, int size) {
      return std::async(std::launch::async, [=, this] {
        return sentence_of([&] { join_peers(address, size, 20, {.purpose = of, .security = security_}); });
      });
    };
    auto waiting = join("a test", 3);
    ASSERT_TRUE(said.wait_for("has joined (2 of 3 processes)"));
    auto other = join(purpose, processes);
    const std::string first = sentence_of([&] { meeting->wait(); });
    meeting.reset();
    EXPECT_TRUE(says(first, fmt::format(" expects {}, and the first process, ", expects)));
    EXPECT_TRUE(first.ends_with(", waits for a group of 3 processes of a test")) << first;
    const std::string refused = fmt::format("The coordinator {} refused: {}", address, first);
    EXPECT_EQ(other.get(), refused);
    EXPECT_EQ(waiting.get(), refused);
  };
  expect_refusal("a test", 2, "a group of 2 processes of a test");
  expect_refusal("another", 3, "a group of 3 processes of another");
  expect_refusal("another", 0, "a group of any number of processes of another");
}

// A member that sends what no process of telar sends ends the run, with a sentence.
TEST_F(Peers, GarbageFromAMemberEndsTheRunAndNamesIt) {
  PeerFrame second{.kind = PeerFrame::Kind::welcome};
  seal(second, {});
  PeerFrame far = frame_of(1, uint64_t{1} << 63, uint64_t{1} << 62);
  seal(far, {});
  const auto bytes_of = [](const PeerFrame& frame) {
    const auto bytes = std::as_bytes(std::span(&frame, 1));
    return Bytes(bytes.begin(), bytes.end());
  };
  const std::vector<std::pair<Bytes, std::string>> garbage = {
      {Bytes(3), "a message that no process of telar sends"},
      {Bytes(64), "a message that was damaged on its way"},
      {bytes_of(second), "a second welcome"},
      {bytes_of(far), "parts of a message that do not follow each other"},
      {Bytes(kPeerPart + 100), "a message that no process of telar sends"}};
  for (const auto& [sent, why] : garbage) {
    PeerMeeting meeting("127.0.0.1:0", 2, "", {.security = security_});
    std::jthread member([&, sent = sent] {
      Stranger stranger(meeting.address(), security_);
      const peers::Introduction introduction = stranger.join();
      stranger.exchange(introduction.group(), "1", sent);
    });
    std::string failure;
    try {
      const std::unique_ptr<ProcessLinks> links = meeting.wait();
      for (int i = 0; i < 2000; ++i) {
        links->check();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    } catch (const Error& error) {
      failure = error.what();
    }
    EXPECT_NE(failure.find("the process of rank 1 (stranger:1) is lost: it sent " + why), std::string::npos)
        << failure;
  }
}

// Whoever is done leaves, and the others may still be within the same call, which they can end without it.
TEST_F(Peers, WhoHasLeftIsLostOnlyAfterAWhile) {
  PeerMeeting meeting("127.0.0.1:0", 2, "", {.security = security_});
  std::promise<void> met;
  std::promise<void> over;
  std::jthread other([&] {
    const JoinedPeers joined = join_peers(meeting.address(), 0, 20, {.security = security_}).value();
    met.get_future().wait();
    joined.links->leave();
    over.get_future().wait();
  });
  const std::unique_ptr<ProcessLinks> links = meeting.wait();
  met.set_value();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_NO_THROW(links->check());
  std::string failure;
  for (int i = 0; i < 2000 && failure.empty(); ++i) {
    try {
      links->check();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  over.set_value();
  EXPECT_TRUE(failure.starts_with("the process of rank 1 (") && failure.ends_with(") has left the group"))
      << failure;
}

TEST_F(Peers, WhoeverDoesNotConnectIsNamed) {
  PeerMeeting meeting("127.0.0.1:0", 2, "", {.security = security_});
  std::jthread member([&] { Stranger(meeting.address(), security_).join(); });
  int looks = 0;
  expect_error(
      [&] {
        meeting.wait([&] {
          if (++looks > 20) throw run_error("enough");
        });
      },
      {"enough"}, Error::Kind::run);
}

}  // namespace
}  // namespace telar::test
