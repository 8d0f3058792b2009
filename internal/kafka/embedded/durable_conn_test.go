package embedded

import (
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// Requests are recognized in the stream however it is split, and each answer is matched to its request. A request that
// is never answered counts as carried out once the broker has answered two later ones.
func TestRequestsAreFoundInTheirStream(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	commits := newCommits(func(written) error { return nil }, slog.New(slog.DiscardHandler))
	defer commits.close()
	client, server := localPair(t)
	held := &heldConn{Conn: server, commits: commits}

	const n = 2_000
	stream, sizes, silent, changes := requestStream(random, n)
	var g errgroup.Group
	g.Go(func() error {
		pieces := rand.New(rand.NewPCG(seed, 2))
		for left := stream; len(left) > 0; {
			k := min(1+pieces.IntN(500), len(left))
			if _, err := client.Write(left[:k]); err != nil {
				return err
			}
			left = left[k:]
		}
		return nil
	})
	g.Go(func() error { _, err := io.Copy(io.Discard, client); return err })
	for i := range n {
		// Read as the broker does: first the length, then the rest.
		got := make([]byte, 4+sizes[i])
		_, err := io.ReadFull(held, got[:4])
		require.NoError(t, err)
		_, err = io.ReadFull(held, got[4:])
		require.NoError(t, err)
		require.EqualValues(t, i, binary.BigEndian.Uint32(got[requestCorrAt:]))
		require.EqualValues(t, i+1, commits.requests)
		if !silent[i] {
			answer := make([]byte, answerHead+1)
			binary.BigEndian.PutUint32(answer[answerCorrAt:], uint32(i))
			_, err = held.Write(answer)
			require.NoError(t, err)
			require.Empty(t, held.unanswered)
		}
		require.LessOrEqual(t, len(held.unanswered), 2)
	}
	require.Equal(t, changes, asked(commits))
	var left uint64
	for _, r := range held.unanswered {
		require.Less(t, r.kind, kinds)
		left++
	}
	require.Equal(t, changes-left, commits.carried())

	// The other requests are lost with the connection, and count as carried out once a later request is answered.
	require.NoError(t, held.Close())
	require.Equal(t, changes-left, commits.carried())
	require.NoError(t, held.Close())
	require.NoError(t, g.Wait())
	commits.carriedOut(request{number: commits.requests, kind: readsLog})
	require.Equal(t, changes-left, commits.carried(), "that request reached the broker before")
	commits.carriedOut(request{number: commits.asked(readsLog), kind: readsLog})
	require.Equal(t, changes, commits.carried())
}

func asked(c *commits) (n uint64) {
	for _, t := range c.changes {
		n += t.asked
	}
	return n
}

// requestStream returns n requests of random kinds and lengths, joined, and says which of them get no answer.
func requestStream(random *rand.Rand, n int) (stream []byte, sizes []int, silent []bool, changes uint64) {
	keys := []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.Heartbeat, kmsg.OffsetCommit, kmsg.DeleteRecords, kmsg.Metadata}
	sizes, silent = make([]int, n), make([]bool, n)
	for i := range n {
		key := keys[random.IntN(len(keys))]
		if requestKinds[key] < kinds {
			changes++
			silent[i] = random.IntN(4) == 0
		}
		body := make([]byte, 8+random.IntN(300))
		binary.BigEndian.PutUint16(body, uint16(key))
		binary.BigEndian.PutUint32(body[4:], uint32(i))
		stream = binary.BigEndian.AppendUint32(stream, uint32(len(body)))
		stream = append(stream, body...)
		sizes[i] = len(body)
	}
	return stream, sizes, silent, changes
}

func TestGarbageEndsTheConnection(t *testing.T) {
	t.Parallel()
	commits := newCommits(func(written) error { return nil }, slog.New(slog.DiscardHandler))
	defer commits.close()
	client, server := localPair(t)
	held := &heldConn{Conn: server, commits: commits}
	_, err := client.Write([]byte{0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0})
	require.NoError(t, err)
	_, err = io.ReadFull(held, make([]byte, 12))
	require.ErrorIs(t, err, errNoRequest)
}
