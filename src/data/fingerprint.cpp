#include "data/fingerprint.h"

#include <xxhash.h>

#include <algorithm>
#include <sstream>

namespace snug::data {
namespace {

constexpr std::int64_t kMostRows = 256;   // of a sample
constexpr std::int64_t kMostBlocks = 16;  // of a source that reads whole blocks

std::string digits(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

/// Rows that are looked at, in ascending order: all, or some from the first to the last.
std::vector<std::int64_t> sample_of(const Source& source) {
  std::int64_t row_bytes = 0;
  for (const Field& field : source.fields()) row_bytes += field.bytes();
  const std::int64_t rows = source.rows(),
                     within = kSampledBytes / std::max<std::int64_t>(1, row_bytes);
  std::int64_t count = rows;
  if (rows > within)
    count = std::clamp<std::int64_t>(within, 2, source.block() > 1 ? kMostBlocks : kMostRows);
  count = std::min(count, rows);
  std::vector<std::int64_t> sample;
  for (std::int64_t k = 0; k < count; ++k)
    sample.push_back(count < 2 ? 0
                               : static_cast<std::int64_t>(static_cast<double>(rows - 1) *
                                                           static_cast<double>(k) /
                                                           static_cast<double>(count - 1)));
  return sample;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace

Fingerprint fingerprint(const Source& source) {
  Fingerprint f;
  f.rows = source.rows();
  std::vector<std::uint64_t> hashes;
  for (const Field& field : source.fields()) {
    f.fields.push_back(describe(field));
    const std::string type =
        fmt::format("{} {}", name_of(field.dtype), describe_shape(field.shape));
    hashes.push_back(XXH3_64bits(type.data(), type.size()));
  }
  for (std::int64_t row : sample_of(source)) {
    const std::vector<Array> values = source.read(row, 1);
    for (std::size_t i = 0; i < values.size(); ++i)
      hashes[i] = XXH3_64bits_withSeed(values[i].data, static_cast<std::size_t>(values[i].bytes()),
                                       hashes[i]);
  }
  for (std::uint64_t hash : hashes) f.hashes.push_back(digits(hash));
  std::string classes;
  for (const std::string& name : source.classes()) classes += name + '/';
  f.classes = digits(XXH3_64bits(classes.data(), classes.size()));
  return f;
}

std::string Fingerprint::text() const {
  return fmt::format("{} {} {}", rows, classes, fmt::join(hashes, " "));
}

std::string difference(const std::string& then, const Fingerprint& now) {
  const std::vector<std::string> before = words_of(then), after = words_of(now.text());
  if (before.size() != after.size())
    return fmt::format("they have {} fields, not {}", now.hashes.size(),
                       static_cast<std::int64_t>(before.size()) - 2);
  if (before[0] != after[0]) return fmt::format("they have {} rows, not {}", after[0], before[0]);
  std::vector<std::string> other;
  for (std::size_t i = 2; i < after.size(); ++i)
    if (before[i] != after[i]) other.push_back(fmt::format("({})", now.fields[i - 2]));
  if (!other.empty())
    return fmt::format("other values in {} {}", other.size() > 1 ? "the fields" : "the field",
                       fmt::join(other, ", "));
  if (before[1] != after[1]) return "their classes have other names";
  return {};
}

}  // namespace snug::data
