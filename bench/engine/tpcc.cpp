// tpcc.cpp - TPC-C's five transactions, as threads without think time play them.
//
// What a transaction is to do is drawn before it begins, so that it does the same when it is made
// again after a conflict.
#include <sched.h>

#include <algorithm>
#include <vector>

#include "tpcc_random.hpp"
#include "workload.hpp"

namespace ls::bench {

namespace tpcc {

namespace {

constexpr u32 kNoItem = kItems + 1;

std::atomic<u32> g_writers{0};   // of history; 0 has loaded

class Terminal {
 public:
  Terminal(Store &store, const Tpcc &tpcc, u32 thread, u32 threads)
      : tables_(store, thread),
        chance_(thread),
        tpcc_(tpcc),
        thread_(thread),
        threads_(threads),
        writer_(++g_writers) {}

  u64 retries() const { return retries_; }

  void play() {
    const Warehouse home = home_warehouse();
    const u32 choice = chance_.between(1, 100);
    if (choice <= 45) return new_order(home);
    if (choice <= 88) return payment(home);
    if (choice <= 92) return order_status(home);
    if (choice <= 96) return deliver(home);
    stock_level(home);
  }

 private:
  // body(): false: to be rolled back.
  template <typename Body>
  void transact(bool writes, const Body &body) {
    for (;; retries_++) {
      tables_.begin(writes);
      try {
        body() ? tables_.commit() : tables_.rollback();
        return;
      } catch (const Conflict &) {
        tables_.rollback();
        sched_yield();   // the other one may want this processor
      }
    }
  }

  Warehouse home_warehouse() {
    if (!tpcc_.affinity) return static_cast<Warehouse>(chance_.between(1, tpcc_.warehouses));
    // Its own are those that leave the same remainder; with more threads than warehouses some share
    // one.
    const u32 first = thread_ % tpcc_.warehouses,
              own = (tpcc_.warehouses - 1 - first) / threads_ + 1;
    return static_cast<Warehouse>(1 + first + chance_.between(0, own - 1) * threads_);
  }
  Warehouse other_warehouse(Warehouse home) {
    if (tpcc_.warehouses == 1) return home;
    const u32 w = chance_.between(1, tpcc_.warehouses - 1);
    return static_cast<Warehouse>(w < home ? w : w + 1);
  }
  District district() { return static_cast<District>(chance_.between(1, kDistricts)); }

  // Six in ten customers come with their last name alone.
  struct Who {
    Warehouse warehouse;
    District district;
    u32 number;   // 0: by name
    char last[16];
  };
  Who somebody(Warehouse w, District d) {
    Who who{w, d, 0, {}};
    if (chance_.percent(60))
      last_name(chance_.name(), who.last);
    else
      who.number = chance_.customer();
    return who;
  }
  // Of those with one name the middle one in the order of their first names.
  RowKey customer(const Who &who, u32 *number) {
    *number = who.number;
    if (who.number == 0) {
      std::vector<u32> namesakes;
      const RowKey name(Table::kCustomerByName, who.warehouse, who.district, who.last);
      tables_.scan_keys(name, name.end(), [&](Key key) {
        namesakes.push_back(last_column<u32>(key));
        return true;
      });
      if (namesakes.empty()) give_up("TPC-C", "nobody has a last name that is drawn");
      *number = namesakes[(namesakes.size() - 1) / 2];
    }
    return customer_key(who.warehouse, who.district, *number);
  }

  struct Line {
    u32 item;
    Warehouse supplier;
    u8 quantity;
  };

  void new_order(Warehouse w) {
    const District d = district();
    const u32 customer = chance_.customer();
    Line lines[kMaxLines];
    const u8 n = static_cast<u8>(chance_.between(5, kMaxLines));
    bool all_local = true;
    for (u8 i = 0; i < n; i++) {
      const bool remote = tpcc_.warehouses > 1 && chance_.percent(1);
      lines[i] = {chance_.item(), remote ? other_warehouse(w) : w,
                  static_cast<u8>(chance_.between(1, 10))};
      all_local = all_local && !remote;
    }
    if (chance_.percent(1)) lines[n - 1].item = kNoItem;   // the user has mistyped it
    transact(true, [&] {
      const u32 tax = tables_.get<WarehouseRow>(warehouse_key(w)).tax;
      const DistrictRow at = tables_.update<DistrictRow>(
          district_key(w, d), [](DistrictRow &row) { row.next_order++; });
      const u32 order = at.next_order - 1;
      const CustomerRow buyer = tables_.get<CustomerRow>(customer_key(w, d, customer));
      tables_.insert(order_key(w, d, order), OrderRow{customer, now(), 0, n, all_local});
      tables_.insert(order_by_customer_key(w, d, customer, order));
      tables_.insert(new_order_key(w, d, order));
      Money total = 0;
      for (u8 i = 0; i < n; i++) {
        ItemRow item;
        if (!tables_.find(item_key(lines[i].item), &item)) return false;
        const Money amount = Money{lines[i].quantity} * item.price;
        total += amount;
        order_line(w, d, order, static_cast<u8>(i + 1), lines[i], amount);
      }
      total_ = total * (10'000 - buyer.discount) / 10'000 * (10'000 + tax + at.tax) / 10'000;
      return true;
    });
  }
  void order_line(Warehouse w, District d, u32 order, u8 number, const Line &line, Money amount) {
    const StockRow stock =
        tables_.update<StockRow>(stock_key(line.supplier, line.item), [&](StockRow &row) {
          row.quantity -= line.quantity;
          if (row.quantity < 10) row.quantity += 91;
          row.ytd += line.quantity;
          row.orders++;
          if (line.supplier != w) row.remote_orders++;
        });
    OrderLineRow row{line.item, line.supplier, 0, line.quantity, amount, {}};
    std::memcpy(row.district_info, stock.district_info[d - 1], sizeof row.district_info);
    tables_.insert(order_line_key(w, d, order, number), row);
  }

  void payment(Warehouse w) {
    const District d = district();
    const bool remote = tpcc_.warehouses > 1 && chance_.percent(15);
    const Who who = somebody(remote ? other_warehouse(w) : w, remote ? district() : d);
    const Money amount = chance_.between(1'00, 5000'00);
    const u32 number = payments_++;
    transact(true, [&] {
      const WarehouseRow warehouse = tables_.update<WarehouseRow>(
          warehouse_key(w), [&](WarehouseRow &row) { row.ytd += amount; });
      const DistrictRow at = tables_.update<DistrictRow>(
          district_key(w, d), [&](DistrictRow &row) { row.ytd += amount; });
      u32 payer;
      const RowKey key = customer(who, &payer);
      tables_.update<CustomerRow>(key, [&](CustomerRow &row) {
        row.balance -= amount;
        row.ytd_payment += amount;
        row.payments++;
        if (std::memcmp(row.credit, "BC", 2) == 0) note_bad_credit(row, payer, who, w, d, amount);
      });
      HistoryRow history{who.warehouse, who.district, payer, w, d, now(), amount, {}};
      std::memcpy(history.data, warehouse.name, sizeof warehouse.name);
      std::memcpy(history.data + sizeof warehouse.name + 4, at.name, sizeof at.name);
      tables_.insert(history_key(w, writer_, number), history);
      return true;
    });
  }
  static void note_bad_credit(CustomerRow &row, u32 payer, const Who &who, Warehouse w, District d,
                              Money amount) {
    char note[80];
    const int length = std::snprintf(note, sizeof note, "%u %u %u %u %u %lld|", payer,
                                     unsigned{who.district}, unsigned{who.warehouse}, unsigned{d},
                                     unsigned{w}, static_cast<long long>(amount));
    std::memmove(row.data + length, row.data, sizeof row.data - static_cast<size_t>(length));
    std::memcpy(row.data, note, static_cast<size_t>(length));
  }

  void order_status(Warehouse w) {
    const Who who = somebody(w, district());
    transact(false, [&] {
      u32 number, order = 0;
      total_ += tables_.get<CustomerRow>(customer(who, &number)).balance;
      const RowKey orders(Table::kOrderByCustomer, w, who.district, number);
      tables_.scan_keys(orders, orders.end(), [&](Key key) {
        order = ~last_column<u32>(key);
        return false;
      });
      total_ += tables_.get<OrderRow>(order_key(w, who.district, order)).carrier;
      const RowKey lines(Table::kOrderLine, w, who.district, order);
      tables_.scan<OrderLineRow>(lines, lines.end(), [&](Key, const OrderLineRow &row) {
        total_ += row.amount;
        return true;
      });
      return true;
    });
  }

  void deliver(Warehouse w) {
    const u8 carrier = static_cast<u8>(chance_.between(1, 10));
    transact(true, [&] {
      for (District d = 1; d <= kDistricts; d++) {
        u32 order = 0;
        const RowKey waiting(Table::kNewOrder, w, d);
        tables_.scan_keys(waiting, waiting.end(), [&](Key key) {
          order = last_column<u32>(key);
          return false;
        });
        if (order != 0) deliver_one(w, d, order, carrier);
      }
      return true;
    });
  }
  void deliver_one(Warehouse w, District d, u32 order, u8 carrier) {
    tables_.remove(new_order_key(w, d, order));
    const OrderRow delivered = tables_.update<OrderRow>(
        order_key(w, d, order), [&](OrderRow &row) { row.carrier = carrier; });
    Money total = 0;
    for (u8 line = 1; line <= delivered.lines; line++)
      total += tables_
                   .update<OrderLineRow>(order_line_key(w, d, order, line),
                                         [](OrderLineRow &row) { row.delivery = now(); })
                   .amount;
    tables_.update<CustomerRow>(customer_key(w, d, delivered.customer), [&](CustomerRow &row) {
      row.balance += total;
      row.deliveries++;
    });
  }

  void stock_level(Warehouse w) {
    constexpr u32 kLastOrders = 20;
    const District d = district();
    const i32 threshold = static_cast<i32>(chance_.between(10, 20));
    transact(false, [&] {
      const u32 next = tables_.get<DistrictRow>(district_key(w, d)).next_order;
      std::vector<u32> items;
      tables_.scan<OrderLineRow>(RowKey(Table::kOrderLine, w, d, next - kLastOrders),
                                 RowKey(Table::kOrderLine, w, d, next),
                                 [&](Key, const OrderLineRow &row) {
                                   items.push_back(row.item);
                                   return true;
                                 });
      std::sort(items.begin(), items.end());
      items.erase(std::unique(items.begin(), items.end()), items.end());
      for (const u32 item : items)
        total_ += tables_.get<StockRow>(stock_key(w, item)).quantity < threshold;
      return true;
    });
  }

  Tables tables_;
  Chance chance_;
  const Tpcc &tpcc_;
  const u32 thread_, threads_, writer_;
  u32 payments_ = 0;
  u64 retries_ = 0;
  Money total_ = 0;   // what the user would be shown
};

}  // namespace
}  // namespace tpcc

TpccRate measure_tpcc(Store &store, const Tpcc &tpcc, u32 threads, u64 duration_us) {
  std::atomic<u64> done{0}, retries{0};
  const u64 us = run_crew(threads, duration_us,
                          [&](u32 thread, const std::atomic<bool> &stop, const auto &begin) {
                            tpcc::Terminal terminal(store, tpcc, thread, threads);
                            u64 mine = 0;
                            begin();
                            while (!stop.load(std::memory_order_relaxed)) {
                              terminal.play();
                              mine++;
                            }
                            done += mine;
                            retries += terminal.retries();
                          });
  const double transactions = static_cast<double>(done.load());
  return {1000 * transactions / static_cast<double>(us),
          static_cast<double>(retries.load()) / std::max(1.0, transactions)};
}

}  // namespace ls::bench
