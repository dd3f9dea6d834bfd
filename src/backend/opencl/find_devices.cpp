#include "backend/opencl/find_devices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>

#include "backend/opencl/ask_drivers.h"
#include "backend/opencl/driver_files.h"
#include "backend/opencl/opencl_library.h"

namespace snug {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

std::atomic<std::chrono::milliseconds> patience{std::chrono::seconds(20)};

/// A child of this process that asks the drivers of a folder, or all.
class Asking {
 public:
  Asking(const std::string& devices_folder, std::optional<DriverFolder> drivers)
      : drivers_(std::move(drivers)) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      // Drivers print what nobody asked for.
      const int nowhere = open("/dev/null", O_RDWR);
      for (const int stream : {0, 1, 2}) dup2(nowhere, stream);
      if (drivers_) drivers_->use();
      const std::string text = ask_drivers(devices_folder);
      for (std::size_t at = 0; at < text.size();) {
        const ssize_t wrote = write(ends[1], text.data() + at, text.size() - at);
        if (wrote <= 0) break;
        at += static_cast<std::size_t>(wrote);
      }
      _exit(0);
    }
    close(ends[1]);
    from_ = ends[0];
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking() {
    if (from_ >= 0) close(from_);
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    // What is stuck in the kernel ends when it can.
    for (int k = 0; k < 100 && waitpid(child_, nullptr, WNOHANG) == 0; ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  /// What it says until `end`; nothing if it fails, and how.
  Json answer(Clock::time_point end) {
    if (child_ < 0) failure_ = "the system gives no process that asks it";
    const std::string text = child_ < 0 ? "" : read_until(end);
    if (failure_.empty()) {
      const int status = reap();
      if (WIFSIGNALED(status))
        failure_ = fmt::format("crashed while it was asked for its devices ({})",
                               strsignal(WTERMSIG(status)));
    }
    Json said = Json::parse(text, nullptr, false);
    if (failure_.empty() && !said.is_object()) failure_ = "ended while it was asked";
    return failure_.empty() ? std::move(said) : Json();
  }
  const std::string& failure() const { return failure_; }

 private:
  std::string read_until(Clock::time_point end) {
    std::string text;
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
      pollfd wait{from_, POLLIN, 0};
      const int ready = left.count() > 0 ? poll(&wait, 1, static_cast<int>(left.count())) : 0;
      if (ready < 0 && errno == EINTR) continue;
      char piece[4096];
      const ssize_t got = ready > 0 ? read(from_, piece, sizeof piece) : -1;
      if (got > 0) {
        text.append(piece, static_cast<std::size_t>(got));
        continue;
      }
      if (got < 0)
        failure_ = fmt::format("did not answer within {} s",
                               std::chrono::duration<double>(patience.load()).count());
      return text;
    }
  }
  int reap() {
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = 0;
    return status;
  }

  std::optional<DriverFolder> drivers_;
  pid_t child_ = -1;
  int from_ = -1;
  std::string failure_;
};

OpenClFound read_device(const Json& d) {
  OpenClFound f;
  f.trouble = d["trouble"];
  f.model = d["model"], f.vendor = d["vendor"], f.platform = d["platform"];
  f.platform_vendor = d["platform_vendor"], f.driver = d["driver"], f.version = d["version"];
  f.gpu = d["gpu"], f.fp64 = d["fp64"], f.fp16 = d["fp16"], f.fma = d["fma"];
  f.rounds_division = d["rounds"], f.unified = d["unified"], f.units = d["units"];
  f.memory = d["memory"], f.largest_allocation = d["largest"];
  f.alignment = std::max(d["alignment"].get<std::uint64_t>(), std::uint64_t{64});
  f.local_memory = d["local"], f.most_items = d["items"], f.argument_bytes = d["arguments"];
  f.vendor_id = d["vendor_id"], f.pci = d["pci"], f.uuid = d["uuid"];
  f.platform_number = d["platform_number"], f.device_number = d["device_number"];
  return f;
}

/// What the drivers list, and what is to be said.
struct Answers {
  std::vector<OpenClFound> devices;
  std::vector<std::string> troubles;

  void add(const Json& said) {
    for (const Json& d : said["devices"]) devices.push_back(read_device(d));
    if (const std::string trouble = said["trouble"]; !trouble.empty()) add_trouble(trouble);
  }
  void add_trouble(const std::string& text) {
    if (std::find(troubles.begin(), troubles.end(), text) == troubles.end())
      troubles.push_back(text);
  }
};

/// Each driver counts its own platforms alone: numbers go on after those of drivers before it, with
/// which it is loaded. `platforms`: how many have a name so far.
void count_on(std::span<OpenClFound> devices, std::map<std::string, std::size_t>& platforms) {
  const std::map<std::string, std::size_t> before = platforms;
  for (OpenClFound& f : devices) {
    if (const auto there = before.find(f.platform); there != before.end())
      f.platform_number += there->second;
    platforms[f.platform] = std::max(platforms[f.platform], f.platform_number + 1);
  }
}

/// Each driver in a child of its own, all at the same time.
Answers ask_one_by_one(const std::vector<std::string>& files, const std::string& devices_folder) {
  Answers out;
  std::vector<std::unique_ptr<Asking>> children;
  const auto end = Clock::now() + patience.load();
  for (const std::string& file : files)
    children.push_back(std::make_unique<Asking>(devices_folder, DriverFolder({file})));
  std::vector<std::string> good;
  std::map<std::string, std::size_t> platforms;
  for (std::size_t k = 0; k < files.size(); ++k) {
    const Json said = children[k]->answer(end);
    const std::string name = std::filesystem::path(files[k]).filename();
    if (said.is_object()) {
      const std::size_t before = out.devices.size();
      out.add(said);
      count_on(std::span(out.devices).subspan(before), platforms);
      good.push_back(files[k]);
    } else {
      out.add_trouble(fmt::format("the OpenCL driver of {} {}", name, children[k]->failure()));
    }
  }
  load_only(std::move(good));
  return out;
}

}  // namespace

void set_opencl_patience(std::chrono::milliseconds given) { patience = given; }

OpenClSearch find_opencl_devices(const std::string& devices_folder) {
  OpenClSearch out;
  if (!find_opencl_library(&out.trouble)) return out;
  Answers answers;
  Asking all(devices_folder, std::nullopt);
  if (const Json said = all.answer(Clock::now() + patience.load()); said.is_object())
    answers.add(said);
  else if (const DriverFiles drivers = driver_files(); !drivers.files.empty())
    answers = ask_one_by_one(drivers.files, devices_folder);
  else
    answers.add_trouble("an OpenCL driver " + all.failure());
  out = name_devices(std::move(answers.devices));
  out.trouble = fmt::format("{}", fmt::join(answers.troubles, "; "));
  return out;
}

}  // namespace snug
