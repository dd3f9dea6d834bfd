#include "backend/cpu/host_cpu.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

namespace snug {
namespace {

/// The text of oneDNN's limit in capitals, "" if there is none.
std::string isa_limit() {
  std::string limit;
  for (const char* name : {"DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"})
    if (const char* text = std::getenv(name); text && limit.empty()) limit = text;
  for (char& c : limit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return limit;
}

int vector_bits_of(const std::string& limit) {
  if (limit == "SSE41" || limit == "AVX") return 128;
  return limit.starts_with("AVX2") ? 256 : 512;
}

/// Of the CPU but not of those that the limit stands for.
bool is_beyond(llvm::StringRef feature, const std::string& limit) {
  if (vector_bits_of(limit) < 256 && (feature == "avx2" || feature == "fma")) return true;
  if (limit.starts_with("AVX512") && limit.find("BF16") == std::string::npos &&
      limit.find("AMX") == std::string::npos)
    return feature == "avx512bf16" || feature.starts_with("amx");
  return false;
}

}  // namespace

HostCpu HostCpu::detect(int max_vector_bits) {
  HostCpu host;
  host.name = llvm::sys::getHostCPUName().str();
  const std::string limit = isa_limit();
  max_vector_bits = std::min(max_vector_bits, vector_bits_of(limit));
  llvm::StringMap<bool> found = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> features;
  for (const auto& entry : found) {
    bool on = entry.second;
    llvm::StringRef feature = entry.first();
    if (max_vector_bits < 512 && (feature.starts_with("avx512") || feature.starts_with("avx10")))
      on = false;
    if (is_beyond(feature, limit)) on = false;
    features.push_back((on ? "+" : "-") + feature.str());
  }
  std::sort(features.begin(), features.end());
  for (const std::string& f : features) host.features += (host.features.empty() ? "" : ",") + f;
  auto has = [&](const char* feature) { return found.lookup(feature); };
  host.avx512 = max_vector_bits >= 512 && has("avx512f") && has("avx512vl") && has("avx512bw") &&
                has("avx512dq");
  bool avx2 = max_vector_bits >= 256 && has("avx2") && has("fma");
  host.vector_bits = host.avx512 ? 512 : avx2 ? 256 : 128;
  if (void* lib = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL)) {
    // The newest group of functions came together; one of them stands for all.
    if (dlsym(lib, "_ZGVeN16v_asinhf"))
      host.libmvec = host.avx512 ? 'e' : avx2 ? 'd' : has("sse4.1") ? 'b' : 0;
    dlclose(lib);
  }
  return host;
}

std::string HostCpu::key() const {
  return fmt::format("{}|{}|{}|{}|libc {}", name, features, vector_bits,
                     libmvec ? std::string(1, libmvec) : "-", gnu_get_libc_version());
}

}  // namespace snug
