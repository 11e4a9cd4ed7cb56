// Loading plugins: the library, its version, its kernels, one list of them all. See
// include/vernier/plugins.h, and plugins.h for what an engine remembers of them.
#include "vernier/plugins.h"

#include <dlfcn.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "backend/cpu/cpu.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/names.h"
#include "runtime/plugin_kernel.h"
#include "runtime/plugins.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& message) {
  throw Error(ErrorCode::kInput, "plugin '" + path + "': " + message);
}

std::string known(const char* text) { return text ? text : ""; }

void check_name(const std::string& path, const std::string& what, const std::string& name) {
  const bool fits = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!fits) fail(path, "the name of " + what + " is '" + name + "', expected [a-z0-9_]+");
}

const vernier_plugin_info& open_library(const std::string& path) {
  if (!fs::is_regular_file(path)) fail(path, "there is no such file");
  void* library = dlopen(fs::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(path, std::string("cannot be loaded: ") + dlerror());
  const auto entry = reinterpret_cast<decltype(&vernier_plugin)>(dlsym(library, "vernier_plugin"));
  if (!entry) {
    fail(path,
         "has no function 'vernier_plugin'; define and export the one that "
         "vernier/custom_op.h declares");
  }
  const vernier_plugin_info* info = entry();
  if (!info) fail(path, "vernier_plugin() returned NULL");
  if (info->version != VERNIER_CUSTOM_OP_VERSION) {
    fail(path, "was built for version " + std::to_string(info->version) +
                   " of the interface, this Vernier has version " +
                   std::to_string(VERNIER_CUSTOM_OP_VERSION) +
                   "; build it again with this Vernier's vernier/custom_op.h");
  }
  return *info;
}

OpKind operator_of(const std::string& path, const std::string& kernel, const std::string& op) {
  if (const auto kind = parse_op_kind(op)) return *kind;
  std::vector<std::string> names;
  for (size_t i = 0; i < num_op_kinds(); ++i) names.emplace_back(name(static_cast<OpKind>(i)));
  fail(path, "kernel '" + kernel + "' is for the operator '" + op +
                 "', which Vernier does not have; version 0 of the interface replaces kernels and "
                 "adds no operators" +
                 nearest_names(op, names));
}

backend::KernelDef checked_row(const std::string& path, const vernier_plugin_info& info,
                               const vernier_kernel& kernel) {
  const std::string name = known(kernel.name);
  check_name(path, "a kernel", name);
  const OpKind op = operator_of(path, name, known(kernel.op));
  if (!kernel.supports || !kernel.numerics || !kernel.launch)
    fail(path, "kernel '" + name + "' lacks one of supports, numerics and launch");
  if (known(kernel.bit_class).empty()) {
    fail(path, "kernel '" + name +
                   "' states no bit class; \"row\" says that each row is computed "
                   "alone");
  }
  if (kernel.output_shapes || kernel.reference) {
    fail(path, "kernel '" + name + "' gives shapes or a reference for '" + known(kernel.op) +
                   "', which has its own; leave output_shapes and reference NULL");
  }
  return runtime::row_of(
      {.plugin = info.name,
       .row = "plugin." + std::string(info.name) + "." + snake_case(vernier::name(op)) + "." + name,
       .op = op,
       .functions = &kernel});
}

// Everything loaded so far. Libraries stay loaded, since engines hold their functions.
class Registry {
 public:
  const backend::Backend& backend_of(const std::vector<std::string>& paths) {
    const std::lock_guard lock(mutex_);
    std::vector<backend::KernelDef> all;
    for (const std::string& path : paths) {
      const std::vector<backend::KernelDef>& own = rows_of(path);
      all.insert(all.end(), own.begin(), own.end());
    }
    const backend::Backend& cpu = backend::cpu_backend();
    all.insert(all.end(), cpu.kernels.begin(), cpu.kernels.end());
    auto& [rows, backend] = made_.emplace_back(std::move(all), cpu);
    backend.kernels = rows;
    return backend;
  }
  std::optional<plan::Plugin> loaded(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto it = names_.find(name);
    if (it == names_.end()) return std::nullopt;
    return it->second.plugin;
  }

 private:
  struct Loaded {
    std::string path;
    plan::Plugin plugin;
  };
  const std::vector<backend::KernelDef>& rows_of(const std::string& path) {
    std::error_code none;
    const std::string key = fs::weakly_canonical(path, none).string();
    if (const auto it = libraries_.find(key); it != libraries_.end()) return it->second;
    const vernier_plugin_info& info = open_library(path);
    check_name(path, "the plugin", known(info.name));
    if (const auto other = names_.find(info.name); other != names_.end())
      fail(path, "has the name '" + other->first + "' of '" + other->second.path + "'");
    if (info.num_kernels < 1 || !info.kernels) fail(path, "has no kernels");
    std::vector<backend::KernelDef> rows;
    rows.reserve(info.num_kernels);
    for (int32_t i = 0; i < info.num_kernels; ++i)
      rows.push_back(checked_row(path, info, info.kernels[i]));
    names_[info.name] = {
        path, {info.name, fs::path(path).filename().string(), file_hash(fs::path(path))}};
    return libraries_.emplace(key, std::move(rows)).first->second;
  }

  std::mutex mutex_;
  std::map<std::string, std::vector<backend::KernelDef>> libraries_;  ///< by path
  std::map<std::string, Loaded> names_;                               ///< by the plugin's name
  std::deque<std::pair<std::vector<backend::KernelDef>, backend::Backend>> made_;
};

Registry& registry() {
  static Registry all;
  return all;
}

std::string text_of(const plan::Plugin& plugin) {
  return "'" + plugin.name + "' (" + plugin.file + ", XXH3-128 " + plugin.hash + ")";
}

}  // namespace

const KernelSet& load_plugins(const std::vector<std::string>& paths) {
  return registry().backend_of(paths);
}

namespace runtime {

std::string plugin_of(std::string_view kernel) {
  constexpr std::string_view kPrefix = "plugin.";
  if (!kernel.starts_with(kPrefix)) return {};
  kernel.remove_prefix(kPrefix.size());
  return std::string(kernel.substr(0, kernel.find('.')));
}

std::optional<plan::Plugin> loaded_plugin(const std::string& name) {
  return registry().loaded(name);
}

std::vector<plan::Plugin> plugins_of(const plan::Plan& plan) {
  std::set<std::string> names;
  for (const plan::Step& step : plan.steps) names.insert(plugin_of(step.kernel));
  std::vector<plan::Plugin> plugins;
  for (const std::string& name : names) {
    if (auto plugin = loaded_plugin(name)) plugins.push_back(std::move(*plugin));
  }
  return plugins;
}

std::string plugin_text(const plan::Plan& plan, const std::string& name) {
  const auto it = std::ranges::find(plan.build.plugins, name, &plan::Plugin::name);
  return it == plan.build.plugins.end() ? "'" + name + "'" : text_of(*it);
}

void warn_of_other_plugins(const plan::Plan& plan) {
  for (const plan::Plugin& built : plan.build.plugins) {
    const auto here = loaded_plugin(built.name);
    if (!here || here->hash == built.hash) continue;
    log::warn("the engine was built with plugin " + text_of(built) + " and runs with " +
              text_of(*here) + ": verify it again");
  }
}

}  // namespace runtime

}  // namespace vernier
