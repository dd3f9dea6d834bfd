#pragma once
#include "base/error.h"

namespace snug {

/// A file or folder that the system does not give us: missing, not permitted, of another kind. What
/// is wrong inside a file is a Value error.
class FileError : public ValueError {
 public:
  /// "PATH: WHAT: No such file or directory"; `code` is an errno.
  FileError(const std::string& path, std::string_view what, int code, std::string hint = {});
  const std::string& path() const { return path_; }
  int code() const { return code_; }
  [[noreturn]] void raise() const override { throw *this; }

 private:
  std::string path_;
  int code_;
};

}  // namespace snug
