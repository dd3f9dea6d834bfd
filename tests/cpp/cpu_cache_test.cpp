#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "cpu_kernels.h"

namespace snug::test {
namespace {

namespace fs = std::filesystem;

/// A fresh directory, gone at the end.
struct TempDir {
  fs::path path;
  TempDir() {
    char name[] = "/tmp/snug-cache-XXXXXX";
    path = fs::path(mkdtemp(name)) / "cache";
  }
  ~TempDir() { fs::remove_all(path.parent_path()); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& e : fs::directory_iterator(path)) found.push_back(e.path());
    return found;
  }
};

KernelSpec add_number(double v) {
  SpecBuilder b;
  b.spec.name = "add number";
  b.spec.extents = {kRun};
  b.spec.outer = 1;
  int x = b.operand(DType::F32, false, {1}), y = b.operand(DType::F32, true, {1});
  b.store(y, b.op(Prim::Tanh, b.op(Prim::Add, b.load(x), b.number(v))));
  b.phase(false);
  return b.spec;
}

bool works(KernelFn f, double v) {
  float x[20], y[20];
  for (int i = 0; i < 20; ++i) x[i] = static_cast<float>(i) / 10;
  std::byte* operands[] = {reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(y)};
  std::int64_t ints[] = {20, 1, 1};
  f(operands, ints, 0, 20);
  for (int i = 0; i < 20; ++i)
    if (std::fabs(y[i] - std::tanh(x[i] + v)) > 1e-6) return false;
  return true;
}

TEST(CpuCache, EqualSpecsCompileOnce) {
  CpuJit jit(HostCpu::detect(), "");
  KernelSpec a = add_number(1), b = add_number(1), c = add_number(2);
  b.name = "another name";
  const KernelSpec* specs[] = {&a, &b, &c, &a};
  std::vector<KernelFn> f = jit.compile(specs);
  EXPECT_EQ(f[0], f[1]);
  EXPECT_EQ(f[0], f[3]);
  EXPECT_NE(f[0], f[2]);
  EXPECT_TRUE(works(f[0], 1) && works(f[2], 2));
  EXPECT_EQ(jit.counters().compiled, 2u);
  EXPECT_EQ(jit.counters().from_memory, 2u);
  jit.compile(c);
  EXPECT_EQ(jit.counters().from_memory, 3u);
}

TEST(CpuCache, SecondProcessCompilesNothing) {
  TempDir dir;
  KernelSpec a = add_number(1), b = add_number(2);
  const KernelSpec* specs[] = {&a, &b};
  {
    CpuJit cold(HostCpu::detect(), dir.path);
    cold.compile(specs);
    EXPECT_EQ(cold.counters().compiled, 2u);
  }
  struct stat info {};
  ASSERT_EQ(0, ::stat(dir.path.c_str(), &info));
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(dir.files().size(), 2u);
  CpuJit warm(HostCpu::detect(), dir.path);
  std::vector<KernelFn> f = warm.compile(specs);
  EXPECT_EQ(warm.counters().compiled, 0u);
  EXPECT_EQ(warm.counters().from_disk, 2u);
  EXPECT_TRUE(works(f[0], 1) && works(f[1], 2));
}

TEST(CpuCache, CodeForAnotherCpuIsNotUsed) {
  TempDir dir;
  KernelSpec a = add_number(1);
  CpuJit(HostCpu::detect(128), dir.path).compile(a);
  HostCpu other = HostCpu::detect(128);
  other.features += ",-sse4a";
  CpuJit jit(other, dir.path);
  jit.compile(a);
  EXPECT_EQ(jit.counters().from_disk, 0u);
}

TEST(CpuCache, DamagedFilesAreRebuilt) {
  TempDir dir;
  KernelSpec a = add_number(1);
  CpuJit(HostCpu::detect(), dir.path).compile(a);
  fs::path file = dir.files().at(0);
  auto size = static_cast<long>(fs::file_size(file));
  std::string good;
  {
    std::ifstream in(file, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  auto write = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc).write(bytes.data(), bytes.size());
  };
  std::vector<std::string> bad{"", "x", good.substr(0, 20), good.substr(0, size - 1), good + "x"};
  for (long at : {0L, 10L, 30L, 50L, 70L, size / 2, size - 1}) {
    bad.push_back(good);
    bad.back()[at] ^= 1;
  }
  for (const std::string& bytes : bad) {
    write(bytes);
    CpuJit jit(HostCpu::detect(), dir.path);
    EXPECT_TRUE(works(jit.compile(a), 1));
    EXPECT_EQ(jit.counters().compiled, 1u);
    EXPECT_EQ(fs::file_size(file), good.size()) << "written anew";
  }
  CpuJit jit(HostCpu::detect(), dir.path);
  jit.compile(a);
  EXPECT_EQ(jit.counters().from_disk, 1u);
}

TEST(CpuCache, DirectoriesOthersMayWriteAreRefused) {
  TempDir dir;
  fs::create_directory(dir.path);
  fs::permissions(dir.path, fs::perms::all);
  EXPECT_FALSE(DiskCache(dir.path).on());
  fs::permissions(dir.path, fs::perms::owner_all | fs::perms::group_write);
  EXPECT_FALSE(DiskCache(dir.path).on());
  fs::permissions(dir.path, fs::perms::owner_all);
  EXPECT_TRUE(DiskCache(dir.path).on());
  CpuJit jit(HostCpu::detect(), "/proc/no/such/place");
  EXPECT_TRUE(works(jit.compile(add_number(1)), 1)) << "works without a cache";
}

TEST(CpuCache, SizeIsLimited) {
  TempDir dir;
  DiskCache cache(dir.path, 100000);
  DiskCache::Entry entry{"symbol", std::string(9000, 'x')};
  for (std::uint64_t i = 0; i < 40; ++i) {
    cache.store({i, i}, entry);
    cache.load({0, 0});  // in use: stays
  }
  std::uint64_t bytes = 0;
  for (const fs::path& p : dir.files()) bytes += fs::file_size(p);
  EXPECT_LE(bytes, 100000u);
  EXPECT_TRUE(cache.load({39, 39}));
  EXPECT_TRUE(cache.load({0, 0}));
  EXPECT_FALSE(cache.load({1, 1}));
}

TEST(CpuCache, SeveralProcessesShareADirectory) {
  TempDir dir;
  std::vector<pid_t> children;
  for (int c = 0; c < 3; ++c) {
    pid_t pid = fork();
    if (pid == 0) {
      bool ok = true;
      for (int round = 0; round < 2; ++round) {
        CpuJit jit(HostCpu::detect(), dir.path);
        for (int k = 0; k < 4; ++k) ok = ok && works(jit.compile(add_number(k)), k);
      }
      _exit(ok ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t pid : children) {
    int status = 1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(dir.files().size(), 4u) << "nothing left over";
  CpuJit jit(HostCpu::detect(), dir.path);
  for (int k = 0; k < 4; ++k) EXPECT_TRUE(works(jit.compile(add_number(k)), k));
  EXPECT_EQ(jit.counters().compiled, 0u);
}

TEST(CpuCache, ManyThreadsCompileAtOnce) {
  CpuJit jit(HostCpu::detect(), "");
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int k = 0; k < 6; ++k) good += works(jit.compile(add_number(k)), k);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good, 24);
  EXPECT_EQ(jit.counters().compiled, 6u);
}

}  // namespace
}  // namespace snug::test
