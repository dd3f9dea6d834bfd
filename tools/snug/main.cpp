// The command line tool. Each command is one function; main() only wires them up.
#include <dlfcn.h>
#include <snug/snug.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "api/measure_device.h"
#include "api/op_info.h"
#include "backend/native/blas_buffers.h"
#include "base/disk_cache.h"
#include "base/spelling.h"
#include "commands.h"
#include "expr/op_def.h"
#include "options.h"
#include "target/device_info.h"

namespace {

using snug::OpDef;

struct Row {
  std::string_view name;
  std::string value;
};

void print_table(const std::vector<Row>& rows) {
  std::size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  for (const Row& row : rows) fmt::print("{:<{}}  {}\n", row.name, width, row.value);
}

template <class F>
F* loaded(const char* symbol) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, symbol));
}

/// The versions of the libraries that are loaded, asked from them by their C interfaces: their
/// headers are for the backends alone.
std::string libraries() {
  std::vector<std::string> found;
  if (auto* llvm = loaded<void(unsigned*, unsigned*, unsigned*)>("LLVMGetVersion")) {
    unsigned major = 0, minor = 0, patch = 0;
    llvm(&major, &minor, &patch);
    found.push_back(fmt::format("LLVM {}.{}.{}", major, minor, patch));
  }
  if (auto* dnnl = loaded<const int*()>("dnnl_version")) {
    const int* version = dnnl();  // begins with major, minor, patch
    found.push_back(fmt::format("oneDNN {}.{}.{}", version[0], version[1], version[2]));
  }
  if (std::string blas = snug::native::blas_version(); !blas.empty())
    found.push_back(std::move(blas));
  return fmt::format("{}", fmt::join(found, ", "));
}

struct CacheState {
  std::filesystem::path directory;  // empty: the cache is off
  std::vector<std::filesystem::path> entries;
  std::uintmax_t bytes = 0;
};

CacheState cache_state() {
  CacheState state{snug::DiskCache::default_directory(), {}, 0};
  std::error_code error;  // a directory that is not there has no entries
  for (const auto& entry : std::filesystem::directory_iterator(state.directory, error)) {
    if (entry.path().extension() != ".code" || !entry.is_regular_file(error)) continue;
    state.entries.push_back(entry.path());
    state.bytes += entry.file_size(error);
  }
  return state;
}

std::string describe(const CacheState& state) {
  if (state.directory.empty()) return "off";
  return fmt::format("{} ({} kernels, {:.1f} MiB)", state.directory.string(), state.entries.size(),
                     static_cast<double>(state.bytes) / (1 << 20));
}

int cache(bool clear) {
  CacheState state = cache_state();
  std::size_t removed = 0;
  std::error_code error;
  if (clear)
    for (const auto& path : state.entries) removed += std::filesystem::remove(path, error);
  fmt::print("{}\n", describe(clear ? cache_state() : state));
  if (clear) fmt::print("removed {} kernels\n", removed);
  return 0;
}

int info() {
  double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  print_table({
      {"snug", SNUG_VERSION},
      {"cpu", snug::host_device().model},
      {"device", describe(snug::measured_host())},
      {"free memory", fmt::format("{:.1f} GiB", page * sysconf(_SC_AVPHYS_PAGES) / (1 << 30))},
      {"libraries", libraries()},
      {"code cache", describe(cache_state())},
      {"ops", fmt::format("{}", snug::all_ops().size())},
  });
  return 0;
}

int list_ops() {
  std::vector<Row> rows;
  for (const OpDef* op : snug::all_ops()) rows.push_back({op->name, std::string(op->doc)});
  print_table(rows);
  std::vector<std::string_view> host;
  for (const OpDef* op : snug::all_ops())
    if (!snug::runs_on_devices(*op)) host.push_back(op->name);
  fmt::print("\nOn the host alone, also where a function has another device: {}\n",
             fmt::join(host, ", "));
  return 0;
}

int show_op(const std::string& name) {
  const OpDef& op = snug::find_op(name);
  std::vector<Row> rows = {
      {"op", std::string(op.name)},
      {"doc", std::string(op.doc)},
      {"inputs", op.arity < 0 ? "any number" : fmt::format("{}", op.arity)},
      {"outputs", fmt::format("{}", op.outputs)},
      {"traits", fmt::format("{}", fmt::join(trait_names(op), ", "))},
      {"runs as", fmt::format("{}", fmt::join(snug::ways_to_run(op), ", "))},
      {"devices", snug::runs_on_devices(op) ? "OpenCL" : "the host alone, with copies"},
      {"gradient", op.grad ? "yes" : fmt::format("none: {}", op.no_grad)},
  };
  if (op.samples.numpy) rows.push_back({"numpy", op.samples.numpy});
  print_table(rows);
  return 0;
}

/// Runs a program with the Python that this tool is installed with, which replaces this process.
int run_script(int argc, char** argv) {
  std::error_code error;
  std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* name : {"python3", "python"}) {
    std::string python = (own.parent_path() / name).string();
    if (access(python.c_str(), X_OK) != 0) continue;
    std::vector<char*> command = {python.data(), const_cast<char*>("-m"),
                                  const_cast<char*>("snug")};
    command.insert(command.end(), argv + 1, argv + argc);
    command.push_back(nullptr);
    execv(python.c_str(), command.data());
    fmt::print(stderr, "snug run: cannot start {}: {}\n", python, std::strerror(errno));
    return 1;
  }
  fmt::print(stderr,
             "snug run: there is no Python beside {}\n"
             "  hint  install the Python package with pip, or run: python3 -m snug run ...\n",
             own.string());
  return 1;
}

std::vector<std::string> commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

/// A word that is no command: names the nearest one.
int unknown_command(const std::string& word, const std::vector<std::string>& known) {
  fmt::print(stderr, "snug: unknown command \"{}\"\n", word);
  std::string near = snug::nearest(word, known);
  if (near.empty())
    fmt::print(stderr, "  hint  the commands are: {}\n", fmt::join(known, ", "));
  else
    fmt::print(stderr, "  hint  did you mean: snug {}\n", near);
  return 2;
}

/// A word that is no option of its command: names the nearest one. 0: there is none such.
int unknown_option(const CLI::App& app, int argc, char** argv) {
  for (const CLI::App* command : app.get_subcommands())
    for (int i = 2; i < argc; ++i) {
      const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
      if (word.size() < 3 || !word.starts_with("--") || command->get_option_no_throw(word))
        continue;
      std::vector<std::string> known;
      for (const CLI::Option* option : command->get_options())
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      std::string near = snug::nearest(word, known);
      // What other tools and older versions call them.
      constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
          {"--lr", "--rate"},           {"--learning-rate", "--rate"},
          {"--train", "--optimizer"},   {"--batch-size", "--batch"},
          {"--output", "--out"},        {"--budget", "--memory"},
          {"--epoch", "--epochs"},      {"--checkpoint", "--recompute"},
          {"--slices", "--micro-batch"}};
      for (const auto& [other, own] : kOthers)
        if (word == other && command->get_option_no_throw(std::string(own))) near = own;
      fmt::print(stderr, "snug {}: unknown option {}\n  hint  {}\n", command->get_name(), word,
                 near.empty() ? fmt::format("snug {} --help lists them", command->get_name())
                              : fmt::format("did you mean {}?", near));
      return 2;
    }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  snug::set_language(snug::Language::Tool);
  CLI::App app("Snug: a symbolic tensor compiler that fits your model into the memory you have.",
               "snug");
  app.set_version_flag("--version", "snug " SNUG_VERSION);
  use_plain_help(app);
  app.require_subcommand(1);

  int status = 0;
  app.add_subcommand("info", "This machine and the libraries in use.")->callback([&] {
    status = info();
  });

  std::string op_name;
  app.add_subcommand("devices", "The devices that functions can run on.")->callback([&] {
    fmt::print("{}", snug::devices().describe());
  });
  CLI::App* ops = app.add_subcommand("ops", "The table of ops, or all about one of them.");
  ops->add_option("name", op_name, "An op, e.g. log1p");
  ops->callback([&] { status = op_name.empty() ? list_ops() : show_op(op_name); });

  bool clear = false;
  CLI::App* cached = app.add_subcommand("cache", "The compiled kernels kept on disk.");
  cached->add_flag("--clear", clear, "Remove them.");
  cached->callback([&] { status = cache(clear); });

  add_plan(app, status);
  add_fit(app, status);
  add_train(app, status);
  add_predict(app, status);
  add_pack(app, status);

  app.add_subcommand("run", "Runs a Python program written for Theano: run SCRIPT [ARGUMENT...]");

  if (argc == 1) {
    fmt::print("{}", app.help());
    return 0;
  }
  std::vector<std::string> known = commands(app);
  if (argv[1][0] != '-' && std::find(known.begin(), known.end(), argv[1]) == known.end())
    return unknown_command(argv[1], known);
  if (std::string_view(argv[1]) == "run") return run_script(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    if (const int unknown = unknown_option(app, argc, argv)) return unknown;
    const auto named = app.get_subcommands();
    const std::string command =
        named.empty() ? "snug" : fmt::format("snug {}", named[0]->get_name());
    const std::string text = error.what();
    fmt::print(stderr, "{}: {}\n{}", command, text,
               text.find("\n  hint") == text.npos
                   ? fmt::format("  hint  {} --help says what it takes\n", command)
                   : "");
    return 2;
  }
  return status;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
