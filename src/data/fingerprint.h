#pragma once
#include <string>
#include <vector>

#include "data/source.h"

namespace snug::data {

/// Tells data apart wherever they are: equal for the same rows in another file, folder or array.
/// Of data above `kSampledBytes` rows spread over all of them are looked at, so that it costs the
/// same for data of any size; a change between those rows is not seen.
struct Fingerprint {
  std::int64_t rows = 0;
  std::vector<std::string> fields;  // "image: uint8 (3, 32, 32)"
  std::vector<std::string> hashes;  // of their rows
  std::string classes;              // a hash of their names

  std::string text() const;  // as a line that `difference` reads
};

inline constexpr std::int64_t kSampledBytes = std::int64_t{4} << 20;

Fingerprint fingerprint(const Source& source);

/// What sets `now` apart from the data whose text was kept, as a part of a sentence; empty:
/// nothing. Names of fields do not count.
std::string difference(const std::string& then, const Fingerprint& now);

}  // namespace snug::data
