#pragma once

#include <string>
#include <string_view>

#include "telar/comm/network.h"

// The first bytes of every connection to one of Telar's servers, before TLS and HTTP/2. gRPC on the client's
// side can send an HTTP request "CONNECT" first, as it would to a proxy, and waits for "200". The server
// reads this request itself and passes the connection on to gRPC only if the request proves that the client
// knows the token. What strangers send therefore never reaches gRPC, which would buffer it.
//
// The proof does not reveal the token, and is always the same: somebody who can read the network can repeat
// it, and then meets TLS and the token in every call. It protects the server's memory, not the job.

namespace telar {

/// More bytes than this are never read from a client before its greeting is accepted.
inline constexpr size_t kLongestGreeting = 4096;

/// The names and values of the channel arguments of gRPC that make a client send the greeting.
inline constexpr char kGreetingHostArgument[] = "grpc.http_connect_server";
inline constexpr char kGreetingHost[] = "telar";
inline constexpr char kGreetingHeadersArgument[] = "grpc.http_connect_headers";
std::string greeting_headers(const Security& security);

/// HMAC-SHA256 with the token as its key (RFC 2104), in hexadecimal digits.
std::string greeting_proof(const Security& security);

enum class Greeting {
  incomplete,  ///< more bytes are needed
  accepted,
  wrong_token,
  none  ///< it is not the greeting of a Telar process
};
/// Judges the bytes received so far. Takes the same time for every wrong proof.
Greeting judge_greeting(std::string_view bytes, std::string_view proof);

/// Says what is wrong with bytes that are no greeting. Those of a process whose release does not greet are
/// recognised by the beginning of HTTP/2 or TLS.
std::string no_greeting_reason(std::string_view bytes);

/// The answers to an accepted greeting and to a wrong token.
inline constexpr std::string_view kGreetingAccepted = "HTTP/1.0 200 Welcome\r\n\r\n";
inline constexpr std::string_view kGreetingRefused = "HTTP/1.0 403 Wrong token\r\n\r\n";
/// Part of the message of gRPC's status UNAVAILABLE after kGreetingRefused.
inline constexpr std::string_view kGreetingRefusedStatus = "HTTP proxy returned response code 403";

/// Compares all characters, so the time does not depend on where the first difference is.
bool same_secret(std::string_view given, std::string_view expected);

}  // namespace telar
