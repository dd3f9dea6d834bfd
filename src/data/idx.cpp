// The format of MNIST: two zeros, a byte for the dtype, the number of dimensions, their sizes as
// big-endian 32-bit numbers, then the values, big-endian.
#include "data/inflate.h"
#include "data/raw_rows.h"

namespace snug::data {
namespace {

constexpr std::int64_t kLongestHeader = 4 + 8 * 4;

RawArray parse_header(const std::vector<std::byte>& head, const std::string& file) {
  auto byte = [&](std::size_t i) { return static_cast<std::int64_t>(head[i]); };
  if (head.size() < 4 || byte(0) != 0 || byte(1) != 0) bad_file(file, "is no IDX file");
  RawArray array;
  switch (byte(2)) {
    case 0x08: array.dtype = DType::U8; break;
    case 0x09: array.dtype = DType::I8; break;
    case 0x0B: array.dtype = DType::I16; break;
    case 0x0C: array.dtype = DType::I32; break;
    case 0x0D: array.dtype = DType::F32; break;
    case 0x0E: array.dtype = DType::F64; break;
    default: bad_file(file, fmt::format("is no IDX file: its dtype is {:#x}", byte(2)));
  }
  const std::int64_t ndim = byte(3);
  if (ndim < 1 || ndim > 8)
    bad_file(file, fmt::format("has {} dimensions; 1 to 8 are supported", ndim));
  array.offset = 4 + 4 * ndim;
  if (static_cast<std::int64_t>(head.size()) < array.offset)
    bad_file(file, "ends within its header");
  for (std::int64_t i = 4; i < array.offset; i += 4)
    array.shape.push_back(byte(i) << 24 | byte(i + 1) << 16 | byte(i + 2) << 8 | byte(i + 3));
  array.swapped = size_of(array.dtype) > 1;
  return array;
}

}  // namespace

SourcePtr idx(const std::string& path) {
  auto file = std::make_shared<File>(path);
  BytesPtr bytes = bytes_of(file, 0, file->size(), path);
  std::vector<std::byte> head(std::min(file->size(), kLongestHeader));
  bytes->read(0, static_cast<std::int64_t>(head.size()), head.data());
  const bool gzipped = head.size() > 2 && head[0] == std::byte{0x1f} && head[1] == std::byte{0x8b};
  if (gzipped) head = inflate_head(*bytes, Deflated::Gzip, kLongestHeader);
  RawArray array = parse_header(head, path);
  if (gzipped)
    bytes = inflated(bytes, Deflated::Gzip,
                     array.offset + checked_product(array.shape, size_of(array.dtype), path));
  array.bytes = bytes;
  return raw_rows(array, "data");
}

}  // namespace snug::data
