// Package node wires one process of the engine: it connects the pure owners of supervisor, the definitions of
// scheduler and the store of projector to a cluster, and gives the API what it asks for. It decides nothing.
//
// It is a package of its own, and not part of cmd/sagalog, so that tests run the same engine that the program runs.
package node
