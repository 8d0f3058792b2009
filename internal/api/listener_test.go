package api_test

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// endless is a listener to which somebody always connects.
type endless struct{ net.Listener }

func (endless) Accept() (net.Conn, error) {
	c, _ := net.Pipe()
	return c, nil
}

func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := api.Bounded(endless{}, 2)
		var open []net.Conn
		go func() {
			for range 4 {
				c, err := l.Accept()
				require.NoError(t, err)
				open = append(open, c)
			}
		}()
		synctest.Wait()
		require.Len(t, open, 2, "the third waits")
		require.NoError(t, open[0].Close())
		require.NoError(t, open[0].Close(), "a second close makes no more room")
		synctest.Wait()
		require.Len(t, open, 3)
		require.NoError(t, open[1].Close())
		synctest.Wait()
		require.Len(t, open, 4)
	})
}
