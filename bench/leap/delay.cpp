// A proxy that hands on each message a fixed time later, in both directions; one thread.
//
//   delay MICROSECONDS OUTSIDE:INSIDE...
//
// Listens at 127.0.0.1:OUTSIDE and connects to 127.0.0.1:INSIDE.  What is read at once is a
// message.
// It stands for a network with delay where the kernel has none to offer (netem).
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Message {
  Clock::time_point due;
  std::string bytes;  // none: the sender has closed
};

struct Direction {
  int from;
  int to;
  std::deque<Message> waiting = {};
  bool ended = false;  // nothing more is read
  bool closed = false;  // the receiver has been told so
};

struct Link {
  Direction directions[2];
};

struct Door {
  int socket;
  int inside;
};

void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in address(int port) {
  sockaddr_in result = {};
  result.sin_family = AF_INET;
  result.sin_port = htons(static_cast<uint16_t>(port));
  result.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return result;
}

int open_socket() {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  int on = 1;
  if (fd < 0) fail("socket");
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

Door listen_at(const char* pair) {
  int outside = 0;
  int inside = 0;
  if (std::sscanf(pair, "%d:%d", &outside, &inside) != 2) {
    std::fprintf(stderr, "delay: %s is no OUTSIDE:INSIDE\n", pair);
    std::exit(2);
  }
  Door door = {open_socket(), inside};
  sockaddr_in where = address(outside);
  if (bind(door.socket, reinterpret_cast<sockaddr*>(&where), sizeof(where)) < 0) fail("bind");
  if (listen(door.socket, 128) < 0) fail("listen");
  return door;
}

void set_nonblocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void accept_link(const Door& door, std::list<Link>& links) {
  int outside = accept(door.socket, nullptr, nullptr);
  if (outside < 0) return;
  int inside = open_socket();
  int on = 1;
  setsockopt(outside, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in where = address(door.inside);
  if (connect(inside, reinterpret_cast<sockaddr*>(&where), sizeof(where)) < 0) {
    close(inside);
    close(outside);
    return;
  }
  set_nonblocking(inside);
  set_nonblocking(outside);
  links.push_back({{{outside, inside}, {inside, outside}}});
}

void take(Direction& way, Clock::duration delay) {
  char buffer[65536];
  ssize_t n = recv(way.from, buffer, sizeof(buffer), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    way.ended = true;
    n = 0;
  }
  way.waiting.push_back({Clock::now() + delay, std::string(buffer, static_cast<size_t>(n))});
}

// Hands on what is due.
void give(Direction& way, Clock::time_point now) {
  while (!way.waiting.empty() && way.waiting.front().due <= now) {
    std::string& bytes = way.waiting.front().bytes;
    if (bytes.empty()) {
      shutdown(way.to, SHUT_WR);
      way.closed = true;
    } else {
      ssize_t n = send(way.to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EAGAIN) return;
      if (n >= 0 && static_cast<size_t>(n) < bytes.size()) {
        bytes.erase(0, static_cast<size_t>(n));
        return;
      }
    }
    way.waiting.pop_front();
  }
}

// The time until something is due, at most a second.
Clock::duration until_due(const std::list<Link>& links, Clock::time_point now) {
  Clock::duration least = std::chrono::seconds(1);
  for (const Link& link : links)
    for (const Direction& way : link.directions)
      if (!way.waiting.empty()) least = std::min(least, way.waiting.front().due - now);
  return std::max(least, Clock::duration(std::chrono::microseconds(20)));
}

void drop_closed(std::list<Link>& links) {
  for (auto link = links.begin(); link != links.end();) {
    if (link->directions[0].closed && link->directions[1].closed) {
      close(link->directions[0].from);
      close(link->directions[1].from);
      link = links.erase(link);
    } else {
      ++link;
    }
  }
}

void round(const std::vector<Door>& doors, std::list<Link>& links, Clock::duration delay) {
  std::vector<pollfd> fds;
  std::vector<Direction*> ways;
  for (const Door& door : doors) fds.push_back({door.socket, POLLIN, 0});
  for (Link& link : links)
    for (Direction& way : link.directions)
      if (!way.ended) {
        fds.push_back({way.from, POLLIN, 0});
        ways.push_back(&way);
      }
  auto wait = std::chrono::nanoseconds(until_due(links, Clock::now())).count();
  timespec timeout = {wait / 1000000000, wait % 1000000000};
  if (ppoll(fds.data(), fds.size(), &timeout, nullptr) < 0 && errno != EINTR) fail("ppoll");
  for (size_t i = 0; i < ways.size(); i++)
    if (fds[doors.size() + i].revents) take(*ways[i], delay);
  for (Link& link : links)
    for (Direction& way : link.directions) give(way, Clock::now());
  drop_closed(links);
  for (size_t i = 0; i < doors.size(); i++)
    if (fds[i].revents & POLLIN) accept_link(doors[i], links);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: delay MICROSECONDS OUTSIDE:INSIDE...\n");
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prctl(PR_SET_TIMERSLACK, 1000);  // a microsecond instead of fifty
  std::vector<Door> doors;
  std::list<Link> links;
  for (int i = 2; i < argc; i++) doors.push_back(listen_at(argv[i]));
  std::printf("ready\n");
  std::fflush(stdout);
  for (;;) round(doors, links, std::chrono::microseconds(std::atol(argv[1])));
}
