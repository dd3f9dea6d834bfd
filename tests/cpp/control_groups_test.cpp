// What control groups leave to a process, from files as the system has them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/threads.h"
#include "target/free_memory.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

/// A tree of files that is gone with it.
class Tree {
 public:
  Tree() {
    char name[] = "/tmp/snug-groups-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~Tree() { fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  GroupFiles groups() const { return {root_ / "cgroup", root_ / "groups"}; }
  std::uint64_t free() const {
    return free_memory({root_ / "meminfo", "/proc/self/status", root_ / "cgroup", root_ / "groups"})
        .bytes;
  }

 private:
  fs::path root_;
};

TEST(ControlGroups, QuotasOfVersion2) {
  const Tree tree;
  EXPECT_EQ(quota_cores(tree.groups()), 0);  // no such files
  tree.write("cgroup", "0::/user/a\n");
  EXPECT_EQ(quota_cores(tree.groups()), 0);
  tree.write("groups/user/a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota_cores(tree.groups()), 0);
  tree.write("groups/user/a/cpu.max", "650000 100000\n");
  EXPECT_EQ(quota_cores(tree.groups()), 7);
  tree.write("groups/user/cpu.max", "150000 100000\n");  // around it
  EXPECT_EQ(quota_cores(tree.groups()), 2);
  tree.write("groups/cpu.max", "5000 100000\n");
  EXPECT_EQ(quota_cores(tree.groups()), 1);
}

TEST(ControlGroups, QuotasOfVersion1) {
  const Tree tree;
  tree.write("cgroup", "7:memory:/m\n4:cpu,cpuacct:/a\n0::/\n");
  tree.write("groups/cpu/a/cpu.cfs_quota_us", "-1\n");
  tree.write("groups/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota_cores(tree.groups()), 0);
  tree.write("groups/cpu/a/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(quota_cores(tree.groups()), 1);
  tree.write("groups/cpu/a/cpu.cfs_quota_us", "300001\n");
  EXPECT_EQ(quota_cores(tree.groups()), 4);
  tree.write("groups/cpu/a/cpu.cfs_quota_us", "damaged\n");
  EXPECT_EQ(quota_cores(tree.groups()), 0);
}

TEST(ControlGroups, MemoryIsTheLeastOfAllAround) {
  const Tree tree;
  tree.write("meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n");
  tree.write("cgroup", "7:memory:/m/n\n0::/u\n");
  EXPECT_EQ(tree.free(), 8000U << 10);
  tree.write("groups/memory/m/memory.limit_in_bytes", "700000\n");
  tree.write("groups/memory/m/memory.usage_in_bytes", "200000\n");
  EXPECT_EQ(tree.free(), 500000U);
  tree.write("groups/memory/m/memory.stat", "total_inactive_file 1000\ntotal_active_file 500\n");
  EXPECT_EQ(tree.free(), 501500U);  // cached files count as free
  tree.write("groups/u/memory.max", "400000\n");
  tree.write("groups/u/memory.current", "100000\n");
  EXPECT_EQ(tree.free(), 300000U);
}

}  // namespace
}  // namespace snug
