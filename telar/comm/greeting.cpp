#include "telar/comm/greeting.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "telar/core/error.h"

namespace telar {
namespace {

constexpr std::string_view kProven = "telar greeting 1";
constexpr std::string_view kProofHeader = "telar-greeting:";
constexpr std::string_view kFirstWords = "CONNECT telar HTTP/1.";
constexpr std::string_view kHttp2Begin = "PRI * HTTP/2.0\r\n";  // RFC 9113, section 3.4
constexpr std::string_view kTlsBegin = "\x16\x03";              // a handshake record of TLS 1
constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kGreetingEnd = "\r\n\r\n";

std::string_view header_value(std::string_view request) {
  const size_t line = request.find(kProofHeader);
  if (line == std::string_view::npos) return {};
  std::string_view value = request.substr(line + kProofHeader.size());
  value = value.substr(0, value.find(kLineEnd));
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

}  // namespace

std::string greeting_proof(const Security& security) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (HMAC(EVP_sha256(), security.token.c_str(), static_cast<int>(security.token.size()),
           reinterpret_cast<const unsigned char*>(kProven.data()), kProven.size(), digest.data(),
           &size) == nullptr)
    throw run_error("OpenSSL cannot compute an HMAC-SHA256 here");
  std::string proof;
  for (unsigned i = 0; i < size; ++i) proof += fmt::format("{:02x}", digest[i]);
  return proof;
}

std::string greeting_headers(const Security& security) {
  return fmt::format("{} {}", kProofHeader, greeting_proof(security));
}

Greeting judge_greeting(std::string_view bytes, std::string_view proof) {
  const std::string_view first = bytes.substr(0, kFirstWords.size());
  if (first != kFirstWords.substr(0, first.size())) return Greeting::none;
  const size_t end = bytes.find(kGreetingEnd);
  if (end == std::string_view::npos)
    return bytes.size() < kLongestGreeting ? Greeting::incomplete : Greeting::none;
  // A client waits for the answer.
  if (end + kGreetingEnd.size() != bytes.size()) return Greeting::none;
  return same_secret(header_value(bytes.substr(0, end + kLineEnd.size())), proof) ? Greeting::accepted
                                                                                  : Greeting::wrong_token;
}

std::string no_greeting_reason(std::string_view bytes) {
  const bool grpc = bytes.starts_with(kHttp2Begin) || bytes.starts_with(kTlsBegin);
  if (!grpc) return "it did not send the greeting of a process of telar";
  return fmt::format(
      "it did not send the greeting of a process of telar; if it is one, its protocol has version {}, here {}; use the same release of telar everywhere",
      kLastVersionWithoutGreeting, kProtocolVersion);
}

bool same_secret(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = expected.empty() ? '\0' : expected[i % expected.size()];
    difference |= static_cast<unsigned>(given[i] ^ other);
  }
  return difference == 0;
}

}  // namespace telar
