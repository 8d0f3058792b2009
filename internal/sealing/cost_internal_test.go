package sealing

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// BenchmarkWhatASubjectCosts measures the figures of docs/encryption.md: the memory that a process takes for each subject, and for each that was erased.
func BenchmarkWhatASubjectCosts(b *testing.B) {
	const n = 200_000
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		r, before := newRing(""), heap()
		for i := range n {
			value, err := events.Marshal(keyRecord{Namespace: "6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11", Subject: fmt.Sprintf("customer-%07d", i), Made: events.At(time.Now()), With: "0123abcd", Wrapped: make([]byte, 60)})
			require.NoError(b, err)
			require.NoError(b, r.apply(&events.Record{Key: fmt.Appendf(nil, "key/%016x", i), Value: value}))
		}
		b.ReportMetric((heap()-before)/n, "B/subject")
		for i := range n {
			r.erase(fmt.Sprintf("%016x", i), erasedRecord{Subject: fmt.Sprintf("customer-%07d", i), Erased: 1})
			delete(r.left, fmt.Sprintf("%016x", i))
		}
		b.ReportMetric((heap()-before)/n, "B/erased")
		runtime.KeepAlive(r)
	}
}
