// sm_90a building blocks: mbarriers, the bulk tensor copy engine, clusters, wgmma descriptors. Thin
// names for PTX instructions (PTX ISA 9.0, chapters 9.7.8, 9.7.9, 9.7.12, 9.7.15). C++17.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "backend/cuda/device/overlap.cuh"

namespace vernier::backend::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- barriers in shared memory -----------------------------------------------------------------
__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialized barriers visible to the copy engine and to the cluster.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// One arrival that also announces `bytes` of copies.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives at the same barrier of block `rank` of the cluster. Orders nothing but what the arriving
/// thread has waited for (reads of tensor cores): release at cluster scope would cost a fence of
/// the whole device per stage (measured: 1.5 times the time of a product).
__device__ __forceinline__ void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
/// Waits until the phase of parity `parity` has ended.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// ---- copies without the tensor engine ----------------------------------------------------------
/// `bytes` (a multiple of 16, both addresses too) into shared memory; they arrive at `barrier`.
__device__ __forceinline__ void copy_bytes(uint32_t dst, const void* src, uint32_t bytes,
                                           uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(dst),
      "l"(src), "r"(bytes), "r"(barrier)
      : "memory");
}

// ---- clusters ----------------------------------------------------------------------------------
__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

/// Where `address` of shared memory is in block `rank` of the cluster.
__device__ __forceinline__ uint32_t address_in(uint32_t address, uint32_t rank) {
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}
/// 8 or 16 bytes into the shared memory of a block of the cluster (both addresses of address_in());
/// they arrive at its barrier, and whoever waits for that sees them.
__device__ __forceinline__ void send(uint32_t dst, const float (&v)[2], uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
          dst),
      "f"(v[0]), "f"(v[1]), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void send(uint32_t dst, const float (&v)[4], uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(dst),
      "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
      : "memory");
}

// ---- the bulk tensor copy engine ---------------------------------------------------------------
__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// Box at (c0, c1) of a matrix into shared memory; its bytes arrive at `barrier`. Out of range: 0.
__device__ __forceinline__ void copy_box(uint32_t dst, const CUtensorMap* map, int c0, int c1,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(dst),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1)
      : "memory");
}
/// Box at (c0, c1, c2, c3) of an array with four axes.
__device__ __forceinline__ void copy_box(uint32_t dst, const CUtensorMap* map, int c0, int c1,
                                         int c2, int c3, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4, %5, %6}], [%2];" ::"r"(dst),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
/// The two-dimensional box into every block of the cluster named by a bit of `blocks`, at the same
/// address there.
__device__ __forceinline__ void copy_box_to(uint32_t dst, const CUtensorMap* map, int c0, int c1,
                                            uint32_t barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(dst),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "h"(blocks)
      : "memory");
}

/// Where the 16 bytes `chunk` of a row lie in a box of rows of 128 or 64 bytes with the swizzle of
/// as many.
template <int kRowBytes = 128>
__device__ __forceinline__ uint32_t box_place(uint32_t box, int row, int chunk) {
  static_assert(kRowBytes == 128 || kRowBytes == 64);
  const int turned = kRowBytes == 128 ? row % 8 : row / 2 % 4;
  return box + row * kRowBytes + ((chunk ^ turned) << 4);
}
/// Shared memory to the box at (c0, c1) of a matrix, by one thread; outside of it nothing is
/// written.
__device__ __forceinline__ void store_box(const CUtensorMap* map, uint32_t src, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];\n"
      "cp.async.bulk.commit_group;" ::"l"(map),
      "r"(src), "r"(c0), "r"(c1)
      : "memory");
}
/// The boxes that this thread has sent off have been read from shared memory. Whoever waits for the
/// kernel's end sees them arrived.
__device__ __forceinline__ void wait_for_reads_of_boxes() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/// Ordinary stores to shared memory become visible to the copy engine and the tensor cores.
__device__ __forceinline__ void fence_shared_to_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Nearest TF32, ties to even, as the copy engine rounds; NaN stays NaN.
__device__ __forceinline__ float tf32_rounded(float value) {
  uint32_t bits;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
}

// ---- shared memory by address ------------------------------------------------------------------
__device__ __forceinline__ void store_shared(uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
__device__ __forceinline__ void store_shared_32_bits(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void store_shared_16_bits(uint32_t address, uint16_t value) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(value) : "memory");
}
__device__ __forceinline__ void store_shared_8_bits(uint32_t address, uint8_t value) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(static_cast<uint32_t>(value))
               : "memory");
}
__device__ __forceinline__ void store_shared_four(uint32_t address, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x), "f"(v.y),
               "f"(v.z), "f"(v.w)
               : "memory");
}
__device__ __forceinline__ void store_shared_pair(uint32_t address, float2 pair) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(pair.x), "f"(pair.y)
               : "memory");
}
__device__ __forceinline__ float2 load_shared_pair(uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ void load_shared(uint32_t address, float (&v)[2]) {
  const float2 pair = load_shared_pair(address);
  v[0] = pair.x, v[1] = pair.y;
}
__device__ __forceinline__ void load_shared(uint32_t address, float (&v)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ uint4 load_shared_16_bytes(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
/// Four 8x8 matrices of 16-bit elements from registers to shared memory; lane l gives the address
/// of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(uint32_t address, uint32_t a, uint32_t b, uint32_t c,
                                               uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

/// `value` of lane 0, so that the compiler knows it to be the same in all lanes of the warp.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(~0u, value, 0); }

// ---- warpgroups --------------------------------------------------------------------------------
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
/// Barrier `id` (1…15) among the 128 threads of a warpgroup.
__device__ __forceinline__ void warpgroup_sync(int id) {
  asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory");
}
/// Barrier `id` of kThreads: those that wait return when the others have arrived.
template <int kThreads = 256>
__device__ __forceinline__ void turn_wait(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}
template <int kThreads = 256>
__device__ __forceinline__ void turn_give(int id) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

/// Descriptor of a K-major tile: rows of 128 bytes (64 elements of 16 bits), 128-byte swizzle,
/// groups of 8 rows 1024 bytes apart, 1024-byte aligned. Advancing K by 16 elements adds 2.
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t address) {
  constexpr uint64_t kGroupStride = uint64_t{1024 >> 4} << 32, kLeading = uint64_t{1} << 16,
                     kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | kGroupStride | kLeading | ((address & 0x3FFFF) >> 4);
}

}  // namespace vernier::backend::cuda
