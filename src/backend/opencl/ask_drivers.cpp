#include "backend/opencl/ask_drivers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "backend/opencl/driver_files.h"
#include "backend/opencl/opencl_library.h"
#include "base/error.h"

namespace snug {
namespace {

using Json = nlohmann::json;

constexpr const char* kSearch = "looking for OpenCL devices";

// Of extensions that tell where a card is.
constexpr cl_device_info kPciBusInfo = 0x410F;                       // cl_khr_pci_bus_info
constexpr cl_device_info kUuid = 0x106A;                             // cl_khr_device_uuid
constexpr cl_device_info kNvidiaBus = 0x4008, kNvidiaSlot = 0x4009,  // cl_nv_device_attribute_query
    kNvidiaDomain = 0x400A;
constexpr cl_device_info kAmdTopology = 0x4037;  // cl_amd_device_attribute_query

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

std::string text_of(cl_platform_id platform, cl_platform_info what) {
  char text[1024] = "";
  opencl().clGetPlatformInfo(platform, what, sizeof text - 1, text, nullptr);
  return text;
}

template <class T>
T number_of(cl_device_id device, cl_device_info what) {
  T value{};
  check_opencl(opencl().clGetDeviceInfo(device, what, sizeof value, &value, nullptr), kSearch,
               "clGetDeviceInfo");
  return value;
}

/// What a driver may not know.
template <class T>
bool ask(cl_device_id device, cl_device_info what, T& value) {
  return opencl().clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS;
}

std::string pci_text(cl_uint domain, cl_uint bus, cl_uint slot, cl_uint function) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, slot, function);
}

/// Where a card is on the bus, if its driver says so; else empty.
std::string pci_of(cl_device_id device) {
  std::array<cl_uint, 4> place{};
  if (ask(device, kPciBusInfo, place)) return pci_text(place[0], place[1], place[2], place[3]);
  cl_uint bus = 0, slot = 0, domain = 0;
  if (ask(device, kNvidiaBus, bus) && ask(device, kNvidiaSlot, slot)) {
    ask(device, kNvidiaDomain, domain);
    return pci_text(domain, bus, slot >> 3, slot & 7);
  }
  std::array<unsigned char, 24> amd{};  // a type, bytes without meaning, bus, device, function
  cl_uint type = 0;
  if (!ask(device, kAmdTopology, amd)) return {};
  std::memcpy(&type, amd.data(), sizeof type);
  return type == 1 ? pci_text(0, amd[21], amd[22], amd[23]) : "";
}

std::string uuid_of(cl_device_id device) {
  std::array<unsigned char, 16> bytes{};
  std::string text;
  if (ask(device, kUuid, bytes))
    for (const unsigned char b : bytes) text += fmt::format("{:02x}", b);
  return text.find_first_not_of('0') == std::string::npos ? "" : text;
}

std::string why_unusable(cl_device_id device, const std::string& version) {
  int major = 0, minor = 0;
  std::sscanf(version.c_str(), "OpenCL %d.%d", &major, &minor);
  if (std::tuple(major, minor) < std::tuple(1, 2))
    return fmt::format("OpenCL 1.2 is needed, and its driver has {}.{}", major, minor);
  if (!number_of<cl_bool>(device, CL_DEVICE_AVAILABLE))
    return "its driver says it is not available";
  if (!number_of<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE))
    return "its driver has no compiler";
  return {};
}

Json described(cl_device_id device) {
  const std::string extensions = " " + text_of(device, CL_DEVICE_EXTENSIONS) + " ";
  const auto has = [&](const char* name) {
    return extensions.find(fmt::format(" {} ", name)) != std::string::npos;
  };
  const auto single = number_of<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG);
  const auto type = number_of<cl_device_type>(device, CL_DEVICE_TYPE);
  const std::string version = text_of(device, CL_DEVICE_VERSION);
  std::string pci = has("cl_khr_pci_bus_info") || has("cl_nv_device_attribute_query") ||
                            has("cl_amd_device_attribute_query")
                        ? pci_of(device)
                        : "";
  return {{"model", text_of(device, CL_DEVICE_NAME)},
          {"vendor", text_of(device, CL_DEVICE_VENDOR)},
          {"driver", text_of(device, CL_DRIVER_VERSION)},
          {"version", version},
          {"trouble", why_unusable(device, version)},
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
          {"arguments", number_of<std::size_t>(device, CL_DEVICE_MAX_PARAMETER_SIZE)},
          {"vendor_id", number_of<cl_uint>(device, CL_DEVICE_VENDOR_ID)},
          {"pci", std::move(pci)},
          {"uuid", has("cl_khr_device_uuid") ? uuid_of(device) : ""}};
}

void add_devices(Json& out, cl_platform_id platform, std::size_t number) {
  const std::string name = text_of(platform, CL_PLATFORM_NAME);
  cl_uint found = 0;
  const cl_int had = opencl().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &found);
  if (had == CL_DEVICE_NOT_FOUND || found == 0) return;
  std::vector<cl_device_id> devices(found);
  check_opencl(had, name, "clGetDeviceIDs");
  check_opencl(
      opencl().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, found, devices.data(), nullptr), name,
      "clGetDeviceIDs");
  for (std::size_t d = 0; d < devices.size(); ++d) {
    Json device = described(devices[d]);
    device["platform"] = name;
    device["platform_vendor"] = text_of(platform, CL_PLATFORM_VENDOR);
    device["platform_number"] = number;
    device["device_number"] = d;
    out["devices"].push_back(std::move(device));
  }
}

}  // namespace

std::string ask_drivers(const std::string& devices_folder) {
  Json out = {{"devices", Json::array()}};
  std::vector<std::string> troubles;
  const auto attempt = [&](auto&& some) {
    try {
      some();
    } catch (const Error& e) {
      troubles.push_back(e.message());
    }
  };
  attempt([&] {
    cl_uint count = 0;
    constexpr cl_int kNoPlatform = -1001;  // CL_PLATFORM_NOT_FOUND_KHR
    const cl_int code = opencl().clGetPlatformIDs(0, nullptr, &count);
    if (code == kNoPlatform || count == 0) return;
    check_opencl(code, kSearch, "clGetPlatformIDs");
    std::vector<cl_platform_id> platforms(count);
    check_opencl(opencl().clGetPlatformIDs(count, platforms.data(), nullptr), kSearch,
                 "clGetPlatformIDs");
    std::map<std::string, std::size_t> of_that_name;
    for (const cl_platform_id p : platforms)
      attempt([&] { add_devices(out, p, of_that_name[text_of(p, CL_PLATFORM_NAME)]++); });
  });
  const Json& devices = out["devices"];
  if (const DriverFiles files = driver_files(); devices.empty() || !files.files.empty())
    troubles.push_back(why_not_loaded(files));
  if (std::none_of(devices.begin(), devices.end(), [](const Json& d) { return d["gpu"] == true; }))
    troubles.push_back(why_not_opened(devices_folder));
  std::erase(troubles, "");
  if (devices.empty() && troubles.empty())
    troubles.emplace_back("the OpenCL drivers that are installed find no device");
  out["trouble"] = fmt::format("{}", fmt::join(troubles, "; "));
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace snug
