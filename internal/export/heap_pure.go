//go:build !cgo

package export

// outside is zero: a program without C has the caches and memtables of state stores in the heap of Go.
const outside = 0
