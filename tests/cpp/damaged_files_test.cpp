// Every reader against files that were damaged at random: what it gives is other data or an error
// of the user's kind, in memory that the file and its header account for.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "damage.h"
#include "data/hdf5_bytes.h"
#include "data/source.h"
#include "io/tensor_file.h"
#include "target/free_memory.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using testing::Damage;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A file that is never on a disk, which some thousand changes would keep busy.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("damaged", MFD_CLOEXEC)) {}
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }
  void write(const std::string& bytes) const {
    ASSERT_EQ(ftruncate(descriptor_, 0), 0);
    ASSERT_EQ(pwrite(descriptor_, bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }

 private:
  int descriptor_;
};

void read_rows(const data::SourcePtr& source) {
  std::int64_t row = 0;
  for (const data::Field& field : source->fields()) row += field.bytes();
  constexpr std::int64_t kMost = 1 << 20;  // bytes; a user takes batches, too
  if (row > kMost) return;
  const std::int64_t count = std::min<std::int64_t>(source->rows(), row ? kMost / row : 64);
  source->read(0, count);
  if (source->rows() > 0) source->read(source->rows() - 1, 1);
}

/// `name`: of one dataset.
void read(const std::string& path, const std::string& kind, const std::string& name) {
  if (kind == ".npy") read_rows(data::npy(path));
  if (kind == ".idx") read_rows(data::idx(path));
  if (kind == ".csv") read_rows(data::csv(path, {.label = "kind"}));
  if (kind == ".npz") {
    io::load_npz(path);
    read_rows(data::npz(path));
  }
  if (kind == ".h5") read_rows(data::hdf5(path, {name}));
  if (kind == ".png" || kind == ".jpg")
    read_rows(data::image_files({path}, {.height = 8, .width = 8}));
  if (kind == ".safetensors") io::load_safetensors(path);
  if (kind == ".checkpoint") io::load_hashed(path);
}

/// Parts of an HDF5 file that end in a sum of what is before it.
std::vector<std::pair<std::size_t, std::size_t>> summed_parts(const std::string& file) {
  constexpr std::string_view kNames[] = {"\x89HDF", "OHDR", "OCHK", "BTHD", "BTIN", "BTLF", "FRHP",
                                         "FHIB",    "FAHD", "FADB", "EAHD", "EAIB", "EASB", "EADB"};
  constexpr std::size_t kLongest = 1200;
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  const auto bytes = std::as_bytes(std::span(file));
  for (std::size_t at = 0; at + 8 < file.size(); ++at) {
    if (std::find(std::begin(kNames), std::end(kNames), file.substr(at, 4)) == std::end(kNames))
      continue;
    for (std::size_t end = at + 8; end + 4 <= std::min(file.size(), at + kLongest); ++end) {
      std::uint32_t sum = 0;
      std::memcpy(&sum, file.data() + end, 4);
      if (data::h5::lookup3(bytes.subspan(at, end - at)) != sum) continue;
      parts.emplace_back(at, end);
      break;
    }
  }
  return parts;
}

class DamagedFiles : public ::testing::TestWithParam<const char*> {};

TEST_P(DamagedFiles, AreOtherDataOrErrors) {
  const fs::path good = fs::path(SNUG_TESTS) / "files" / GetParam();
  const std::string kind = good.extension(), whole = content_of(good);
  ASSERT_FALSE(whole.empty());
  const auto sums = kind == ".h5" ? summed_parts(whole) : decltype(summed_parts(whole)){};
  const MemoryFile file;
  const std::string path = file.path();
  file.write(whole);
  std::vector<std::string> names{""};
  if (kind == ".h5") {
    names.clear();
    const data::SourcePtr all = data::hdf5(path);
    for (const data::Field& field : all->fields()) names.push_back(field.name);
  }
  for (const std::string& name : names) ASSERT_NO_THROW(read(path, kind, name));

  const std::int64_t before = high_water_bytes();
  Damage damage(1);
  int refused = 0;
  const int rounds = testing::rounds(kind == ".h5" ? 3000 : 1000);
  for (int round = 0; round < rounds; ++round) {
    std::string bad = damage.of(whole);
    // What is behind the sums is damaged, too.
    if (damage.below(8) > 0)
      for (const auto& [begin, end] : sums) {
        if (end + 4 > bad.size()) continue;
        const std::uint32_t sum =
            data::h5::lookup3(std::as_bytes(std::span(bad)).subspan(begin, end - begin));
        std::memcpy(bad.data() + end, &sum, 4);
      }
    file.write(bad);
    try {
      if (kind == ".h5" && damage.below(4) == 0)
        read_rows(data::hdf5(path));
      else
        read(path, kind, names[damage.below(names.size())]);
    } catch (const Error& e) {
      ++refused;
      const bool users = e.fault() == Fault::Value || e.fault() == Fault::Unsupported ||
                         e.fault() == Fault::Memory;
      ASSERT_TRUE(users) << round << ": " << e.what();
    } catch (const std::exception& e) {
      FAIL() << round << ": " << e.what();
    }
  }
  EXPECT_GT(refused, rounds / 20);
  EXPECT_LT(high_water_bytes() - before, std::int64_t{512} << 20);
}

INSTANTIATE_TEST_SUITE_P(All, DamagedFiles,
                         ::testing::Values("plain.npy", "columns.npy", "stored.npz", "packed.npz",
                                           "plain.idx", "packed.idx", "plain.csv", "plain.png",
                                           "palette.png", "plain.jpg", "scans.jpg",
                                           "plain.safetensors", "plain.checkpoint", "old.h5",
                                           "middle.h5", "new.h5", "many.h5"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace snug
