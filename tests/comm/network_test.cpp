#include "telar/comm/network.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "comm/members_support.h"
#include "io/temp_folder.h"
#include "support/paths.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

constexpr char kToken[] = "0123456789abcdef";

/// Runs scripts/certs; returns its exit code.
int certs(const fs::path& folder, const std::string& hosts = "") {
  const std::string command =
      fmt::format("{}/certs {} {} >/dev/null 2>&1", scripts(), folder.string(), hosts);
  return WEXITSTATUS(std::system(command.c_str()));
}

Security with(const fs::path& certificates) {
  return {.token = kToken, .certificates = certificates.string()};
}

TEST(Address, IsAHostAndAPort) {
  EXPECT_EQ(Address::parse("127.0.0.1:80").host, "127.0.0.1");
  EXPECT_EQ(Address::parse("node-1.example:7000").port, 7000);
  EXPECT_EQ(Address::parse("[::1]:7000").host, "::1");
  EXPECT_EQ(Address::parse("[::1]:7000").text(), "[::1]:7000");
  EXPECT_EQ(Address::parse("node:0").text(), "node:0");
  for (const char* wrong : {"", "node", "node:", ":7000", "node:70000", "node:-1", "node:7x", "::1:7000",
                            "[::1:7", "[node]:7000", "unix:/tmp/x:1", "no de:1", "-x:1"})
    expect_error([&] { Address::parse(wrong); }, {"is not a network address", "HOST:PORT"});
}

TEST(Address, AHostKnowsItsOwn) {
  for (const char* here : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "0.0.0.0:1"})
    EXPECT_TRUE(on_this_host(here)) << here;
  for (const char* there : {"192.0.2.1:1", "[2001:db8::1]:1"})  // for documentation: RFC 5737 and 3849
    EXPECT_FALSE(on_this_host(there)) << there;
}

TEST(Address, TheLoopbackIsKnownByItsAddresses) {
  for (const char* here : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1"})
    EXPECT_TRUE(Address::parse(here).loopback()) << here;
  for (const char* there :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "node:1", "localhost.example:1", "128.0.0.1:1"})
    EXPECT_FALSE(Address::parse(there).loopback()) << there;
}

TEST(Network, BeyondTheLoopbackCertificatesAndATokenAreRequired) {
  check_listening("127.0.0.1:0", {});
  expect_error([] { check_listening("0.0.0.0:0", {}); },
               {"0.0.0.0:0", "certificates and a token", "--insecure-network"});
  expect_error([] { check_listening("node:7", {.token = kToken}); }, {"without certificates:"});
  expect_error([] { check_listening("node:7", {.certificates = "c"}); }, {"without a token"});
  expect_error([] { check_connecting("node:7", {.token = kToken}); }, {"Connecting to node:7"});
  expect_error([] { check_connecting("127.0.0.1:0", {}); }, {"port 0"});
  check_listening("node:7", {.token = kToken, .certificates = "c"});
  check_listening("0.0.0.0:7", {.insecure_network = true});
  for (const char* token :
       {"short", "with a blank inside", "with-a-line\nbreak--", "caf\xc3\xa9-caf\xc3\xa9-caf\xc3\xa9"})
    expect_error([&] { check_listening("127.0.0.1:0", {.token = token}); }, {"token"});
}

TEST(Network, OnlyTlsAndTheLoopbackKeepDataFromDamage) {
  EXPECT_TRUE(safe_from_damage("127.0.0.1:7", {}));
  EXPECT_TRUE(safe_from_damage("node:7", {.certificates = "c"}));
  EXPECT_FALSE(safe_from_damage("node:7", {.token = kToken, .insecure_network = true}));
}

TEST(Network, APortInUseIsAnError) {
  const Coordinator first(coordinator_options(1));
  CoordinatorOptions options = coordinator_options(1);
  options.listen = first.address();
  expect_error([&] { const Coordinator second(options); }, {first.address(), "Address already in use"});
}

TEST(Network, AcceptsOnlyCertificatesOfItsAuthority) {
  const TempFolder folder;
  const fs::path ours = folder.path() / "ours";
  const fs::path others = folder.path() / "others";
  ASSERT_EQ(certs(ours, "host.example 10.1.2.3"), 0);
  ASSERT_EQ(certs(others), 0);
  EXPECT_NE(certs(ours), 0) << "it must not overwrite files";
  EXPECT_EQ(certs(folder.path() / "x", "'no host'"), 2);
  EXPECT_EQ(fs::status(ours / "key.pem").permissions(), fs::perms::owner_read | fs::perms::owner_write);

  for (const char* host : {"127.0.0.1", "localhost", "[::1]"}) {
    CoordinatorOptions options = coordinator_options(1);
    options.security = with(ours);
    options.listen = fmt::format("{}:0", host);
    Coordinator coordinator(options);
    MembershipOptions member = member_options(coordinator.address());
    member.security = with(ours);
    EXPECT_EQ(Membership(member).id(), 1U) << host;
    member.patience_seconds = 0.5;
    for (const Security& wrong : {with(others), Security{.token = kToken}}) {
      member.security = wrong;
      expect_error([&] { const Membership refused(member); }, {coordinator.address(), "cannot be reached"},
                   Error::Kind::run);
    }
  }
}

TEST(Network, ACertificateThatDoesNotNameTheHostIsNotTrusted) {
  const TempFolder folder;
  ASSERT_EQ(certs(folder.path()), 0);
  CoordinatorOptions options = coordinator_options(1);
  options.security = with(folder.path());
  options.listen = "127.0.0.2:0";
  const Coordinator coordinator(options);
  MembershipOptions member = member_options(coordinator.address());
  member.security = options.security;
  member.patience_seconds = 0.5;
  expect_error([&] { const Membership refused(member); }, {"127.0.0.2", "cannot be reached"},
               Error::Kind::run);
}

TEST(Network, NamesAMissingOrInvalidCertificateFile) {
  const TempFolder folder;
  CoordinatorOptions options = coordinator_options(1);
  options.security = with(folder.path());
  expect_error([&] { const Coordinator none(options); },
               {"cannot read the certificate", "ca.pem", "scripts/certs"});
  ASSERT_EQ(certs(folder.path()), 0);
  std::ofstream(folder.path() / "key.pem") << "nonsense";
  expect_error([&] { const Coordinator none(options); }, {"key.pem", "not in PEM format"});
  fs::copy_file(folder.path() / "cert.pem", folder.path() / "key.pem", fs::copy_options::overwrite_existing);
  expect_error([&] { const Coordinator none(options); }, {"certificates may be damaged"});
}

}  // namespace
}  // namespace telar::test
