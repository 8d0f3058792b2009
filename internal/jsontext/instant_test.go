package jsontext

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Package time is the oracle, for each day that the layout can represent and for texts that are not instants.
func TestInstantsAreWrittenAndReadAsTheLibraryDoes(t *testing.T) {
	t.Parallel()
	const day = 24 * 60 * 60 * 1000
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()-1
	random := rand.New(rand.NewPCG(1, 2))
	for begin := first; begin <= last; begin += day {
		same(t, begin+random.Int64N(day))
	}
	for _, i := range []int64{1, -1, 0, first, first - 1, last, last + 1, -day, day - 1} {
		same(t, i)
	}
}

func same(t *testing.T, i int64) {
	text := string(AppendMillis(nil, i))
	if want := time.UnixMilli(i).UTC().Format(InstantLayout); text != want {
		t.Fatalf("%d is written as %s instead of %s", i, text, want)
	}
	if read, ok := ParseMillis([]byte(text)); len(text) == len(InstantLayout) && (!ok || read != i) {
		t.Fatalf("%s is read as %d (%t) instead of %d", text, read, ok, i)
	}
}

func FuzzInstantsAreReadAsTheLibraryDoes(f *testing.F) {
	for _, text := range []string{"2026-11-21T14:00:00.123Z", "2025-02-29T00:00:00.000Z", "2000-02-29T23:59:59.999Z", "1900-02-29T23:59:59.999Z", "2026-13-01T00:00:00.000Z", "2026-00-10T00:00:60.000Z", "2026-04-31T24:00:00.000Z"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := ParseMillis(b)
		want, err := time.Parse(InstantLayout, string(b))
		exact := err == nil && want.Format(InstantLayout) == string(b)
		if ok != exact || ok && got != want.UnixMilli() {
			t.Fatalf("%q is read as %d, %t, and by the library as %s, %v", b, got, ok, want, err)
		}
	})
}

func BenchmarkInstant(b *testing.B) {
	at := time.Date(2026, 11, 21, 14, 3, 5, 123e6, time.UTC).UnixMilli()
	text := AppendMillis(nil, at)
	b.Run("write", func(b *testing.B) {
		var room [32]byte
		for b.Loop() {
			AppendMillis(room[:0], at)
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			ParseMillis(text)
		}
	})
}
