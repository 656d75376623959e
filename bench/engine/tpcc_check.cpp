// tpcc_check.cpp - TPC-C's consistency conditions 1 to 10 (clause 3.3.2), counted anew from all
// rows in one transaction.
#include <unordered_map>
#include <vector>

#include "tpcc_random.hpp"
#include "workload.hpp"

namespace ls::bench {

namespace tpcc {

namespace {

class Check {
 public:
  Check(Store &store, u32 warehouses, const char *name)
      : tables_(store, 0),
        warehouses_(warehouses),
        name_(name),
        customers_(warehouses * kDistricts * kCustomers) {}

  void run() {
    tables_.begin(false);
    std::vector<Money> paid(warehouses_ * kDistricts);
    tables_.scan<HistoryRow>(
        RowKey(Table::kHistory), RowKey(Table::kHistory).end(), [&](Key, const HistoryRow &row) {
          paid[district_index(row.warehouse, row.district)] += row.amount;
          customer(row.customer_warehouse, row.customer_district, row.customer).paid += row.amount;
          return true;
        });
    for (u32 i = 1; i <= warehouses_; i++) {
      const Warehouse w = static_cast<Warehouse>(i);
      Money ytd = 0, paid_here = 0;
      for (District d = 1; d <= kDistricts; d++) {
        const DistrictRow row = tables_.get<DistrictRow>(district_key(w, d));
        const Money district_paid = paid[district_index(w, d)];
        ytd += row.ytd;
        paid_here += district_paid;
        expect(row.ytd == district_paid, 9, "a district's D_YTD is the sum of its H_AMOUNT", w, d);
        orders(w, d, row.next_order);
        balances(w, d);
      }
      const Money all = tables_.get<WarehouseRow>(warehouse_key(w)).ytd;
      expect(all == ytd, 1, "W_YTD is the sum of D_YTD", w, 0);
      expect(all == paid_here, 8, "W_YTD is the sum of H_AMOUNT", w, 0);
    }
    tables_.commit();
    std::printf("%s: TPC-C's conditions 1 to 10 hold for %llu orders\n", name_,
                static_cast<unsigned long long>(orders_));
    std::fflush(stdout);
  }

 private:
  struct Account {
    Money paid = 0, bought = 0;   // of orders delivered
  };
  struct Order {
    OrderRow row;
    u32 lines = 0;
    bool is_new = false;
  };

  static u32 district_index(Warehouse w, District d) { return (w - 1u) * kDistricts + d - 1u; }
  Account &customer(Warehouse w, District d, u32 number) {
    return customers_[district_index(w, d) * kCustomers + number - 1];
  }

  void orders(Warehouse w, District d, u32 next) {
    std::unordered_map<u32, Order> orders;
    u32 highest = 0, lowest_new = 0, highest_new = 0, new_orders = 0;
    const RowKey all(Table::kOrder, w, d), waiting(Table::kNewOrder, w, d),
        lines(Table::kOrderLine, w, d);
    tables_.scan<OrderRow>(all, all.end(), [&](Key key, const OrderRow &row) {
      highest = last_column<u32>(key);
      orders[highest].row = row;
      return true;
    });
    tables_.scan_keys(waiting, waiting.end(), [&](Key key) {
      highest_new = last_column<u32>(key);
      if (new_orders++ == 0) lowest_new = highest_new;
      const auto order = orders.find(highest_new);
      expect(order != orders.end(), 5, "a new order is an order", w, d);
      order->second.is_new = true;
      return true;
    });
    u64 all_lines = 0, lines_expected = 0;
    tables_.scan<OrderLineRow>(lines, lines.end(), [&](Key key, const OrderLineRow &row) {
      const auto order = orders.find(last_column<u32>(key.first(key.size() - 1)));
      expect(order != orders.end(), 6, "a line belongs to an order", w, d);
      const bool delivered = order->second.row.carrier != 0;
      expect(delivered == (row.delivery != 0), 7, "OL_DELIVERY_D is set where O_CARRIER_ID is", w,
             d);
      if (delivered) customer(w, d, order->second.row.customer).bought += row.amount;
      order->second.lines++;
      all_lines++;
      return true;
    });
    expect(highest == next - 1, 2, "D_NEXT_O_ID - 1 is the highest O_ID", w, d);
    expect(new_orders == 0 || highest_new == highest, 2, "the highest O_ID is the highest NO_O_ID",
           w, d);
    expect(new_orders == 0 || highest_new - lowest_new + 1 == new_orders, 3, "NO_O_ID has no gaps",
           w, d);
    for (const auto &[number, order] : orders) {
      expect(order.is_new == (order.row.carrier == 0), 5,
             "a new order has no O_CARRIER_ID, and no other", w, d);
      expect(order.lines == order.row.lines, 6, "an order has O_OL_CNT lines", w, d);
      lines_expected += order.row.lines;
    }
    expect(all_lines == lines_expected, 4, "the sum of O_OL_CNT is the number of lines", w, d);
    orders_ += orders.size();
  }

  void balances(Warehouse w, District d) {
    u32 number = 0;
    const RowKey all(Table::kCustomer, w, d);
    tables_.scan<CustomerRow>(all, all.end(), [&](Key key, const CustomerRow &row) {
      const Account &account = customer(w, d, last_column<u32>(key));
      number++;
      expect(row.balance == account.bought - account.paid, 10,
             "C_BALANCE is what was delivered less what was paid", w, d);
      return true;
    });
    expect(number == kCustomers, 10, "all customers are there", w, d);
  }

  void expect(bool holds, u32 condition, const char *what, Warehouse w, District d) const {
    if (holds) return;
    give_up(name_, "TPC-C's condition " + std::to_string(condition) + " does not hold: " + what +
                       " (warehouse " + std::to_string(w) + ", district " + std::to_string(d) +
                       ")");
  }

  Tables tables_;
  const u32 warehouses_;
  const char *name_;
  std::vector<Account> customers_;
  u64 orders_ = 0;
};

}  // namespace
}  // namespace tpcc

void check_tpcc(Store &store, const Tpcc &tpcc, const char *name) {
  tpcc::Check(store, tpcc.warehouses, name).run();
}

}  // namespace ls::bench
