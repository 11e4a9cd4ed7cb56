// Does an engine's certificate cover what is about to be done with it? Contract:
// docs/certificates.md "Certificate".
#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/engine_impl.h"
#include "vernier/certificate.h"

namespace vernier::runtime {

/// The program, the machine and the libraries that an engine's bits depend on here: "vernier",
/// "build", "target", and what the device adds.
std::vector<Certificate::Version> environment_of(const backend::Backend& backend);
/// The loaded plugins that steps of the engine come from, by name.
std::vector<Certificate::Plugin> certified_plugins(const plan::Plan& plan);

/// Throws Error(kCheckFailed), which says what is outside and what to do, unless the engine has a
/// certificate with the verdict "pass" of this program, machine and plugins, on terms that the
/// caller takes.
void require_certificate(const Engine::Impl& engine, const CertificateTerms& terms);
/// Throws Error(kCheckFailed) where the certificate, which must be there, covers no such sizes;
/// `symbols`: by symbol of the plan.
void require_certified_sizes(const Engine::Impl& engine, std::span<const int64_t> symbols);

/// "batch 1..8, seq 4..48": what a range covers; "fixed sizes" if it has none.
std::string range_text(const Certificate::Range& range);

}  // namespace vernier::runtime
