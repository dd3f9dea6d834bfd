#include "backend/cpu/jit.h"

#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include "backend/cpu/codegen.h"
#include "backend/cpu/emit.h"
#include "backend/cpu/math_runtime.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/interrupt.h"
#include "base/pool.h"
#include "base/threads.h"
#include "target/free_memory.h"

namespace snug {

namespace orc = llvm::orc;

namespace {

template <class T>
T value_of(llvm::Expected<T> result, const char* what) {
  if (!result) internal_error(what, llvm::toString(result.takeError()));
  return std::move(*result);
}
void check(llvm::Error error, const char* what) {
  if (error) internal_error(what, llvm::toString(std::move(error)));
}

// What LLVM takes, as measured, and some more: it ends the process if it gets none.
constexpr std::uint64_t kMiB = 1 << 20;
constexpr Room kLinking{8 * kMiB, 4 * kMiB};  // finished code
/// Kernels on so many threads, each but the first with a stack and a heap.
constexpr Room compiling(std::size_t threads) {
  return {48 * kMiB + 88 * kMiB * (threads - 1), 32 * kMiB + 16 * kMiB * (threads - 1)};
}

/// Readable in a profile, and unlike any other.
std::string symbol_of(const KernelSpec& spec, const CacheKey& key) {
  std::string name = spec.name.empty() ? "kernel" : spec.name.substr(0, 80);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return "snug_" + name + "_" + hex(key);
}

}  // namespace

struct CpuJit::Impl {
  HostCpu host;
  std::string environment;  // the part of every key that is not the spec
  DiskCache cache;
  LongMutex mutex;
  std::unique_ptr<orc::LLJIT> jit;  // made when first needed
  std::map<CacheKey, KernelFn> known;
  std::atomic<std::uint64_t> compiled{0}, from_disk{0}, from_memory{0};

  Impl(HostCpu h, const std::filesystem::path& directory) : host(std::move(h)), cache(directory) {
    environment =
        fmt::format("emitter {}|llvm {}|{}", kEmitterVersion, Codegen::version(), host.key());
  }

  orc::LLJIT& linker() {
    if (jit) return *jit;
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    // Objects come finished, so the JIT needs no platform of its own: that would compile a module.
    jit = value_of(orc::LLJITBuilder().setPlatformSetUp(orc::setUpInactivePlatform).create(),
                   "CpuJit");
    orc::JITDylib& main = jit->getMainJITDylib();
    orc::SymbolMap symbols;
    for (const RuntimeSymbol& s : runtime_symbols())
      symbols[jit->mangleAndIntern(s.name)] = {orc::ExecutorAddr::fromPtr(s.address),
                                               llvm::JITSymbolFlags::Exported};
    check(main.define(orc::absoluteSymbols(std::move(symbols))), "CpuJit");
    char prefix = jit->getDataLayout().getGlobalPrefix();
    main.addGenerator(
        value_of(orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(prefix), "CpuJit"));
    if (host.libmvec)
      main.addGenerator(
          value_of(orc::DynamicLibrarySearchGenerator::Load("libmvec.so.1", prefix), "CpuJit"));
    return *jit;
  }

  KernelFn link(const DiskCache::Entry& code) {
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(code.object, code.symbol);
    orc::LLJIT& l = linker();
    check(l.addObjectFile(std::move(buffer)), "CpuJit");
    return value_of(l.lookup(code.symbol), "CpuJit").toPtr<KernelFn>();
  }
};

CpuJit::CpuJit(HostCpu host, const std::filesystem::path& cache_directory)
    : impl_(std::make_unique<Impl>(std::move(host), cache_directory)) {}
CpuJit::~CpuJit() = default;

CpuJit& CpuJit::instance() {
  static CpuJit* jit = new CpuJit();
  return *jit;
}

CacheKey CpuJit::key_of(const KernelSpec& spec) const {
  return hash_bytes(impl_->environment + '\n' + serialise(spec));
}

CpuJit::Counters CpuJit::counters() const {
  return {impl_->compiled, impl_->from_disk, impl_->from_memory};
}

std::string CpuJit::listing(const KernelSpec& spec) const {
  return Codegen(impl_->host).listing(spec, symbol_of(spec, key_of(spec)));
}
std::string CpuJit::object_file(const KernelSpec& spec) const {
  return Codegen(impl_->host).object_file(spec, symbol_of(spec, key_of(spec)));
}

KernelFn CpuJit::compile(const KernelSpec& spec) {
  const KernelSpec* one[] = {&spec};
  return compile(one)[0];
}

std::vector<KernelFn> CpuJit::compile(std::span<const KernelSpec* const> specs) {
  Impl& m = *impl_;
  std::vector<CacheKey> keys;
  for (const KernelSpec* spec : specs) keys.push_back(key_of(*spec));
  if (!specs.empty()) require_room(kLinking, "code of LLVM");

  std::lock_guard lock(m.mutex);
  struct Missing {
    CacheKey key;
    const KernelSpec* spec;
    DiskCache::Entry code;
  };
  std::vector<Missing> missing;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    check_interrupt();
    const NoFork whole;
    bool asked = std::any_of(missing.begin(), missing.end(),
                             [&](const Missing& x) { return x.key == keys[i]; });
    if (asked || m.known.count(keys[i])) {
      ++m.from_memory;
    } else if (auto code = m.cache.load(keys[i])) {
      m.known[keys[i]] = m.link(*code);
      ++m.from_disk;
    } else {
      missing.push_back({keys[i], specs[i], {}});
    }
  }

  if (!missing.empty()) require_room(compiling(1), "compiling with LLVM");
  // Kernels are independent: a few threads take the next one each, until one fails.
  std::size_t together =
      std::min({missing.size(), static_cast<std::size_t>(available_threads()), std::size_t{8}});
  while (together > 1 && !has_room(compiling(together))) --together;
  const bool may_stop = honours_interrupts();
  std::vector<std::unique_ptr<Codegen>> codegens(std::max<std::size_t>(together, 1));
  auto work = [&](int slot, std::int64_t begin, std::int64_t end) {
    std::unique_ptr<Codegen>& codegen = codegens[static_cast<std::size_t>(slot)];
    for (; begin < end; ++begin) {
      if (may_stop) check_interrupt();
      const NoFork whole;
      if (!codegen) codegen = std::make_unique<Codegen>(m.host);
      Missing& x = missing[static_cast<std::size_t>(begin)];
      verify(*x.spec);
      x.code.symbol = symbol_of(*x.spec, x.key);
      x.code.object = codegen->object_file(*x.spec, x.code.symbol);
      m.cache.store(x.key, x.code);
    }
  };
  if (together > 1) together = static_cast<std::size_t>(pool_threads(static_cast<int>(together)));
  const auto count = static_cast<std::int64_t>(missing.size());
  run_chunks(count, count * kParallelWork, static_cast<int>(together), work);

  for (const Missing& x : missing) {
    const NoFork whole;
    m.known[x.key] = m.link(x.code);
    ++m.compiled;
  }
  std::vector<KernelFn> functions;
  for (const CacheKey& key : keys) functions.push_back(m.known.at(key));
  return functions;
}

}  // namespace snug
