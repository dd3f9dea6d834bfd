// snug pack FILE.csv: offsets for buffers whose lifetimes and sizes are known.
#include <snug/snug.h>

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "commands.h"
#include "options.h"
#include "pack_file.h"

namespace {

using snug::Fault;

struct PackOptions {
  std::string file, output, capacity;
  std::uint64_t work = snug::PackLimits{}.work;
  bool json = false, check = false;
};

std::uint64_t capacity_of(const PackOptions& o, std::uint64_t otherwise) {
  return o.capacity.empty() ? otherwise : snug::parse_bytes(o.capacity, "--capacity");
}

std::string verdict(const snug::Packing& p, std::uint64_t capacity) {
  if (p.height <= capacity) return "fits";
  const char* why = p.bound > capacity ? "proved" : "none was found, not proved";
  return fmt::format("does not fit: {}", why);
}

void print(const PackOptions& o, const PackFile& file, const snug::Packing& p,
           std::uint64_t capacity, double seconds) {
  if (o.json) {
    nlohmann::ordered_json j{{"file", o.file},           {"buffers", file.items.size()},
                             {"load", p.load},           {"height", p.height},
                             {"gap", p.height - p.load}, {"bound", p.bound},
                             {"proved", p.proved()},     {"nodes", p.nodes},
                             {"cpu_seconds", seconds}};
    if (!o.capacity.empty()) {
      j["capacity"] = capacity;
      j["fits"] = p.height <= capacity;
    }
    fmt::print("{}\n", j.dump(2));
    return;
  }
  const double gap =
      p.load ? 100.0 * static_cast<double>(p.height - p.load) / static_cast<double>(p.load) : 0;
  fmt::print("buffers   {}\n", file.items.size());
  fmt::print("load      {}  most bytes alive at once, at {}\n", p.load, p.load_at);
  fmt::print("height    {}\n", p.height);
  fmt::print("gap       {}  ({:.2f} %)\n", p.height - p.load, gap);
  fmt::print("bound     {}  {}\n", p.bound,
             p.proved() ? "the height is proved to be the lowest" : "no packing is lower");
  fmt::print("searched  {} nodes, {:.3f} s of CPU time\n", p.nodes, seconds);
  if (!o.capacity.empty()) fmt::print("capacity  {}  {}\n", capacity, verdict(p, capacity));
}

snug::Packing solve(const PackOptions& o, const PackFile& file, std::uint64_t capacity) {
  snug::Packing p = snug::pack_thoroughly(file.items, {.capacity = capacity, .work = o.work});
  const std::string fault = snug::find_fault(file.items, p.offsets, p.height, file.names);
  if (!fault.empty()) snug::internal_error("pack", fault);
  return p;
}

int check(const PackFile& file, const PackOptions& o) {
  if (file.offsets.size() != file.items.size() || file.items.empty())
    snug::fail(Fault::Value, fmt::format("pack: {} has no column \"offset\" to check", o.file));
  const std::string fault =
      snug::find_fault(file.items, file.offsets, capacity_of(o, UINT64_MAX), file.names);
  if (o.json) {
    nlohmann::ordered_json j{
        {"file", o.file}, {"buffers", file.items.size()}, {"valid", fault.empty()}};
    if (!fault.empty()) j["fault"] = fault;
    fmt::print("{}\n", j.dump(2));
  } else {
    fmt::print("{}\n", fault.empty() ? "no two buffers overlap" : fault);
  }
  return fault.empty() ? 0 : 1;
}

int pack(const PackOptions& o) {
  const PackFile file = read_pack_file(o.file);
  if (o.check) return check(file, o);
  if (!file.offsets.empty())
    snug::fail(Fault::Unsupported,
               fmt::format("pack: {}: column \"offset\": fixed offsets are not supported", o.file),
               "remove the column, or check it: snug pack FILE --check");
  const std::uint64_t capacity = capacity_of(o, 0);
  const std::clock_t start = std::clock();
  const snug::Packing p = solve(o, file, capacity);
  print(o, file, p, capacity, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  if (!o.output.empty()) write_pack_file(o.output, file, p.offsets);
  return o.capacity.empty() || p.height <= capacity ? 0 : 1;
}

}  // namespace

void add_pack(CLI::App& app, int& status) {
  auto o = std::make_shared<PackOptions>();
  CLI::App* command = app.add_subcommand(
      "pack", "Offsets for the buffers of a CSV file: no two alive at the same time overlap.");
  command->add_option("file", o->file, "Columns id,lower,upper,size in any order")->required();
  command
      ->add_option("--capacity", o->capacity,
                   "Stop at the first packing of so many bytes; status 1 if there is none")
      ->type_name("AMOUNT");
  command->add_option("--output", o->output, "Write the file with a column \"offset\"")
      ->type_name("FILE");
  command->add_option("--work", o->work, "Limit of the search, about 4 ns each")
      ->type_name("N")
      ->check(whole_number(0, std::int64_t{1} << 62))
      ->capture_default_str();
  command->add_flag("--check", o->check, "Only check the column \"offset\" of the file");
  command->add_flag("--json", o->json, "The same as JSON");
  command->callback([o, &status] { status = pack(*o); });
}
