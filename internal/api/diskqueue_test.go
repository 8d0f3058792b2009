package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

func TestADiskQueueKeepsTheOrderThroughMemoryAndDisk(t *testing.T) {
	t.Parallel()
	s := newDiskQueue(t.Context(), semaphore.NewWeighted(queuesDisk))
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

// unread is a client that reads no answer before reads is closed.
type unread struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (u *unread) Write(b []byte) (int, error) {
	<-u.reads
	return u.ResponseRecorder.Write(b)
}

// The answer to a line may be a hundred times as long as the line, so a client that reads none could fill the disk.
func TestABulkIsReadNoFurtherWhileItsAnswersHaveNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, room = 150_000, 1 << 20
		disk := semaphore.NewWeighted(room)
		s := &submissions{limit: func() int { return 100 }, disk: disk, lines: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x"}, []string{"status"})}
		body := bytes.NewReader(bytes.Repeat([]byte("1\n"), n))
		client := &unread{httptest.NewRecorder(), make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.bulk(client, httptest.NewRequest(http.MethodPost, "/v1/tasks", io.NopCloser(body)))
		}()
		synctest.Wait()
		require.Greater(t, body.Len(), n, "more than half of the body was read")
		require.False(t, disk.TryAcquire(queueChunk), "it waits though there is room")
		close(client.reads)
		<-done
		require.Zero(t, body.Len())
		require.Equal(t, n, bytes.Count(client.Body.Bytes(), []byte("\n")))
		require.True(t, disk.TryAcquire(room), "all room is free again")
	})
}

func TestADiskQueueThatIsClosedEndsAWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const room = 3 * queueChunk
		disk := semaphore.NewWeighted(room)
		q, other := newDiskQueue(t.Context(), disk), newDiskQueue(t.Context(), disk)
		require.NoError(t, q.add(make([]byte, queueMemory)))
		require.NoError(t, other.add(make([]byte, queueMemory)))
		added := make(chan error, 1)
		go func() { added <- q.add(make([]byte, room+1)) }()
		synctest.Wait()
		require.Empty(t, added)
		require.EqualValues(t, room, q.written)
		go other.add(make([]byte, 1))
		synctest.Wait()
		require.Zero(t, other.written)
		q.close()
		require.NoError(t, <-added)
		synctest.Wait()
		require.EqualValues(t, 1, other.written, "the room of a client that left is free")
		other.close()
		require.True(t, disk.TryAcquire(room))
	})
}
