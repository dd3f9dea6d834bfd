#include "backend/opencl/find_devices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <tuple>

#include "backend/opencl/opencl_library.h"
#include "base/error.h"

namespace snug {
namespace {

using Json = nlohmann::json;

constexpr const char* kSearch = "looking for OpenCL devices";

std::string text_of(cl_device_id device, cl_device_info what) {
  std::size_t bytes = 0;
  check_opencl(opencl().clGetDeviceInfo(device, what, 0, nullptr, &bytes), kSearch,
               "clGetDeviceInfo");
  std::string text(bytes, '\0');
  check_opencl(opencl().clGetDeviceInfo(device, what, bytes, text.data(), nullptr), kSearch,
               "clGetDeviceInfo");
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

template <class T>
T number_of(cl_device_id device, cl_device_info what) {
  T value{};
  check_opencl(opencl().clGetDeviceInfo(device, what, sizeof value, &value, nullptr), kSearch,
               "clGetDeviceInfo");
  return value;
}

Json described(cl_device_id device, const std::string& platform) {
  const std::string extensions = " " + text_of(device, CL_DEVICE_EXTENSIONS) + " ";
  const auto has = [&](const char* name) {
    return extensions.find(fmt::format(" {} ", name)) != std::string::npos;
  };
  const auto single = number_of<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG);
  const auto type = number_of<cl_device_type>(device, CL_DEVICE_TYPE);
  return {{"model", text_of(device, CL_DEVICE_NAME)},
          {"vendor", text_of(device, CL_DEVICE_VENDOR)},
          {"platform", platform},
          {"driver", text_of(device, CL_DRIVER_VERSION)},
          {"version", text_of(device, CL_DEVICE_VERSION)},
          {"gpu", (type & CL_DEVICE_TYPE_CPU) == 0},
          {"fp64", has("cl_khr_fp64")},
          {"fp16", has("cl_khr_fp16")},
          {"fma", (single & CL_FP_FMA) != 0},
          {"rounds", (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0},
          {"unified", number_of<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0},
          {"units", number_of<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS)},
          {"memory", number_of<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE)},
          {"largest", number_of<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE)},
          {"alignment", number_of<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8},  // of bits
          {"local", number_of<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE)},
          {"items", number_of<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE)},
          {"arguments", number_of<std::size_t>(device, CL_DEVICE_MAX_PARAMETER_SIZE)}};
}

/// One JSON text of all devices; what this process is asked is its last.
std::string list_devices() {
  Json out = {{"devices", Json::array()}, {"trouble", ""}};
  try {
    cl_uint count = 0;
    constexpr cl_int kNoPlatform = -1001;  // CL_PLATFORM_NOT_FOUND_KHR
    const cl_int code = opencl().clGetPlatformIDs(0, nullptr, &count);
    if (code == kNoPlatform || count == 0) {
      out["trouble"] =
          "the OpenCL library finds no driver: install that of the card; in a container the file "
          "in "
          "/etc/OpenCL/vendors may be missing";
      return out.dump();
    }
    check_opencl(code, kSearch, "clGetPlatformIDs");
    std::vector<cl_platform_id> platforms(count);
    check_opencl(opencl().clGetPlatformIDs(count, platforms.data(), nullptr), kSearch,
                 "clGetPlatformIDs");
    for (std::size_t p = 0; p < platforms.size(); ++p) {
      char name[256] = "";
      opencl().clGetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof name - 1, name, nullptr);
      cl_uint found = 0;
      const cl_int had =
          opencl().clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 0, nullptr, &found);
      if (had == CL_DEVICE_NOT_FOUND || found == 0) continue;
      std::vector<cl_device_id> devices(found);
      check_opencl(had, name, "clGetDeviceIDs");
      check_opencl(
          opencl().clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, found, devices.data(), nullptr),
          name, "clGetDeviceIDs");
      for (std::size_t d = 0; d < devices.size(); ++d) {
        Json device = described(devices[d], name);
        device["platform_number"] = p;
        device["device_number"] = d;
        out["devices"].push_back(std::move(device));
      }
    }
  } catch (const Error& e) {
    out["trouble"] = e.message();
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// What the child wrote, or nothing; `trouble` says how it ended.
std::string ask_child(std::chrono::milliseconds limit, std::string& trouble) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    trouble = "the system gives no pipe to a process that looks for OpenCL devices";
    return {};
  }
  const pid_t child = fork();
  if (child == 0) {
    // Drivers print what nobody asked for.
    const int nowhere = open("/dev/null", O_RDWR);
    for (const int stream : {0, 1, 2}) dup2(nowhere, stream);
    const std::string text = list_devices();
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t wrote = write(ends[1], text.data() + at, text.size() - at);
      if (wrote <= 0) break;
      at += static_cast<std::size_t>(wrote);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  if (child < 0) {
    trouble = "the system gives no process that looks for OpenCL devices";
    close(ends[0]);
    return {};
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  bool ended = false;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd wait{ends[0], POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&wait, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    char piece[4096];
    const ssize_t got = ready > 0 ? read(ends[0], piece, sizeof piece) : -1;
    ended = got == 0;
    if (got > 0) {
      text.append(piece, static_cast<std::size_t>(got));
      continue;
    }
    if (ready == 0)
      trouble = fmt::format("the OpenCL drivers did not answer within {} s",
                            std::chrono::duration<double>(limit).count());
    break;
  }
  close(ends[0]);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (trouble.empty() && WIFSIGNALED(status))
    trouble = fmt::format("an OpenCL driver crashed while it was asked for its devices ({})",
                          strsignal(WTERMSIG(status)));
  return text;
}

}  // namespace

OpenClSearch find_opencl_devices(std::chrono::milliseconds limit) {
  OpenClSearch out;
  if (!find_opencl_library(&out.trouble)) return out;
  const Json found = Json::parse(ask_child(limit, out.trouble), nullptr, false);
  if (!found.is_object()) {
    if (out.trouble.empty()) out.trouble = "the process that looks for OpenCL devices said nothing";
    return out;
  }
  if (out.trouble.empty()) out.trouble = found["trouble"];
  for (const Json& d : found["devices"]) {
    OpenClFound f;
    f.model = d["model"], f.vendor = d["vendor"], f.platform = d["platform"];
    f.driver = d["driver"], f.version = d["version"];
    f.gpu = d["gpu"], f.fp64 = d["fp64"], f.fp16 = d["fp16"], f.fma = d["fma"];
    f.rounds_division = d["rounds"], f.unified = d["unified"], f.units = d["units"];
    f.memory = d["memory"], f.largest_allocation = d["largest"];
    f.alignment = std::max(d["alignment"].get<std::uint64_t>(), std::uint64_t{64});
    f.local_memory = d["local"], f.most_items = d["items"], f.argument_bytes = d["arguments"];
    f.platform_number = d["platform_number"], f.device_number = d["device_number"];
    out.devices.push_back(std::move(f));
  }
  const auto order = [](const OpenClFound& f) {
    return std::tuple(!f.gpu, f.model, f.platform, f.device_number);
  };
  std::sort(out.devices.begin(), out.devices.end(),
            [&](const OpenClFound& a, const OpenClFound& b) { return order(a) < order(b); });
  for (std::size_t k = 0; k < out.devices.size(); ++k)
    out.devices[k].name = fmt::format("opencl:{}", k);
  return out;
}

}  // namespace snug
