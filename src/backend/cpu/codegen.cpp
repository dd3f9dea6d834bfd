#include "backend/cpu/codegen.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <mutex>

#include "backend/cpu/emit.h"
#include "base/error.h"

namespace snug {

using namespace llvm;

struct Codegen::Impl {
  HostCpu host;
  std::unique_ptr<TargetMachine> machine;
  PassBuilder builder;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager graphs;
  ModuleAnalysisManager modules;
  FunctionPassManager passes;

  explicit Impl(const HostCpu& h) : host(h), machine(make_machine(h)), builder(machine.get()) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(graphs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, graphs, modules);
    // The emitted code is final but for this: accumulators become registers, equal subexpressions
    // merge, and what a loop does not change leaves it.
    passes.addPass(SROAPass(SROAOptions::ModifyCFG));
    passes.addPass(EarlyCSEPass());
    passes.addPass(SimplifyCFGPass());
    passes.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()), /*UseMemorySSA=*/true,
                                                   /*UseBlockFrequencyInfo=*/false));
  }

  static std::unique_ptr<TargetMachine> make_machine(const HostCpu& host) {
    static std::once_flag once;
    std::call_once(once, [] {
      InitializeNativeTarget();
      InitializeNativeTargetAsmPrinter();
    });
    std::string triple = sys::getProcessTriple(), error;
    const Target* target = TargetRegistry::lookupTarget(triple, error);
    SNUG_CHECK(target, "LLVM has no target {}: {}", triple, error);
    TargetOptions options;
    options.AllowFPOpFusion = FPOpFusion::Strict;
    return std::unique_ptr<TargetMachine>(
        target->createTargetMachine(triple, host.name, host.features, options, Reloc::PIC_,
                                    CodeModel::Small, CodeGenOptLevel::Default, /*JIT=*/true));
  }

  std::unique_ptr<Module> build(LLVMContext& context, const KernelSpec& spec,
                                const std::string& symbol) {
    auto module = std::make_unique<Module>(symbol, context);
    module->setTargetTriple(machine->getTargetTriple().str());
    module->setDataLayout(machine->createDataLayout());
    emit_kernel(spec, host, symbol, *module);
#ifndef NDEBUG
    std::string fault;
    raw_string_ostream out(fault);
    SNUG_CHECK(!verifyModule(*module, &out), "bad LLVM IR: {}\n{}", fault, print(spec));
#endif
    for (Function& f : *module)
      if (!f.isDeclaration()) passes.run(f, functions);
    // Nothing may be kept about functions of a module that is about to die.
    functions.clear();
    loops.clear();
    modules.clear();
    return module;
  }
};

Codegen::Codegen(const HostCpu& host) : impl_(std::make_unique<Impl>(host)) {}
Codegen::~Codegen() = default;

std::string Codegen::version() { return LLVM_VERSION_STRING; }

std::string Codegen::object_file(const KernelSpec& spec, const std::string& symbol) {
  LLVMContext context;
  std::unique_ptr<Module> module = impl_->build(context, spec, symbol);
  SmallVector<char, 0> bytes;
  raw_svector_ostream out(bytes);
  legacy::PassManager codegen;
  bool failed =
      impl_->machine->addPassesToEmitFile(codegen, out, nullptr, CodeGenFileType::ObjectFile);
  SNUG_CHECK(!failed, "LLVM cannot write object files for {}", impl_->host.name);
  codegen.run(*module);
  return std::string(bytes.data(), bytes.size());
}

std::string Codegen::listing(const KernelSpec& spec, const std::string& symbol) {
  LLVMContext context;
  std::unique_ptr<Module> module = impl_->build(context, spec, symbol);
  std::string text;
  raw_string_ostream out(text);
  module->print(out, nullptr);
  return text;
}

}  // namespace snug
