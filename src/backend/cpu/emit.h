#pragma once
#include <llvm/IR/Module.h>

#include <string>

#include "backend/cpu/host_cpu.h"
#include "kernel/kernel_spec.h"

namespace snug {

/// Changes whenever the same spec gives other code: part of the key of the code cache.
inline constexpr int kEmitterVersion = 23;

/// Adds the function of a kernel to a module, as finished vector code.
void emit_kernel(const KernelSpec& spec, const HostCpu& host, const std::string& symbol,
                 llvm::Module& module);

}  // namespace snug
