// The plants of a GPU. Without CUDA there are none (no_cuda.cpp).
#pragma once
#include "plants/plants.h"

namespace vernier::test {

std::span<const Plant> cuda_plants();
/// on_host() for arrays in the memory of a GPU.
void copied_to_host(const backend::LaunchCall& call,
                    const std::function<void(const backend::LaunchCall&)>& body);

}  // namespace vernier::test
