#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "base/fork.h"

namespace snug {

void warn(std::string_view text) {
  const NoFork whole;  // the logger has a lock
  // A logger of our own: the default one is the program's, and writes to stdout.
  static spdlog::logger& log = *[] {
    auto* made = new spdlog::logger("snug", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%n: %l: %v");
    return made;
  }();
  log.warn("{}", text);
}

}  // namespace snug
