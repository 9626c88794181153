#include "telar/observe/metrics_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "support/sentences.h"
#include "telar/observe/prometheus_text.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

int connected_to(uint16_t port) {
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return client;
}

/// Everything that the server answers before it closes the connection.
std::string answer_to(uint16_t port, const std::string& request) {
  const int client = connected_to(port);
  EXPECT_EQ(send(client, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  shutdown(client, SHUT_WR);
  std::string answer;
  std::array<char, 4096> bytes{};
  for (ssize_t count = 0; (count = recv(client, bytes.data(), bytes.size(), 0)) > 0;)
    answer.append(bytes.data(), static_cast<size_t>(count));
  close(client);
  return answer;
}

TEST(PrometheusText, HasHelpTypeAndValue) {
  using enum PrometheusMetric::Kind;
  EXPECT_EQ(
      prometheus_text({{"telar_steps_total", "Steps \\ of\nall", counter, 12},
                       {"telar_loss", "Loss", gauge, 0.1},
                       {"telar_lag", "", gauge, std::numeric_limits<double>::infinity()},
                       {"telar_nan", "", gauge, std::numeric_limits<double>::quiet_NaN()}}),
      "# HELP telar_steps_total Steps \\\\ of\\nall\n# TYPE telar_steps_total counter\ntelar_steps_total 12\n"
      "# HELP telar_loss Loss\n# TYPE telar_loss gauge\ntelar_loss 0.1\n"
      "# HELP telar_lag \n# TYPE telar_lag gauge\ntelar_lag +Inf\n"
      "# HELP telar_nan \n# TYPE telar_nan gauge\ntelar_nan NaN\n");
}

TEST(MetricsServer, AnswersEachRequestWithThePageOfThatMoment) {
  std::atomic<int> pages = 0;
  const MetricsServer server("127.0.0.1:0", [&] { return "telar_pages " + std::to_string(++pages) + "\n"; });
  for (int n = 1; n <= 3; ++n) {
    const std::string answer =
        answer_to(server.port(), "GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(says(answer, "Content-Type: text/plain; version=0.0.4"));
    EXPECT_TRUE(says(answer, "Content-Length: 14\r\n"));
    EXPECT_TRUE(answer.ends_with("\r\n\r\ntelar_pages " + std::to_string(n) + "\n")) << answer;
  }
}

TEST(MetricsServer, ALongPageArrivesWhole) {
  const std::string page(3'000'000, 'x');
  const MetricsServer server("127.0.0.1:0", [&] { return page; });
  const std::string answer = answer_to(server.port(), "GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, page.size());
}

TEST(MetricsServer, OtherRequestsAreRefusedAndTheNextOneIsAnswered) {
  const MetricsServer server("127.0.0.1:0", [] { return "page\n"; });
  const auto expect_answer = [&](const std::string& request, const std::string& status) {
    EXPECT_TRUE(answer_to(server.port(), request).starts_with("HTTP/1.1 " + status)) << request;
  };
  expect_answer("GET /secrets HTTP/1.1\r\n\r\n", "404 ");
  expect_answer("POST /metrics HTTP/1.1\r\n\r\n", "405 ");
  expect_answer("\x16\x03\x01 hello", "400 ");
  expect_answer("GET /metrics", "400 ");
  expect_answer(std::string(3 * MetricsServer::kLongestRequest, 'a'), "400 ");
  EXPECT_EQ(answer_to(server.port(), ""), "");
  expect_answer("GET /metrics?name=telar HTTP/1.1\r\n\r\n", "200 ");
}

TEST(MetricsServer, NoClientWaitsForSilentOnes) {
  const MetricsServer server("127.0.0.1:0", [] { return "page\n"; });
  std::vector<int> silent;
  for (size_t n = 0; n < MetricsServer::kClients + 9; ++n) silent.push_back(connected_to(server.port()));
  const std::string begun = "GET /metr";
  send(silent.back(), begun.data(), begun.size(), MSG_NOSIGNAL);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(answer_to(server.port(), "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1000));
  const std::string rest = "ics HTTP/1.1\r\n\r\n";
  send(silent.back(), rest.data(), rest.size(), MSG_NOSIGNAL);
  char byte = 0;
  EXPECT_EQ(recv(silent.back(), &byte, 1, 0), 1) << "a request in two parts is answered, too";
  for (const int client : silent) close(client);
}

TEST(MetricsServer, WhoComesBeforeThePageIsAnsweredWhenItIsThere) {
  MetricsServer server("127.0.0.1:0");
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server.serve([] { return "page\n"; });
  });
  EXPECT_TRUE(answer_to(server.port(), "GET / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\npage\n"));
  later.join();
}

TEST(MetricsServer, EndsWhileAClientIsSilent) {
  int client = -1;
  {
    const MetricsServer server("127.0.0.1:0", [] { return "page\n"; });
    client = connected_to(server.port());
  }
  char byte = 0;
  EXPECT_LE(recv(client, &byte, 1, 0), 0);
  close(client);
}

TEST(MetricsServer, AnAddressThatCannotBeUsedIsASentence) {
  const MetricsServer server("127.0.0.1:0", [] { return ""; });
  const std::string taken = "127.0.0.1:" + std::to_string(server.port());
  EXPECT_TRUE(says(sentence_of([&] { MetricsServer(taken, [] { return ""; }); }),
                   "Listening on " + taken + " is not possible: Address already in use"));
  EXPECT_TRUE(says(sentence_of([] { MetricsServer("here", [] { return ""; }); }), "here"));
}

}  // namespace
}  // namespace telar
