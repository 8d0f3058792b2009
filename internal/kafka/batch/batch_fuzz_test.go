package batch

import "testing"

// FuzzCut checks that reading a batch never goes out of bounds, whatever its bytes.
func FuzzCut(f *testing.F) {
	f.Add(make([]byte, 100))
	f.Fuzz(func(_ *testing.T, in []byte) {
		d := &Decoder{}
		for b, rest, ok := cut(in); ok; b, rest, ok = cut(rest) {
			records := b.records()
			for range min(b.Count(), 1000) {
				r, after, ok := cutRecord(records)
				if !ok {
					break
				}
				_, _ = d.cutHeaders(r.headers)
				records = after
			}
		}
		if r, _, ok := cutRecord(in); ok {
			_, _ = d.cutHeaders(r.headers)
		}
		_, _ = Parse(in)
		_ = WholeBatchFollows(in, 0)
	})
}
