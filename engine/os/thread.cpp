// thread.cpp - start with all signals blocked, name, join.
#include "os/thread.hpp"

#include <signal.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "base/check.hpp"

namespace ls {

namespace {

struct Start {
  char name[16];
  std::function<void()> body;
};

void *thread_main(void *arg) {
  std::unique_ptr<Start> start(static_cast<Start *>(arg));
  pthread_setname_np(pthread_self(), start->name);
  start->body();
  return nullptr;
}

}  // namespace

Thread::~Thread() { join(); }

Status Thread::start(const char *name, std::function<void()> body) {
  LS_CHECK(!started_, "thread is running already");
  auto start = std::make_unique<Start>();
  std::snprintf(start->name, sizeof start->name, "%s", name);
  start->body = std::move(body);
  // The mask is inherited, so there is no instant at which the thread could take a signal.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread_, nullptr, thread_main, start.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return fail_errno(error, "", "could not start thread \"%s\"", name);
  (void)start.release();
  started_ = true;
  return kOk;
}

void Thread::join() {
  if (!started_) return;
  pthread_join(thread_, nullptr);
  started_ = false;
}

}  // namespace ls
