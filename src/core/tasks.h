// Independent tasks on all threads, for work outside sessions whose tasks take different times,
// such as the evaluations of verify.
#pragma once
#include <cstdint>
#include <functional>

namespace vernier {

/// body(i) once for every i of [0, count), begun in order, each on the first thread that is free.
/// What a body does in parallel runs on its thread alone; where there are so few tasks that most
/// CPUs would be idle, tasks run one after another and keep all threads to themselves. If bodies
/// throw, no further ones begin, and the exception of one of them is rethrown when all have ended.
void for_each_task(int64_t count, const std::function<void(int64_t i)>& body);

/// How many tasks of for_each_task(count, …) may be under way at a time.
int64_t tasks_at_once(int64_t count);

}  // namespace vernier
