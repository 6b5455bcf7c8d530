//===- Worker.cpp - A thread for calls that may block ---------------------===//

#include "Worker.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace dtrt {

/// Shared with the thread, which may outlive the worker.
struct Worker::State {
  std::mutex mutex;
  std::condition_variable posted, done;
  std::deque<std::function<void()>> jobs;
  bool busy = false;
  bool ended = false;
};

Worker::Worker() : state(std::make_shared<State>()) {
  std::thread([state = state] { run(state); }).detach();
}

Worker::~Worker() {
  std::lock_guard<std::mutex> lock(state->mutex);
  state->ended = true;
  state->jobs.clear();
  state->posted.notify_all();
}

void Worker::run(std::shared_ptr<State> state) {
  std::unique_lock<std::mutex> lock(state->mutex);
  for (;;) {
    state->posted.wait(lock,
                       [&] { return state->ended || !state->jobs.empty(); });
    if (state->ended)
      return;
    std::function<void()> job = std::move(state->jobs.front());
    state->jobs.pop_front();
    state->busy = true;
    lock.unlock();
    job();
    job = nullptr; // what it holds goes before it counts as done
    lock.lock();
    state->busy = false;
    state->done.notify_all();
  }
}

void Worker::post(std::function<void()> job) {
  std::lock_guard<std::mutex> lock(state->mutex);
  state->jobs.push_back(std::move(job));
  state->posted.notify_all();
}

bool Worker::idleWithin(std::chrono::duration<double> limit) {
  std::unique_lock<std::mutex> lock(state->mutex);
  return state->done.wait_for(
      lock, limit, [&] { return state->jobs.empty() && !state->busy; });
}

} // namespace dtrt
