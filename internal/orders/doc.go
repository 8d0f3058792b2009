// Package orders has the files of the example of order processing: a workflow with one remote step, the payment, its agent, and
// its tests. `sagalog dev --demo orders` runs them, with a payment service (internal/dronedelivery) that can be broken.
//
// The shop, which keeps its orders in an SQL database, is the program cmd/orders. It is separate, because sagalog would otherwise
// contain a database of 8 MB; docs/orders.md describes both.
package orders
