package embedded

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

func localPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client, server = newLocalConn(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092})
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// Bytes written in pieces of any size, in both directions at once, are read in pieces of any other size.
func TestALocalConnectionKeepsBytesInOrder(t *testing.T) {
	t.Parallel()
	client, server := localPair(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	var g errgroup.Group
	for i, way := range [][2]net.Conn{{client, server}, {server, client}} {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		sent := make([]byte, 8<<20)
		for at := range sent {
			sent[at] = byte(random.Uint32())
		}
		sizes := []int{1, 4, 100, 32 << 10, localStreamMax, localStreamMax + 1, 3 * localStreamMax}
		g.Go(func() error {
			for left := sent; len(left) > 0; {
				n := min(1+random.IntN(sizes[random.IntN(len(sizes))]), len(left))
				if m, err := way[0].Write(left[:n]); err != nil || m != n {
					return err
				}
				left = left[n:]
			}
			return nil
		})
		g.Go(func() error {
			got := make([]byte, len(sent))
			readSizes := rand.New(rand.NewPCG(seed, uint64(10+i)))
			for at := 0; at < len(got); {
				n, err := way[1].Read(got[at:min(len(got), at+1+readSizes.IntN(100_000))])
				if err != nil {
					return err
				}
				at += n
			}
			require.True(t, bytes.Equal(sent, got))
			return nil
		})
	}
	require.NoError(t, g.Wait())
}

func TestALocalConnectionEndsAsASocketDoes(t *testing.T) {
	t.Parallel()
	client, server := localPair(t)
	_, err := client.Write([]byte("the last words"))
	require.NoError(t, err)
	require.NoError(t, client.Close())
	rest, err := io.ReadAll(server)
	require.NoError(t, err)
	require.Equal(t, "the last words", string(rest))
	_, err = server.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	_, err = client.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = client.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestCloseEndsWaitsOnALocalConnection(t *testing.T) {
	t.Parallel()
	client, server := localPair(t)
	var g errgroup.Group
	g.Go(func() error {
		_, err := client.Write(make([]byte, localStreamMax))
		require.NoError(t, err)
		_, err = client.Write(make([]byte, localStreamMax))
		require.ErrorIs(t, err, syscall.EPIPE)
		return nil
	})
	_, err := io.ReadFull(server, make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, server.Close())
	require.NoError(t, g.Wait())

	client, server = localPair(t)
	g.Go(func() error {
		_, err := server.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		return nil
	})
	require.NoError(t, client.Close())
	require.NoError(t, g.Wait())
}

func TestALocalConnectionKeepsDeadlines(t *testing.T) {
	t.Parallel()
	client, server := localPair(t)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	_, err := client.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())

	// A later deadline, or none, replaces it.
	require.NoError(t, client.SetReadDeadline(time.Time{}))
	_, err = server.Write([]byte("x"))
	require.NoError(t, err)
	_, err = client.Read(make([]byte, 1))
	require.NoError(t, err)

	require.NoError(t, client.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
	_, err = client.Write(make([]byte, localStreamMax))
	require.NoError(t, err)
	n, err := client.Write([]byte("x"))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Zero(t, n)

	// Setting a deadline, or moving it forward, ends a wait that has begun.
	require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Hour)))
	var g errgroup.Group
	g.Go(func() error {
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		return nil
	})
	require.NoError(t, client.SetDeadline(time.Now()))
	require.NoError(t, g.Wait())
}

// Concurrent writers are allowed, as on any net.Conn: the bytes of each write stay together.
func TestWritersOfALocalConnectionDoNotMix(t *testing.T) {
	t.Parallel()
	client, server := localPair(t)
	const blocks, least = 200, 32 << 10
	var g errgroup.Group
	for i := range 4 {
		g.Go(func() error {
			for {
				n, err := client.Write(bytes.Repeat([]byte{byte(i)}, least+i))
				if err != nil {
					return nil
				}
				if n != least+i {
					return fmt.Errorf("wrote %d bytes", n)
				}
			}
		})
	}
	block := make([]byte, least+4)
	for range blocks {
		_, err := io.ReadFull(server, block[:1])
		require.NoError(t, err)
		size := least + int(block[0])
		_, err = io.ReadFull(server, block[1:size])
		require.NoError(t, err)
		require.Equal(t, size, bytes.Count(block[:size], block[:1]))
	}
	require.NoError(t, server.Close())
	require.NoError(t, g.Wait())
}
