//go:build cgo

package export

// outside is room for the caches and memtables of two state stores, which a program with C has outside the heap of Go.
const outside = 32 << 20
