// Session::run after a shape was seen: no allocation of ours, no lock of ours, in any of a few
// models. This program's own operator new and pthread_mutex_lock count the calls that come from
// this program, which holds all of Vernier: directly, or through the C++ runtime. Those of oneDNN
// and OpenMP are counted apart, printed and bounded.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>

#include "runtime_only/shared_engine.h"

namespace {

struct Counts {
  std::atomic<int> ours{0}, libraries{0}, locks{0};
};
Counts counts;
std::atomic<bool> counting{false};
thread_local bool inside = false;  // backtrace() and dladdr() may allocate

bool is_library(std::string_view path, std::string_view name) {
  return path.find(name) != std::string_view::npos;
}

// The file that holds this address, or "".
std::string_view file_of(void* frame) {
  Dl_info info{};
  return dladdr(frame, &info) && info.dli_fname ? info.dli_fname : "";
}
// Is this a function of the C++ standard library? Its templates (std::string's growth) may be
// linked from this program into other libraries, so an allocation there counts for the caller.
bool is_standard(void* frame) {
  Dl_info info{};
  return dladdr(frame, &info) && info.dli_sname &&
         std::string_view(info.dli_sname).starts_with("_ZNSt");
}
bool is_runtime(std::string_view file) {
  return is_library(file, "libstdc++") || is_library(file, "libc.so") ||
         is_library(file, "libasan") || is_library(file, "libtsan");
}

// Is the caller, whose return address is given, this program? The C++ runtime passes the question
// on to its own caller; so does a function of this program that the runtime called.
bool called_by_us(void* caller) {
  constexpr int kMost = 16;
  void* frames[kMost];
  const int count = backtrace(frames, kMost);
  int i = 0;
  while (i < count && frames[i] != caller) ++i;
  for (; i < count; ++i) {
    const std::string_view file = file_of(frames[i]);
    if (file.empty() || is_runtime(file) || is_standard(frames[i])) continue;
    if (i + 1 < count && is_library(file_of(frames[i + 1]), "libstdc++")) continue;
    return !is_library(file, "libdnnl") && !is_library(file, "libgomp") &&
           !is_library(file, "libOpenCL");
  }
  return true;
}

void* allocate(size_t bytes, size_t alignment, void* caller) {
  if (counting && !inside) {
    inside = true;
    ++(called_by_us(caller) ? counts.ours : counts.libraries);
    inside = false;
  }
  void* data = nullptr;
  if (posix_memalign(&data, alignment, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
  return data;
}

constexpr size_t kDefault = alignof(std::max_align_t);

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes, kDefault, __builtin_return_address(0)); }
void* operator new[](size_t bytes) {
  return allocate(bytes, kDefault, __builtin_return_address(0));
}
void* operator new(size_t bytes, std::align_val_t at) {
  return allocate(bytes, static_cast<size_t>(at), __builtin_return_address(0));
}
void* operator new[](size_t bytes, std::align_val_t at) {
  return allocate(bytes, static_cast<size_t>(at), __builtin_return_address(0));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept try {
  return allocate(bytes, kDefault, __builtin_return_address(0));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept try {
  return allocate(bytes, kDefault, __builtin_return_address(0));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new(size_t bytes, std::align_val_t at, const std::nothrow_t&) noexcept try {
  return allocate(bytes, static_cast<size_t>(at), __builtin_return_address(0));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new[](size_t bytes, std::align_val_t at, const std::nothrow_t&) noexcept try {
  return allocate(bytes, static_cast<size_t>(at), __builtin_return_address(0));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t, std::align_val_t) noexcept { std::free(data); }

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto next = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counting && !inside) {
    inside = true;
    if (called_by_us(__builtin_return_address(0))) ++counts.locks;
    inside = false;
  }
  return next(mutex);
}

namespace vernier::test {
namespace {

struct Model {
  std::string name;
  int threads;
};

class Quiet : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    void* frame[1];
    backtrace(frame, 1);  // loads what it needs
    counts.ours = counts.libraries = counts.locks = 0;
    engine_ = engine_named(GetParam().name);
    session_.emplace(engine_, SessionOptions{.threads = GetParam().threads});
  }
  std::vector<InputArray> arrays(int64_t batch) const {
    return synthetic_inputs(*engine_, "batch=" + std::to_string(batch));
  }
  void expect_quiet() const {
    EXPECT_EQ(counts.ours, 0);
    EXPECT_EQ(counts.locks, 0);
    // oneDNN 2.6 makes 7 small allocations in each of its calls; a step is at most a few dozen
    // calls.
    EXPECT_LT(counts.libraries, 20000);
  }
  std::shared_ptr<const Engine> engine_;
  std::optional<Session> session_;
};

TEST_P(Quiet, RunsOfSeenShapesAllocateAndLockNothing) {
  const auto small = arrays(2), large = arrays(5);
  const std::vector<Input> small_refs = refs(small), large_refs = refs(large);
  session_->run(small_refs);
  session_->run(large_refs);
  constexpr int kRuns = 3;
  counting = true;
  for (int i = 0; i < kRuns; ++i) {
    session_->run(small_refs);
    session_->run(large_refs);
  }
  counting = false;
  expect_quiet();
  std::printf("%s, %d threads: %d allocations inside libraries in %d runs\n",
              GetParam().name.c_str(), GetParam().threads, counts.libraries.load(), 2 * kRuns);
}

TEST_P(Quiet, ARunOfAPreparedShapeDoesNeither) {
  const auto prepared = arrays(3);
  std::vector<InputShape> shapes;
  for (const InputArray& array : prepared) shapes.push_back({array.name, array.shape});
  session_->prepare(shapes);
  const std::vector<Input> inputs = refs(prepared);
  counting = true;
  session_->run(inputs);
  counting = false;
  expect_quiet();
}

TEST_P(Quiet, ACopyIntoTheCallersBufferDoesNeither) {
  const auto given = arrays(3);
  const std::vector<Input> inputs = refs(given);
  std::vector<std::byte> bytes(session_->run(inputs)[0].bytes);
  const OutputBuffer buffer[] = {{engine_->outputs()[0].name, bytes.data(), bytes.size()}};
  counting = true;
  session_->run(inputs, buffer);
  counting = false;
  expect_quiet();
}

INSTANTIATE_TEST_SUITE_P(Models, Quiet, ::testing::ValuesIn([] {
                           std::vector<Model> models;
                           for (const std::string& name : engine_names()) {
                             models.push_back({name, 1});
                             models.push_back({name, 2});
                           }
                           return models;
                         }()),
                         [](const auto& one) {
                           return one.param.name + "_" + std::to_string(one.param.threads);
                         });

// The counters do count: a shape never seen must allocate.
TEST(Counters, SeeTheWorkOfANewShape) {
  const auto engine = shared_engine();
  Session session(engine, {.threads = 1});
  const auto arrays = arrays_of(*engine, 4, 21, 1);
  const std::vector<Input> inputs = refs(arrays);
  counts.ours = 0;
  counting = true;
  session.run(inputs);
  counting = false;
  EXPECT_GT(counts.ours, 10);
}

TEST(Counters, SeeALock) {
  counts.locks = 0;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  counting = true;
  pthread_mutex_lock(&mutex);
  counting = false;
  pthread_mutex_unlock(&mutex);
  EXPECT_EQ(counts.locks, 1);
}

}  // namespace
}  // namespace vernier::test
