// .npz: a ZIP archive with one .npy file per array. Stored members are read in place, deflated ones
// through zlib. The sums of both are checked when the file is opened.
#include <algorithm>
#include <array>
#include <set>

#include "base/utf8.h"
#include "data/inflate.h"
#include "data/npy_header.h"

namespace snug::data {
namespace {

struct Member {
  std::string name;
  int method = 0;
  std::uint32_t crc = 0;
  std::int64_t packed = 0, size = 0;   // bytes
  std::int64_t header = 0, begin = 0;  // places in the file, of its header and of its bytes
};

std::uint64_t little_endian(const unsigned char* p, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | p[i];
  return value;
}

std::uint32_t sum_of(const Bytes& bytes) {
  std::vector<std::byte> part(std::min<std::int64_t>(bytes.size(), 1 << 20));
  std::uint32_t sum = 0;
  for (std::int64_t at = 0; at < bytes.size();) {
    const std::int64_t count = std::min<std::int64_t>(bytes.size() - at, part.size());
    bytes.read(at, count, part.data());
    sum = crc32_of(std::span(part).first(count), sum);
    at += count;
  }
  return sum;
}

/// Bytes of the archive that are checked to be there.
class Archive {
 public:
  explicit Archive(const std::string& path) : file(std::make_shared<File>(path)) {}

  std::vector<unsigned char> read(std::int64_t offset, std::int64_t count, const char* what) const {
    if (offset < 0 || count < 0 || offset > file->size() - count)
      bad_file(
          file->path(),
          fmt::format("is no whole ZIP archive: its {} should be {} bytes at byte {}, the file "
                      "has {}",
                      what, count, offset, file->size()));
    std::vector<unsigned char> out(count);
    file->read(offset, count, out.data());
    return out;
  }

  /// What the directory lists. Sizes and places are checked: no byte of the file belongs to two
  /// members, so that a small file cannot unpack to a large one again and again.
  std::vector<Member> members() const {
    const auto [begin, size, count] = directory();
    const std::vector<unsigned char> bytes = read(begin, size, "directory");
    std::vector<Member> out;
    for (std::int64_t at = 0; at < size;) {
      constexpr std::int64_t kEntry = 46;
      if (at > size - kEntry || little_endian(&bytes[at], 4) != 0x02014b50) bad_directory();
      const unsigned char* p = &bytes[at];
      Member member;
      const bool encrypted = little_endian(p + 8, 2) & 1;
      member.method = static_cast<int>(little_endian(p + 10, 2));
      member.crc = static_cast<std::uint32_t>(little_endian(p + 16, 4));
      const auto name = static_cast<std::int64_t>(little_endian(p + 28, 2));
      const auto extra = static_cast<std::int64_t>(little_endian(p + 30, 2));
      const auto comment = static_cast<std::int64_t>(little_endian(p + 32, 2));
      if (at + kEntry + name + extra + comment > size) bad_directory();
      member.name.assign(reinterpret_cast<const char*>(p + kEntry), name);
      if (encrypted) bad_file(file->path(), fmt::format("'{}' is encrypted", member.name));
      std::array<std::uint64_t, 3> sizes{little_endian(p + 24, 4), little_endian(p + 20, 4),
                                         little_endian(p + 42, 4)};
      take_large_sizes(p + kEntry + name, extra, sizes);
      for (std::uint64_t value : sizes)
        if (value > (std::uint64_t{1} << 60)) bad_directory();
      member.size = static_cast<std::int64_t>(sizes[0]);
      member.packed = static_cast<std::int64_t>(sizes[1]);
      member.header = static_cast<std::int64_t>(sizes[2]);
      find_begin(member);
      out.push_back(std::move(member));
      at += kEntry + name + extra + comment;
    }
    if (static_cast<std::int64_t>(out.size()) != count)
      bad_file(file->path(), fmt::format("its directory has {} entries, but its end speaks of {}",
                                         out.size(), count));
    check_apart(out, begin);
    return out;
  }

  BytesPtr content(const Member& member) const {
    const std::string name = name_of_member(member);
    BytesPtr packed = bytes_of(file, member.begin, member.packed, name);
    if (member.method == 0) {
      if (member.size != member.packed) bad_file(name, "its two sizes differ");
      if (sum_of(*packed) != member.crc) bad_file(name, kWrongSum);
      return packed;
    }
    if (member.method != 8)
      bad_file(name, fmt::format("the method of compression {} is not supported", member.method));
    return inflated(packed, Deflated::Raw, member.size, member.crc);
  }

  std::shared_ptr<const File> file;

 private:
  std::string name_of_member(const Member& member) const {
    return fmt::format("{}: {}", file->path(), member.name);
  }

  /// Where the bytes of a member begin: behind its own header, which has its name, too.
  void find_begin(Member& member) const {
    const std::string name = name_of_member(member);
    const std::vector<unsigned char> local = read(member.header, 30, "header of a member");
    if (little_endian(local.data(), 4) != 0x04034b50)
      bad_file(name, fmt::format("there is no member at byte {}", member.header));
    const auto length = static_cast<std::int64_t>(little_endian(&local[26], 2));
    const auto extra = static_cast<std::int64_t>(little_endian(&local[28], 2));
    const std::vector<unsigned char> own = read(member.header + 30, length, "name of a member");
    if (!std::equal(own.begin(), own.end(), member.name.begin(), member.name.end(),
                    [](unsigned char a, char b) { return a == static_cast<unsigned char>(b); }))
      bad_file(name, "its header has another name than the directory", "the file is damaged");
    member.begin = member.header + 30 + length + extra;
    if (member.packed > file->size() - member.begin)
      bad_file(name,
               fmt::format("{} bytes are promised at byte {}, the file has {}", member.packed,
                           member.begin, file->size()),
               "the file is truncated");
  }

  void check_apart(const std::vector<Member>& members, std::int64_t end) const {
    std::vector<const Member*> sorted;
    for (const Member& member : members) sorted.push_back(&member);
    std::sort(sorted.begin(), sorted.end(),
              [](const Member* a, const Member* b) { return a->header < b->header; });
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const bool last = i + 1 == sorted.size();
      if (sorted[i]->begin + sorted[i]->packed > (last ? end : sorted[i + 1]->header))
        bad_file(file->path(),
                 fmt::format("its members '{}' and '{}' overlap", sorted[i]->name,
                             last ? "directory" : sorted[i + 1]->name),
                 "the file is damaged, or made to unpack to more than it holds");
    }
  }

  [[noreturn]] void bad_directory() const {
    bad_file(file->path(), "the directory of the ZIP archive is damaged");
  }

  struct Directory {
    std::int64_t begin, size, count;
  };
  /// From the record at the end of the file, and its larger form before it.
  Directory directory() const {
    constexpr std::int64_t kEnd = 22, kLongestComment = 65535;
    const std::int64_t length = std::min(file->size(), kEnd + kLongestComment);
    const std::int64_t start = file->size() - length;
    const std::vector<unsigned char> tail = read(start, length, "end");
    std::int64_t at = length - kEnd;
    while (at >= 0 && little_endian(&tail[at], 4) != 0x06054b50) --at;
    if (at < 0) bad_file(file->path(), "is no .npz file: it has no directory of a ZIP archive");
    const unsigned char* p = &tail[at];
    std::int64_t end = start + at;  // of the directory
    const std::uint64_t here = little_endian(p + 8, 2), all = little_endian(p + 10, 2);
    if (here != all)
      bad_file(
          file->path(),
          fmt::format("the end of the ZIP archive counts {} entries here, {} in all", here, all),
          "the file is damaged, or a part of an archive of several files");
    Directory found{static_cast<std::int64_t>(little_endian(p + 16, 4)),
                    static_cast<std::int64_t>(little_endian(p + 12, 4)),
                    static_cast<std::int64_t>(little_endian(p + 10, 2))};
    if (at >= 20 && little_endian(p - 20, 4) == 0x07064b50) {
      const auto place = little_endian(p - 12, 8);
      if (place > static_cast<std::uint64_t>(file->size())) bad_directory();
      const std::vector<unsigned char> large =
          read(static_cast<std::int64_t>(place), 56, "large directory");
      const std::uint64_t values[] = {little_endian(&large[48], 8), little_endian(&large[40], 8),
                                      little_endian(&large[32], 8)};
      for (std::uint64_t value : values)
        if (value > static_cast<std::uint64_t>(file->size())) bad_directory();
      found = {static_cast<std::int64_t>(values[0]), static_cast<std::int64_t>(values[1]),
               static_cast<std::int64_t>(values[2])};
      end = static_cast<std::int64_t>(place);
    }
    if (found.begin + found.size != end)
      bad_file(file->path(),
               fmt::format("its directory should end at byte {}, but its end is at byte {}",
                           found.begin + found.size, end),
               "the file is damaged");
    return found;
  }

  /// Sizes that do not fit in 32 bits stand in an extra field, in order.
  void take_large_sizes(const unsigned char* p, std::int64_t length,
                        std::array<std::uint64_t, 3>& sizes) const {
    while (length >= 4) {
      const auto id = little_endian(p, 2);
      const auto bytes = static_cast<std::int64_t>(little_endian(p + 2, 2));
      if (bytes > length - 4) bad_directory();
      if (id == 1) {
        std::int64_t at = 0;
        for (std::uint64_t& size : sizes) {
          if (size != 0xFFFFFFFF) continue;
          if (at > bytes - 8) bad_directory();
          size = little_endian(p + 4 + at, 8);
          at += 8;
        }
      }
      p += 4 + bytes;
      length -= 4 + bytes;
    }
  }
};

}  // namespace

std::vector<std::pair<std::string, RawArray>> npz_arrays(
    const std::string& path, const std::function<bool(const std::string& name)>& wanted) {
  const Archive archive(path);
  std::vector<std::pair<std::string, RawArray>> arrays;
  std::set<std::string> names;
  for (const Member& member : archive.members()) {
    if (!member.name.ends_with(".npy")) continue;
    std::string name = member.name.substr(0, member.name.size() - 4);
    if (!is_utf8(name)) bad_file(path, fmt::format("the name '{}' is not in UTF-8", name));
    if (!names.insert(name).second) bad_file(path, fmt::format("two arrays are named '{}'", name));
    RawArray array = wanted(name) ? read_npy_header(archive.content(member)) : RawArray();
    arrays.emplace_back(std::move(name), std::move(array));
  }
  return arrays;
}

SourcePtr npz(const std::string& path, const std::vector<std::string>& names) {
  const auto arrays = npz_arrays(path, [&](const std::string& name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  });
  std::vector<std::string> known;
  for (const auto& [name, array] : arrays) known.push_back(name);
  std::vector<SourcePtr> sources;
  for (const std::string& name : names.empty() ? known : names) {
    auto found = std::find_if(arrays.begin(), arrays.end(),
                              [&](const auto& entry) { return entry.first == name; });
    if (found == arrays.end())
      bad_file(path,
               fmt::format("there is no array '{}'; there are {}", name, fmt::join(known, ", ")));
    sources.push_back(raw_rows(found->second, name));
    if (sources.back()->rows() != sources[0]->rows())
      bad_file(path,
               fmt::format("the array '{}' has {} rows, '{}' has {}", name, sources.back()->rows(),
                           sources[0]->fields()[0].name, sources[0]->rows()),
               "give the names of arrays that have as many rows");
  }
  if (sources.empty()) bad_file(path, "holds no arrays");
  return zip(sources);
}

}  // namespace snug::data
