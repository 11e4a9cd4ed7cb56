// Certificates held against a machine and sizes: see certified.h.
#include "runtime/certified.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "runtime/plugins.h"
#include "runtime/shape_entry.h"
#include "vernier/version.h"

namespace vernier::runtime {
namespace {

[[noreturn]] void refuse(const Engine::Impl& engine, const std::string& what,
                         const std::string& remedy) {
  throw Error(ErrorCode::kCheckFailed, engine.file->name + " " + what + "; " + remedy);
}

const char* const kVerify = "'vernier verify ENGINE --model MODEL.onnx --stamp' makes one";
const char* const kVerifyHere =
    "verify it here again: 'vernier verify ENGINE --model MODEL.onnx --stamp'";

const Certificate& certificate_of(const Engine::Impl& engine) {
  if (engine.file->outdated_records) {
    refuse(engine,
           "has a certificate of another version, which does not record what it was verified with",
           kVerifyHere);
  }
  if (!engine.file->records.certificate) refuse(engine, "has no certificate", kVerify);
  return *engine.file->records.certificate;
}

std::string quoted(const std::string& text) { return "'" + text + "'"; }

const std::string* number_of(const std::vector<Certificate::Version>& versions,
                             const std::string& of) {
  const auto found = std::ranges::find(versions, of, &Certificate::Version::of);
  return found == versions.end() ? nullptr : &found->number;
}

void check_environment(const Engine::Impl& engine, const Certificate& certificate) {
  const std::vector<Certificate::Version> here = environment_of(*engine.backend);
  const auto differs = [&](const std::string& of, const std::string* then, const std::string* now) {
    if (then && now && *then == *now) return;
    refuse(engine,
           "was verified with " + of + " " + (then ? quoted(*then) : "none") + " and runs with " +
               (now ? quoted(*now) : "none"),
           kVerifyHere);
  };
  for (const Certificate::Version& version : here)
    differs(version.of, number_of(certificate.versions, version.of), &version.number);
  for (const Certificate::Version& version : certificate.versions)
    differs(version.of, &version.number, number_of(here, version.of));
}

std::string plugin_text(const Certificate::Plugin& plugin) {
  return quoted(plugin.name) + " (" + plugin.file + ", XXH3-128 " + plugin.hash + ")";
}

void check_plugins(const Engine::Impl& engine, const Certificate& certificate) {
  const std::vector<Certificate::Plugin> here = certified_plugins(engine.plan);
  const auto same = [](const Certificate::Plugin& plugin) {
    return [&plugin](const Certificate::Plugin& other) {
      return plugin.name == other.name && plugin.hash == other.hash;
    };
  };
  for (const Certificate::Plugin& plugin : here) {
    if (std::ranges::any_of(certificate.plugins, same(plugin))) continue;
    const auto then =
        std::ranges::find(certificate.plugins, plugin.name, &Certificate::Plugin::name);
    refuse(engine,
           "was verified with " +
               (then == certificate.plugins.end() ? "no plugin " + quoted(plugin.name)
                                                  : "plugin " + plugin_text(*then)) +
               " and runs with " + plugin_text(plugin),
           "verify it here again: 'vernier verify ENGINE --model MODEL.onnx --plugin " +
               plugin.file + " --stamp'");
  }
  for (const Certificate::Plugin& plugin : certificate.plugins) {
    if (std::ranges::any_of(here, same(plugin))) continue;
    refuse(engine, "was verified with plugin " + plugin_text(plugin) + " and runs without it",
           kVerifyHere);
  }
}

bool covers(const Certificate::Range& range, const plan::Plan& plan,
            std::span<const int64_t> symbols) {
  for (size_t s = 0; s < plan.symbols.size(); ++s) {
    const auto size = std::ranges::find(range, plan.symbols[s].name, &Certificate::Size::name);
    if (size == range.end() || symbols[s] < size->min() || symbols[s] > size->max()) return false;
  }
  return true;
}

}  // namespace

std::vector<Certificate::Version> environment_of(const backend::Backend& backend) {
  std::vector<Certificate::Version> versions{
      {"vernier", kVersion}, {"build", build_id()}, {"target", backend.target()}};
  if (!backend.environment) return versions;
  for (NamedVersion& version : backend.environment())
    versions.push_back({std::move(version.of), std::move(version.number)});
  return versions;
}

std::vector<Certificate::Plugin> certified_plugins(const plan::Plan& plan) {
  std::vector<Certificate::Plugin> plugins;
  for (const plan::Plugin& plugin : plugins_of(plan))
    plugins.push_back({plugin.name, plugin.file, plugin.hash});
  return plugins;
}

void require_certificate(const Engine::Impl& engine, const CertificateTerms& terms) {
  const Certificate& certificate = certificate_of(engine);
  if (!certificate.passed()) {
    refuse(engine, "has the verdict '" + certificate.verdict + "', not 'pass'",
           "see 'vernier verify', build it with what it advises, and verify it again");
  }
  if (certificate.own_tolerance && !terms.own_tolerance) {
    std::string limits;
    for (const Certificate::Limit& limit : certificate.tolerances) {
      std::array<char, 32> number{};
      std::snprintf(number.data(), number.size(), "%g", limit.value);
      limits += (limits.empty() ? "" : ",") + limit.name + "=" + number.data();
    }
    refuse(engine, "passed under limits of its user's own, --tolerance " + limits,
           "verify it without --tolerance, or accept them: --accept-own-tolerance");
  }
  if (certificate.accepted_declared && !terms.declared) {
    refuse(engine, "passed because errors that its kernels declare were accepted",
           "verify it without --accept-declared, or accept them here, too: --accept-declared");
  }
  check_environment(engine, certificate);
  check_plugins(engine, certificate);
}

void require_certified_sizes(const Engine::Impl& engine, std::span<const int64_t> symbols) {
  const Certificate& certificate = certificate_of(engine);
  const bool covered = std::ranges::any_of(
      certificate.ranges, [&](const auto& range) { return covers(range, engine.plan, symbols); });
  if (covered) return;
  std::string verified;
  for (const Certificate::Range& range : certificate.ranges)
    verified += (verified.empty() ? "" : "; ") + range_text(range);
  refuse(engine,
         "was verified with " + (verified.empty() ? "no sizes" : verified) +
             ", and these inputs have " +
             sizes_text(engine.plan, symbols.first(engine.plan.symbols.size())),
         "verify it over such sizes: 'vernier verify ENGINE --model MODEL.onnx --batches B,... "
         "--lengths S,... --stamp'");
}

std::string range_text(const Certificate::Range& range) {
  std::string text;
  for (const Certificate::Size& size : range) {
    text += (text.empty() ? "" : ", ") + size.name + " " + std::to_string(size.min());
    if (size.max() != size.min()) text += ".." + std::to_string(size.max());
  }
  return text.empty() ? "fixed sizes" : text;
}

}  // namespace vernier::runtime
