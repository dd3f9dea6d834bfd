#pragma once
#include <optional>
#include <string>

#include "target/disk_rates.h"

namespace snug {

/// How fast files in a directory are written and read, past the page cache; measured once per disk
/// in a moment and kept with the code cache. Errors are those of OffloadFile.
DiskRates measured_disk(const std::string& directory);

/// The rates of the disk with the code cache, for plans that name no directory; none if that is in
/// memory.
std::optional<DiskRates> some_disk_rates();

}  // namespace snug
