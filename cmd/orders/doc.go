// Orders is the shop of the example of order processing: an HTTP front over an SQL database, and a relay that starts a task for
// each order. docs/orders.md explains it as a recipe for programs that have a database.
//
// One transaction writes an order and the submission of its task, which goes into a table, the outbox. So there is never one
// without the other. The relay submits what the outbox holds, under the order's ID, and removes it afterwards. If the process
// ends between these two steps, the next one submits it again, and the engine drops the duplicate. A third part reads what became
// of the tasks and updates the orders.
//
//	PUT /orders/{id} --> [ orders + outbox ] --> relay --> engine --> payment service
//	                          ^                              |
//	                          +--------- follower <----------+
//
// --die-at kills the process at a chosen step, so that everybody can see that nothing is lost and nothing happens twice.
//
// The front has no authentication, so it listens on loopback.
package main
