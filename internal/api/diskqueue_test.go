package api

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADiskQueueKeepsTheOrderThroughMemoryAndDisk(t *testing.T) {
	t.Parallel()
	s := newDiskQueue()
	defer s.close()
	var want, got bytes.Buffer
	add := func(n int) {
		for range n {
			line := fmt.Appendf(nil, "%d\n", want.Len())
			want.Write(line)
			require.NoError(t, s.add(line))
		}
	}
	take := func() bool {
		b, more := s.next()
		got.Write(b)
		return more
	}
	for range 3 {
		add(200_000) // more than queueMemory, so the rest is on disk
		take()
		add(10) // memory has room, but these still come after the lines on disk
		for got.Len() < want.Len() {
			take()
		}
		add(5)
	}
	s.end()
	for take() {
	}
	require.Equal(t, want.String(), got.String())
	s.close()
	require.NoError(t, s.add([]byte("late")), "a reader that has left does not stop the writer")
}
