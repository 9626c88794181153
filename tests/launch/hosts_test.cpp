#include <gtest/gtest.h>

#include "io/temp_folder.h"
#include "telar/core/error.h"
#include "telar/launch/engines.h"

namespace telar {
namespace {

std::string text_of(const std::vector<LaunchSlot>& slots) {
  std::string text;
  for (const LaunchSlot& slot : slots) text += slot.host + "=" + slot.address + " ";
  return text;
}

TEST(HostsOfLaunch, AListNamesPlaces) {
  EXPECT_EQ(text_of(slots_of_hosts("a,b:2,me@c")), "a=a b=b b=b me@c=c ");
  EXPECT_EQ(text_of(slots_of_hosts("[fe80::1]:2")), "fe80::1=fe80::1 fe80::1=fe80::1 ");
  for (const char* wrong : {"", "a:0", "a:x", "a,,b", "-oProxyCommand=x", "a b"})
    EXPECT_THROW(slots_of_hosts(wrong), Error) << wrong;
}

TEST(HostsOfLaunch, AFileIsOfOpenMpiOrMpichOrPbs) {
  const test::TempFolder folder;
  const std::string file = (folder / "hosts").string();
  test::write_text(file, "# the cluster\na slots=2 max_slots=4\n\nb:2  # MPICH\nc\nc\n");
  EXPECT_EQ(text_of(slots_of_host_file(file)), "a=a a=a b=b b=b c=c c=c ");
  test::write_text(file, "# none\n");
  EXPECT_THROW(slots_of_host_file(file), Error);
}

}  // namespace
}  // namespace telar
