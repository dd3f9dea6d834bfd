#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>

#include "error_of.h"
#include "random_array.h"
#include "snug.h"

namespace snug::data {
namespace {

using testing::error_of;

/// Row r is the number r. Knows the most rows asked for at once by a single reader: sources with
/// blocks have one.
class Numbers : public Source {
 public:
  Numbers(std::int64_t rows, std::int64_t block, std::int64_t phase = 0) {
    rows_ = rows;
    block_ = block;
    phase_ = phase;
    fields_ = {{"number", DType::I64, {}}};
  }
  std::int64_t bad_row = -1;
  mutable std::atomic<std::int64_t> largest_read{0};

 protected:
  void read_rows(std::int64_t begin, std::int64_t count,
                 std::span<std::byte* const> out) const override {
    largest_read = std::max<std::int64_t>(largest_read, count);
    for (std::int64_t i = 0; i < count; ++i) {
      if (begin + i == bad_row) fail(Fault::Value, "numbers.txt: row 50 is bad");
      reinterpret_cast<std::int64_t*>(out[0])[i] = begin + i;
    }
  }
};

std::vector<std::int64_t> epoch_of(Loader& loader) {
  std::vector<std::int64_t> out;
  while (auto batch = loader.next()) {
    const Array& numbers = (*batch)[0];
    out.insert(out.end(), numbers.typed<std::int64_t>(),
               numbers.typed<std::int64_t>() + numbers.size());
  }
  return out;
}

TEST(Loader, GivesEveryRowOfEveryEpochOnce) {
  for (std::int64_t block : {1, 7})
    for (int threads : {1, 3}) {
      auto source = std::make_shared<Numbers>(100, block, block > 1 ? 3 : 0);
      Loader loader(source, {.batch = 8, .memory = "1KiB", .threads = threads});
      std::vector<std::int64_t> last;
      for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::int64_t> rows = epoch_of(loader);
        EXPECT_NE(rows, last);
        last = rows;
        std::sort(rows.begin(), rows.end());
        ASSERT_EQ(rows.size(), 100u);
        for (std::int64_t i = 0; i < 100; ++i) ASSERT_EQ(rows[i], i);
      }
      if (block > 1) {
        EXPECT_LE(source->largest_read, block);
      }
      EXPECT_LE(loader.memory().total(), loader.memory().limit);
    }
}

TEST(Loader, UsesStorageAgain) {
  Loader loader(std::make_shared<Numbers>(10000, 1), {.batch = 10, .threads = 1});
  std::vector<const std::byte*> places;
  while (auto batch = loader.next()) {
    const std::byte* place = (*batch)[0].data;
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  EXPECT_LE(places.size(), 7u);
}

TEST(Loader, BatchesOfManyWindows) {
  Loader loader(std::make_shared<Numbers>(1000, 4),
                {.batch = 300, .memory = "8KiB", .threads = 2, .drop_last = true});
  EXPECT_EQ(loader.batches(), 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int64_t> rows = epoch_of(loader);
    EXPECT_EQ(rows.size(), 900u);
    std::sort(rows.begin(), rows.end());
    EXPECT_EQ(std::unique(rows.begin(), rows.end()), rows.end());
  }
}

TEST(Loader, ErrorsOfReadersArriveAndStay) {
  for (std::int64_t block : {1, 7}) {
    auto source = std::make_shared<Numbers>(100, block);
    source->bad_row = 50;
    Loader loader(source, {.batch = 8, .shuffle = false, .memory = "1KiB", .threads = 2});
    auto read_all = [&] {
      while (loader.next()) {
      }
    };
    EXPECT_EQ(error_of(read_all).message(), "numbers.txt: row 50 is bad");
    EXPECT_EQ(error_of(read_all).message(), "numbers.txt: row 50 is bad");
    LoaderState state = loader.state();
    EXPECT_LE(state.batch, 6);
    state.batch = 10;
    if (block > 1) continue;  // windows of the next epoch hold the row, too
    loader.seek(state);
    EXPECT_EQ(loader.next()->number, 10);
  }
}

TEST(Loader, EndsWhileThreadsWork) {
  for (int i = 0; i < 50; ++i) {
    Loader loader(std::make_shared<Numbers>(10000, i % 2 ? 1 : 100), {.batch = 10, .threads = 3});
    if (i % 3) loader.next();
  }
}

TEST(Loader, FeedsAFunction) {
  const Array images = random_array({64, 5}, 1);
  Loader loader(arrays({images}), {.batch = 16, .shuffle = false});
  const Expr x = matrix("x");
  const Function total = function({x}, sum(x));
  double sum_of_batches = 0;
  while (auto batch = loader.next()) sum_of_batches += total((*batch)[0]).item<double>();
  double expected = 0;
  for (std::int64_t i = 0; i < images.size(); ++i) expected += images.at_double(i);
  EXPECT_NEAR(sum_of_batches, expected, 1e-4);
}

TEST(Npy, HeadersThatPromiseTooMuch) {
  const std::string path = ::testing::TempDir() + "promise.npy";
  auto write = [&](const std::string& shape, const std::string& descr = "<f8") {
    std::string header =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}}}\n", descr, shape);
    std::ofstream file(path, std::ios::binary);
    file << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size()) << '\0' << header
         << std::string(64, 'x');
  };
  write("(8,)");
  EXPECT_EQ(npy(path)->rows(), 8);
  for (const char* shape : {"(9,)", "(4, 3)", "(99999999999999,)"}) {
    write(shape);
    EXPECT_NE(error_of([&] { npy(path); }).message().find("promises"), std::string::npos) << shape;
  }
  write("(0, 9223372036854775807, 9223372036854775807)");
  EXPECT_NE(error_of([&] { npy(path); }).message().find("impossible"), std::string::npos);
  write("(1,1,1,1,1,1,1,1,1)");
  EXPECT_NE(error_of([&] { npy(path); }).message().find("8 dimensions"), std::string::npos);
  write("(8,)", "<O8");
  EXPECT_NE(error_of([&] { npy(path); }).message().find("'<O8'"), std::string::npos);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace snug::data
