#include "base/file_error.h"

#include <system_error>

namespace snug {

FileError::FileError(const std::string& path, std::string_view what, int code, std::string hint)
    : ValueError(fmt::format("{}: {}: {}", path, what, std::generic_category().message(code)),
                 std::move(hint), current_origin()),
      path_(path),
      code_(code) {}

}  // namespace snug
