// What drivers list, as one entry per card; tests/python/test_find_devices.py has drivers that do.
#include "backend/opencl/find_devices.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace snug {
namespace {

OpenClFound listed(const std::string& platform, std::size_t number, const std::string& version,
                   const std::string& maker = "Maker") {
  OpenClFound f;
  f.model = "Card";
  f.vendor = "Maker";
  f.platform = platform, f.platform_vendor = maker;
  f.version = version;
  f.gpu = true;
  f.memory = 8ull << 30;
  f.vendor_id = 7;
  f.device_number = number;
  return f;
}

/// "opencl:0=Own:0+Mesa:1" for a card by two drivers.
std::string told(std::vector<OpenClFound> all) {
  std::string text;
  for (const OpenClFound& f : name_devices(std::move(all)).devices) {
    text += (text.empty() ? "" : " ") + f.name + "=" + f.platform + ":" +
            std::to_string(f.device_number);
    for (const OpenClFound& o : f.others)
      text += "+" + o.name + "=" + o.platform + ":" + std::to_string(o.device_number);
  }
  return text;
}

TEST(NameDevices, TheBestDriverOfACardIsUsed) {
  const auto old = listed("Own", 0, "OpenCL 2.1 a"), other = listed("Mesa", 0, "OpenCL 3.0 b", "X"),
             equal = listed("Own", 0, "OpenCL 3.0 c");
  EXPECT_EQ(told({old, other}), "opencl:0=Mesa:0+opencl:0@own=Own:0");
  EXPECT_EQ(told({other, equal}), "opencl:0=Own:0+opencl:0@mesa=Mesa:0");
  OpenClFound busy = equal;
  busy.trouble = "not available";
  EXPECT_EQ(told({busy, other}), "opencl:0=Mesa:0+=Own:0");
  EXPECT_EQ(name_devices({busy}).unusable.size(), 1u);
}

TEST(NameDevices, EqualCardsOfAPlatformAreSeveral) {
  std::vector<OpenClFound> all;
  for (const std::size_t k : {0, 1, 2}) {
    all.push_back(listed("Own", k, "OpenCL 3.0"));
    if (k < 2) all.push_back(listed("A & B", k, "OpenCL 1.2"));
  }
  const std::string expected =
      "opencl:0=Own:0+opencl:0@a-b=A & B:0 opencl:1=Own:1+opencl:1@a-b=A & B:1 opencl:2=Own:2";
  for (int k = 0; k < 120; ++k) {
    EXPECT_EQ(told(all), expected);
    std::next_permutation(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::pair(a.platform, a.device_number) < std::pair(b.platform, b.device_number);
    });
  }
}

TEST(NameDevices, PlacesOnTheBusAndNumbersOfCardsDecide) {
  auto a = listed("Own", 0, "OpenCL 3.0"), b = listed("Mesa", 0, "OpenCL 3.0", "X");
  a.pci = "0000:01:00.0", b.pci = "0000:02:00.0";
  EXPECT_EQ(told({a, b}), "opencl:0=Own:0 opencl:1=Mesa:0");
  b.pci = a.pci;
  b.model = "Card (radeonsi)";  // drivers have their own words
  EXPECT_EQ(told({a, b}), "opencl:0=Own:0+opencl:0@mesa=Mesa:0");
  b.pci.clear();
  EXPECT_EQ(told({a, b}), "opencl:0=Own:0 opencl:1=Mesa:0");
  a.uuid = b.uuid = "00ff";
  EXPECT_EQ(told({a, b}), "opencl:0=Own:0+opencl:0@mesa=Mesa:0");
}

}  // namespace
}  // namespace snug
