package kafka

import "testing"

// FuzzCutBatch: no bytes make the reading of a batch go out of bounds.
func FuzzCutBatch(f *testing.F) {
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := &scan{}
		for b, rest, ok := cutBatch(in); ok; b, rest, ok = cutBatch(rest) {
			records := b.records
			for range min(b.count, 1000) {
				r, after, err := cutRecord(records)
				if err != nil {
					break
				}
				_, _ = s.cutHeaders(r.headers)
				records = after
			}
		}
		r, _, err := cutRecord(in)
		if err == nil {
			_, _ = s.cutHeaders(r.headers)
		}
	})
}
