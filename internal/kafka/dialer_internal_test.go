package kafka

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A broker is reached that takes three seconds to connect: its name server is slow, or the first address of its name is dead.
func TestASlowBrokerIsReached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDialer(&ClusterConfig{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			select {
			case <-time.After(3 * time.Second):
				a, _ := net.Pipe()
				return a, nil
			case <-ctx.Done():
				return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
			}
		}})
		defer d.close()
		var err error
		for range 100 {
			if _, err = d.dial(t.Context(), "tcp", "broker:9092"); err == nil {
				return
			}
			time.Sleep(time.Second)
		}
		require.NoError(t, err, "not in 100 tries; the client's default of 10 s is enough")
	})
}
