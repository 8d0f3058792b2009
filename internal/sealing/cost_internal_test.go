package sealing

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// The figures of docs/encryption.md: SAGALOG_TEST_COST=1 go test ./internal/sealing -run WhatASubjectCosts -v.
func TestWhatASubjectCosts(t *testing.T) {
	if os.Getenv("SAGALOG_TEST_COST") == "" {
		t.Skip("measures, and checks nothing: set SAGALOG_TEST_COST")
	}
	const n = 200_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	r, before := newRing("id"), heap()
	began := time.Now()
	for i := range n {
		value, err := events.Marshal(keyRecord{Namespace: "6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11", Subject: fmt.Sprintf("customer-%07d", i), Made: events.At(began), With: "0123abcd", Wrapped: make([]byte, 60)})
		require.NoError(t, err)
		require.NoError(t, r.apply(&events.Record{Key: fmt.Appendf(nil, "key/%016x", i), Value: value}))
	}
	took, live := time.Since(began), heap()
	t.Logf("%d bytes for each subject, %s for a million of them to be folded", (live-before)/n, took*(1_000_000/n))
	for i := range n {
		r.erase(fmt.Sprintf("%016x", i), erasedRecord{Subject: fmt.Sprintf("customer-%07d", i), Erased: 1})
		delete(r.left, fmt.Sprintf("%016x", i))
	}
	t.Logf("%d bytes for each erased one", (heap()-before)/n)
	runtime.KeepAlive(r)
}
