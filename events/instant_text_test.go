package events

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The library's own calendar is the oracle, for each day that the layout can say, and for all that is no instant.
func TestInstantsAreWrittenAndReadAsTheLibraryDoes(t *testing.T) {
	t.Parallel()
	require.Equal(t, At(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), firstInstant)
	require.Equal(t, At(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC))-1, lastInstant)
	random := rand.New(rand.NewPCG(1, 2))
	for day := firstInstant; day <= lastInstant; day += dayMillis {
		same(t, day+Instant(random.IntN(dayMillis)))
	}
	for _, i := range []Instant{1, -1, firstInstant, firstInstant - 1, lastInstant, lastInstant + 1, zeroTime, zeroTime + 1, -dayMillis, dayMillis - 1} {
		same(t, i)
	}
}

func same(t *testing.T, i Instant) {
	if i == 0 {
		return
	}
	text := string(i.append(nil))
	if want := i.Time().Format(instantLayout); text != want {
		t.Fatalf("%d is written as %s instead of %s", i, text, want)
	}
	if read, ok := parseWritten([]byte(text)); len(text) == len(instantLayout) && (!ok || read != At(i.Time())) {
		t.Fatalf("%s is read as %d (%t) instead of %d", text, read, ok, i)
	}
}

func FuzzInstantsAreReadAsTheLibraryDoes(f *testing.F) {
	for _, text := range []string{"2026-11-21T14:00:00.123Z", "2025-02-29T00:00:00.000Z", "2000-02-29T23:59:59.999Z", "1900-02-29T23:59:59.999Z", "2026-13-01T00:00:00.000Z", "2026-00-10T00:00:60.000Z", "2026-04-31T24:00:00.000Z"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := parseWritten(b)
		want, err := time.Parse(instantLayout, string(b))
		exact := err == nil && want.Format(instantLayout) == string(b)
		if ok != exact || ok && got != At(want) {
			t.Fatalf("%q is read as %d, %t, and by the library as %s, %v", b, got, ok, want, err)
		}
	})
}

func BenchmarkInstant(b *testing.B) {
	at := At(time.Date(2026, 11, 21, 14, 3, 5, 123e6, time.UTC))
	text := []byte(at.String())
	b.Run("write", func(b *testing.B) {
		var room [32]byte
		for b.Loop() {
			at.append(room[:0])
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			parseWritten(text)
		}
	})
}
